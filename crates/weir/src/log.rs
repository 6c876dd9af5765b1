//! The log, on standard error.

use std::io;

use tracing_subscriber::EnvFilter;

use crate::config::{Loaded, LogFormat};

/// Starts the log. What cannot be understood of the level was refused before.
pub fn start(loaded: &Loaded) {
    let filter = EnvFilter::new(&loaded.config.log.level);
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr);
    // A second start in one process (there is none) would keep the first.
    let _ = match loaded.config.log.format {
        LogFormat::Text => lines.with_target(false).with_ansi(false).try_init(),
        LogFormat::Json => lines.json().flatten_event(true).try_init(),
    };
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use weir_base::Id;
    use weir_community::mail::{Mail, Mailer};

    use super::*;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_mail_that_only_the_log_has_stands_there_where_little_is_logged() {
        let lines = Lines::default();
        let writer = lines.clone();
        let little = tracing_subscriber::fmt()
            .with_env_filter(EnvFilter::new("warn"))
            .with_writer(move || writer.clone())
            .finish();
        let mail = Mail {
            to: "alice@mail.test".into(),
            subject: "Choose a new password".into(),
            text: "https://weir.test/link".into(),
        };
        let mailer = Mailer::to_log("weir@weir.test").unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        tracing::subscriber::with_default(little, || {
            runtime.block_on(mailer.send(&mail, Id(1), "weir.test")).unwrap();
        });
        let written = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
        assert!(written.contains(&mail.to) && written.contains(&mail.text), "{written}");
    }
}
