//! What SQLite does for each statement on one database, whoever runs it.

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, Once};

use rusqlite::ffi;

/// What one statement took.
#[derive(Debug, Clone, Copy, Default)]
pub struct Cost {
    pub runs: u64,
    /// Steps of SQLite's machine in one run: a few for each row or entry that it looks at.
    pub steps_max: i64,
    /// Pages that it asked for in one run, found in memory or not.
    pub pages_max: i64,
}

/// By the text of the statement.
type Costs = Mutex<BTreeMap<String, Cost>>;

static WATCHED: Mutex<Vec<(PathBuf, &'static Costs)>> = Mutex::new(Vec::new());

/// Watches all connections that are opened from now on to the database in file `path`.
pub fn watch(path: &Path) -> &'static Costs {
    static TOLD: Once = Once::new();
    TOLD.call_once(|| {
        // SAFETY: `opened` is what SQLite calls with each new connection, and lives for ever.
        let code = unsafe { ffi::sqlite3_auto_extension(Some(opened)) };
        assert_eq!(code, ffi::SQLITE_OK);
    });
    let costs: &'static Costs = Box::leak(Box::default());
    WATCHED.lock().unwrap().push((path.canonicalize().unwrap(), costs));
    costs
}

/// A connection was opened.
unsafe extern "C" fn opened(
    connection: *mut ffi::sqlite3,
    _: *mut *mut c_char,
    _: *const ffi::sqlite3_api_routines,
) -> c_int {
    // SAFETY: the connection is open, and its file's name, if it has one, ends with a zero and
    // lives as long as the connection.
    let name = unsafe {
        let name = ffi::sqlite3_db_filename(connection, c"main".as_ptr());
        if name.is_null() {
            return ffi::SQLITE_OK;
        }
        CStr::from_ptr(name)
    };
    let Ok(path) = Path::new(&*name.to_string_lossy()).canonicalize() else {
        return ffi::SQLITE_OK;
    };
    let Ok(watched) = WATCHED.lock() else { return ffi::SQLITE_OK };
    let Some((_, costs)) = watched.iter().find(|(known, _)| *known == path) else {
        return ffi::SQLITE_OK;
    };
    let costs = std::ptr::from_ref::<Costs>(costs).cast_mut().cast::<c_void>();
    // SAFETY: the connection is open, and what `ran` is given lives for ever.
    unsafe { ffi::sqlite3_trace_v2(connection, ffi::SQLITE_TRACE_PROFILE, Some(ran), costs) }
}

/// A statement was run.
unsafe extern "C" fn ran(
    _: c_uint,
    costs: *mut c_void,
    statement: *mut c_void,
    _: *mut c_void,
) -> c_int {
    let statement = statement.cast::<ffi::sqlite3_stmt>();
    // SAFETY: the context is what `opened` gave, and the statement is the one that ran: it is there
    // until this returns, on the one thread that uses its connection.
    let (costs, sql, steps, pages) = unsafe {
        let connection = ffi::sqlite3_db_handle(statement);
        let pages = [ffi::SQLITE_DBSTATUS_CACHE_HIT, ffi::SQLITE_DBSTATUS_CACHE_MISS].map(|what| {
            let (mut now, mut most) = (0, 0);
            ffi::sqlite3_db_status(connection, what, &raw mut now, &raw mut most, 1);
            i64::from(now)
        });
        let steps = ffi::sqlite3_stmt_status(statement, ffi::SQLITE_STMTSTATUS_VM_STEP, 1);
        let sql = CStr::from_ptr(ffi::sqlite3_sql(statement));
        (&*costs.cast::<Costs>(), sql.to_string_lossy(), steps, pages)
    };
    if let Ok(mut costs) = costs.lock() {
        let cost = costs.entry(sql.into_owned()).or_default();
        cost.runs += 1;
        cost.steps_max = cost.steps_max.max(i64::from(steps));
        cost.pages_max = cost.pages_max.max(pages.iter().sum());
    }
    0
}
