//! A connection to the server under test, plain or with TLS.

use std::net::SocketAddr;

use anyhow::{Result, bail};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, ReadHalf, WriteHalf};
use tokio::net::TcpStream;

use super::wire::Cutter;
use crate::pipe::{Pipe, trusting};

/// The half that is written to.
pub(super) type Writer = WriteHalf<Box<dyn Pipe>>;

/// The half that is read from, and what came of an element that is not whole.
pub(super) struct Reader {
    half: ReadHalf<Box<dyn Pipe>>,
    cutter: Cutter,
}

/// Both halves.
pub(super) struct Link {
    pub(super) reader: Reader,
    pub(super) writer: Writer,
}

impl Reader {
    /// Waits until there is another element, and hands it to `look`; false when the stream ended.
    pub(super) async fn next<T>(&mut self, mut look: impl FnMut(&str) -> T) -> Result<Option<T>> {
        loop {
            if let Some(element) = self.cutter.next()? {
                return Ok(Some(look(element)));
            }
            if !self.more().await? {
                return Ok(None);
            }
        }
    }

    /// Every element that is there without waiting.
    pub(super) fn each_there(&mut self, mut look: impl FnMut(&str)) -> Result<()> {
        while let Some(element) = self.cutter.next()? {
            look(element);
        }
        Ok(())
    }

    /// Waits for bytes; false when there are no more.
    pub(super) async fn more(&mut self) -> Result<bool> {
        let buffer = self.cutter.buffer();
        buffer.reserve(4_096);
        Ok(self.half.read_buf(buffer).await? > 0)
    }
}

impl Link {
    pub(super) async fn open(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self::over(Box::new(stream)))
    }

    fn over(pipe: Box<dyn Pipe>) -> Self {
        let (half, writer) = tokio::io::split(pipe);
        Self { reader: Reader { half, cutter: Cutter::default() }, writer }
    }

    pub(super) async fn say(&mut self, text: &str) -> Result<()> {
        self.writer.write_all(text.as_bytes()).await?;
        Ok(self.writer.flush().await?)
    }

    /// The next element, as text of its own.
    pub(super) async fn hear(&mut self) -> Result<String> {
        match self.reader.next(str::to_owned).await? {
            Some(element) if element.starts_with("<stream:error") => bail!("{element}"),
            Some(element) => Ok(element),
            None => bail!("the server closed the connection"),
        }
    }

    /// What follows is encrypted; certificates are not looked at.
    pub(super) async fn start_tls(self, domain: &str) -> Result<Self> {
        let pipe = self.reader.half.unsplit(self.writer);
        let name = ServerName::try_from(domain.to_owned())?;
        let stream = tokio_rustls::TlsConnector::from(trusting(true)?).connect(name, pipe).await?;
        Ok(Self::over(Box::new(stream)))
    }
}
