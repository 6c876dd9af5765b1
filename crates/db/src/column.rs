//! Values on their way to PostgreSQL, and columns on their way back.

use std::borrow::Cow;

use tokio_postgres::types::{IsNull, ToSql, Type, private::BytesMut, to_sql_checked};

use crate::{Error, Value};

/// Entries of a list that is sent, at least, unless it is empty: its last one is said again.
/// PostgreSQL takes whatever list for one of ten entries when it makes a plan for all of them. One
/// for a shorter list would look cheaper, and it would plan each time anew, which takes longer than
/// it saves. In a list that stands behind `IN` an entry may be twice.
pub(crate) const LIST_MIN: usize = 12;

impl ToSql for Value<'_> {
    fn to_sql(
        &self,
        kind: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        match self {
            Self::Null => Ok(IsNull::Yes),
            Self::Int(int) => match *kind {
                Type::INT4 => i32::try_from(*int)?.to_sql(kind, out),
                Type::INT2 => i16::try_from(*int)?.to_sql(kind, out),
                Type::FLOAT8 => (*int as f64).to_sql(kind, out),
                Type::BOOL => (*int != 0).to_sql(kind, out),
                Type::TEXT | Type::VARCHAR => int.to_string().to_sql(kind, out),
                _ => int.to_sql(kind, out),
            },
            Self::Real(real) => match *kind {
                Type::FLOAT4 => (*real as f32).to_sql(kind, out),
                _ => real.to_sql(kind, out),
            },
            Self::Text(text) => text.to_sql(kind, out),
            Self::Blob(blob) => blob.as_ref().to_sql(kind, out),
            // The driver would panic.
            Self::Ids(_) | Self::Texts(_) if !self.fits(kind) => Err(misfit(kind).into()),
            Self::Ids(list) => padded(list).as_ref().to_sql(kind, out),
            Self::Texts(list) => padded(list).as_ref().to_sql(kind, out),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

impl Value<'_> {
    /// Whether it is no list, or one that a parameter of type `kind` can be.
    pub(crate) fn fits(&self, kind: &Type) -> bool {
        match self {
            Self::Ids(_) => *kind == Type::INT8_ARRAY,
            Self::Texts(_) => *kind == Type::TEXT_ARRAY,
            _ => true,
        }
    }
}

/// Why a list cannot be a parameter of type `kind`.
pub(crate) fn misfit(kind: &Type) -> String {
    format!("a list for a parameter of type {kind}: lists stand behind IN only")
}

/// `list` with its last entry said so often that it has [`LIST_MIN`] of them.
fn padded<T: Clone>(list: &[T]) -> Cow<'_, [T]> {
    match list.last() {
        Some(last) if list.len() < LIST_MIN => {
            let mut list = list.to_vec();
            list.resize(LIST_MIN, last.clone());
            Cow::Owned(list)
        }
        _ => Cow::Borrowed(list),
    }
}

pub(crate) fn int(row: &tokio_postgres::Row, at: usize) -> Result<Option<i64>, Error> {
    let wrong = |_| Error::Column { column: at, expected: "BIGINT" };
    match row.columns().get(at).map(tokio_postgres::Column::type_) {
        Some(&Type::INT4) => row.try_get::<_, Option<i32>>(at).map(|int| int.map(i64::from)),
        Some(&Type::INT2) => row.try_get::<_, Option<i16>>(at).map(|int| int.map(i64::from)),
        Some(&Type::BOOL) => row.try_get::<_, Option<bool>>(at).map(|flag| flag.map(i64::from)),
        _ => row.try_get(at),
    }
    .map_err(wrong)
}

pub(crate) fn real(row: &tokio_postgres::Row, at: usize) -> Result<Option<f64>, Error> {
    let wrong = |_| Error::Column { column: at, expected: "DOUBLE PRECISION" };
    match row.columns().get(at).map(tokio_postgres::Column::type_) {
        Some(&Type::FLOAT4) => row.try_get::<_, Option<f32>>(at).map(|real| real.map(f64::from)),
        _ => row.try_get(at),
    }
    .map_err(wrong)
}

pub(crate) fn is_null(row: &tokio_postgres::Row, at: usize) -> Result<bool, Error> {
    struct Null;
    impl tokio_postgres::types::FromSql<'_> for Null {
        fn from_sql(_: &Type, _: &[u8]) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
            Ok(Self)
        }
        fn accepts(_: &Type) -> bool {
            true
        }
    }
    row.try_get::<_, Option<Null>>(at)
        .map(|value| value.is_none())
        .map_err(|_| Error::Column { column: at, expected: "a column" })
}
