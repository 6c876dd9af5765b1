//! The control socket: how commands reach a running server. One line of JSON each way.

use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixListener;
use tokio::net::unix::OwnedWriteHalf;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use weir_base::MIB;
use weir_jobs::Jobs;

use crate::command::{self, Command, Told, Unserved};
use crate::config::Loaded;
use crate::data_dir::DataDir;
use crate::parts::Parts;
use crate::{output, site, work};

/// The socket's name in the data directory.
const NAME: &str = "control.sock";
/// The longest command, in bytes.
const COMMAND_BYTES_MAX: usize = MIB;
/// The most commands at once; more wait.
const COMMANDS_MAX: usize = 16;
/// How long a command may say nothing before whoever gave it gives up.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(600);
/// How often a command that takes long says how far it is.
const PROGRESS_EACH: Duration = Duration::from_secs(1);
/// The longest path that a socket's address holds, in bytes.
const PATH_BYTES_MAX: usize = 107;

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    /// How far it is; the answer comes later.
    Progress(Value),
    Done(Value),
    Failed(String),
}

/// Runs `command` in the server that uses the data directory, or here when there is none.
///
/// # Errors
/// One line that says what to do.
pub fn run(loaded: &Loaded, command: Command) -> Result<Value, String> {
    if let Some(path) = DataDir::in_use(&loaded.config.data) {
        return ask(&path, &command);
    }
    let unserved = match &command {
        Command::Jobs(command) => command.unserved(&loaded.config),
        _ => Unserved::Done,
    };
    let nobody = |so: &str| format!("no server uses {}: {so}", loaded.config.data.display());
    if let Unserved::Refused(remedy) = unserved {
        return Err(nobody(remedy));
    }
    let (parts, data) = open_here(loaded)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    let done = runtime.block_on(async {
        work::reach(&loaded.config, &parts.jobs, data.path())?;
        let execute = |told| command::execute(&parts, command, told);
        let (mut doing, mut shown) = (Doing::start(execute), false);
        loop {
            let answer = doing.next().await;
            if let Some(last) = shown_or_last(answer, &mut shown) {
                return last;
            }
        }
    });
    if let (Ok(_), Unserved::Told(so)) = (&done, unserved) {
        output::note(&nobody(so));
    }
    done
}

/// Whether a server uses the data directory.
pub fn is_served(loaded: &Loaded) -> bool {
    DataDir::in_use(&loaded.config.data).is_some()
}

/// Shows how far a command is, or gives its answer.
fn shown_or_last(answer: Answer, shown: &mut bool) -> Option<Result<Value, String>> {
    if let Answer::Progress(value) = &answer {
        output::progress(value);
        *shown = true;
        return None;
    }
    if *shown {
        output::progress_ends();
    }
    match answer {
        Answer::Done(value) => Some(Ok(value)),
        Answer::Failed(reason) => Some(Err(reason)),
        Answer::Progress(_) => None,
    }
}

/// Opens the parts in this process, which holds the data directory meanwhile.
///
/// # Errors
/// One line that says what to do.
pub fn open_here(loaded: &Loaded) -> Result<(Parts, DataDir), String> {
    let path = &loaded.config.data;
    // A name that was mistyped leaves nothing behind.
    if loaded.config.domain.is_empty() && !path.exists() {
        return Err(format!(
            "there is no data directory {}; name the one that `weir serve` uses with --data, or \
             set `domain` in weir.toml (or WEIR_DOMAIN) to begin one",
            path.display()
        ));
    }
    let data = DataDir::open_own(path).map_err(|error| error.to_string())?;
    let site = site::recall(&data, &loaded.config).map_err(|error| error.to_string())?;
    let parts = Parts::open(&loaded.config, data.path(), site);
    Ok((parts.map_err(|error| error.to_string())?, data))
}

fn ask(data: &Path, command: &Command) -> Result<Value, String> {
    let failed = |error: io::Error| {
        format!(
            "a weir uses {} but does not answer ({error}); try again when it has logged \"ready\"",
            data.display()
        )
    };
    let exchange = || {
        let address = Address::of(data)?;
        let mut stream = UnixStream::connect(&address.path)?;
        stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        let mut line = serde_json::to_string(command)?;
        line.push('\n');
        stream.write_all(line.as_bytes())?;
        let (mut answers, mut shown) = (BufReader::new(stream), false);
        loop {
            let mut answer = String::new();
            answers.read_line(&mut answer)?;
            let answer = serde_json::from_str(&answer)?;
            if let Some(last) = shown_or_last(answer, &mut shown) {
                return Ok(last);
            }
        }
    };
    exchange().map_err(failed)?
}

/// Where the socket is: its path, or where that is too long for the system a shorter one through
/// an open directory.
struct Address {
    path: PathBuf,
    _directory: Option<std::fs::File>,
}

impl Address {
    fn of(data: &Path) -> io::Result<Self> {
        let path = data.join(NAME);
        if path.as_os_str().len() <= PATH_BYTES_MAX {
            return Ok(Self { path, _directory: None });
        }
        let directory = std::fs::File::open(data)?;
        let path = PathBuf::from(format!("/proc/self/fd/{}/{NAME}", directory.as_raw_fd()));
        Ok(Self { path, _directory: Some(directory) })
    }
}

/// Lets `weir jobs` reach `jobs`, which lie in `directory` for as long as this process runs, and
/// tells the command that watches them.
///
/// # Errors
/// One line that says why that cannot be.
pub fn serve_jobs(jobs: &Jobs, directory: &Path) -> Result<String, String> {
    let data = DataDir::open(directory).map_err(|error| error.to_string())?;
    let socket = ControlSocket::bind(&data).map_err(|error| error.to_string())?;
    let (jobs, watch) = (jobs.clone(), format!("weir jobs watch --data {}", data.path().display()));
    tokio::spawn(async move {
        socket.serve(Served::Jobs(jobs), CancellationToken::new()).await;
        // Whoever finds it locked knows that it is served.
        drop(data);
    });
    Ok(watch)
}

/// What a control socket leads to.
#[derive(Clone)]
pub enum Served {
    /// A server.
    Everything(Arc<Parts>),
    /// Jobs alone.
    Jobs(Jobs),
}

impl Served {
    async fn execute(&self, command: Command, told: Told) -> Result<Value, String> {
        match (self, command) {
            (Self::Everything(parts), command) => command::execute(parts, command, told).await,
            (Self::Jobs(jobs), Command::Jobs(command)) => {
                command::execute_jobs(jobs, command, told).await
            }
            _ => Err("there are only jobs here, and no community".into()),
        }
    }
}

/// The listening control socket of a server.
pub struct ControlSocket {
    listener: UnixListener,
    path: PathBuf,
}

impl ControlSocket {
    /// Listens in the data directory, where the lock says that nobody else does.
    ///
    /// # Errors
    /// What the system says.
    pub fn bind(data: &DataDir) -> io::Result<Self> {
        let path = data.path().join(NAME);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(&Address::of(data.path())?.path)?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
        Ok(Self { listener, path })
    }

    /// Answers commands until `shutdown` is cancelled.
    pub async fn serve(self, served: Served, shutdown: CancellationToken) {
        let places = Arc::new(Semaphore::new(COMMANDS_MAX));
        loop {
            let accepted = tokio::select! {
                () = shutdown.cancelled() => break,
                accepted = self.listener.accept() => accepted,
            };
            let (Ok((stream, _)), Ok(place)) = (accepted, places.clone().acquire_owned().await)
            else {
                continue;
            };
            let served = served.clone();
            tokio::spawn(async move {
                if let Err(error) = answer(&served, stream).await {
                    tracing::debug!(%error, "a command was not answered");
                }
                drop(place);
            });
        }
        let _ = std::fs::remove_file(&self.path);
    }
}

async fn answer(served: &Served, stream: tokio::net::UnixStream) -> io::Result<()> {
    let (read, mut write) = stream.into_split();
    let mut line = String::new();
    let mut read = tokio::io::BufReader::new(read.take(COMMAND_BYTES_MAX as u64));
    tokio::time::timeout(Duration::from_secs(10), read.read_line(&mut line)).await??;
    let answer = match serde_json::from_str(&line) {
        Ok(command) => {
            let mut doing = Doing::start(|told| served.execute(command, told));
            loop {
                let answer = doing.next().await;
                if !matches!(answer, Answer::Progress(_)) {
                    break answer;
                }
                // An error: nobody listens any more, so it stops here.
                send(&mut write, &answer).await?;
            }
        }
        // The program may have been replaced since the server started.
        Err(error) => Answer::Failed(format!(
            "the running server does not know this command ({error}); restart it if it is older"
        )),
    };
    send(&mut write, &answer).await
}

async fn send(write: &mut OwnedWriteHalf, answer: &Answer) -> io::Result<()> {
    let mut line = serde_json::to_string(answer)?;
    line.push('\n');
    write.write_all(line.as_bytes()).await
}

/// A command that is being done.
struct Doing<'p> {
    done: Pin<Box<dyn Future<Output = Result<Value, String>> + Send + 'p>>,
    heard: tokio::sync::watch::Receiver<Value>,
    each: tokio::time::Interval,
}

impl<'p> Doing<'p> {
    fn start<F>(execute: impl FnOnce(Told) -> F) -> Self
    where
        F: Future<Output = Result<Value, String>> + Send + 'p,
    {
        let (told, heard) = tokio::sync::watch::channel(Value::Null);
        let mut each = tokio::time::interval(PROGRESS_EACH);
        // The first would come at once.
        each.reset();
        Self { done: Box::pin(execute(Arc::new(told))), heard, each }
    }

    /// How far it is now and then, and in the end the answer.
    async fn next(&mut self) -> Answer {
        loop {
            tokio::select! {
                done = &mut self.done => {
                    return match done {
                        Ok(value) => Answer::Done(value),
                        Err(reason) => Answer::Failed(reason),
                    };
                }
                _ = self.each.tick() => {
                    let value = self.heard.borrow_and_update().clone();
                    if !value.is_null() {
                        return Answer::Progress(value);
                    }
                }
            }
        }
    }
}
