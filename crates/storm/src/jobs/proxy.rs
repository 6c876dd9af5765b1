//! A TCP proxy that holds back every answer for a time: a network between worker and backend.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::Instant;

/// Pieces of one connection that are on their way.
const PIECES_MAX: usize = 256;
const PIECE_BYTES: usize = 64 * 1024;

/// Listens on a free port of loopback and passes on to `target`; what comes back arrives `latency`
/// later, in order. Ends with the runtime.
///
/// # Errors
/// When no port is free.
pub async fn start(target: String, latency: Duration) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let target = target.clone();
            tokio::spawn(async move {
                // Whoever connected notices that the connection ends.
                let _ = pass(client, &target, latency).await;
            });
        }
    });
    Ok(address)
}

async fn pass(client: TcpStream, target: &str, latency: Duration) -> io::Result<()> {
    let server = TcpStream::connect(target).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (mut from_client, to_client) = client.into_split();
    let (from_server, mut to_server) = server.into_split();
    let there = async {
        tokio::io::copy(&mut from_client, &mut to_server).await?;
        to_server.shutdown().await
    };
    tokio::try_join!(there, delayed(from_server, to_client, latency)).map(|_| ())
}

async fn delayed(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    latency: Duration,
) -> io::Result<()> {
    let (sender, mut pieces) = mpsc::channel::<(Instant, Vec<u8>)>(PIECES_MAX);
    let read = async move {
        loop {
            let mut piece = vec![0; PIECE_BYTES];
            let count = from.read(&mut piece).await?;
            piece.truncate(count);
            if count == 0 || sender.send((Instant::now() + latency, piece)).await.is_err() {
                return Ok(());
            }
        }
    };
    let write = async move {
        while let Some((due, piece)) = pieces.recv().await {
            tokio::time::sleep_until(due).await;
            to.write_all(&piece).await?;
        }
        to.shutdown().await
    };
    tokio::try_join!(read, write).map(|_: ((), ())| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_goes_through_comes_back_whole_and_not_before_its_time() {
        let echo = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let target = echo.local_addr().unwrap().to_string();
        tokio::spawn(async move {
            let (mut stream, _) = echo.accept().await.unwrap();
            let (mut read, mut write) = stream.split();
            tokio::io::copy(&mut read, &mut write).await.unwrap();
        });
        let latency = Duration::from_millis(30);
        let address = start(target, latency).await.unwrap();
        let mut stream = TcpStream::connect(address).await.unwrap();
        let since = Instant::now();
        stream.write_all(&[7; 200_000]).await.unwrap();
        let mut back = vec![0; 200_000];
        stream.read_exact(&mut back).await.unwrap();
        assert!(since.elapsed() >= latency);
        assert!(back.iter().all(|byte| *byte == 7));
    }
}
