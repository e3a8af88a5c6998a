//! Sending spans: in batches, by one task, from a queue that never grows. What does not fit is
//! dropped and counted; a collector that is slow or away slows down nobody.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, HOST};
use axum::http::{Request, Uri};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};

use super::span::{Span, request};

/// Spans that wait to be sent.
const WAITING_MAX: usize = 4_096;
/// Spans in one request.
const BATCH_MAX: usize = 512;
/// How long spans wait for company.
const GATHER: Duration = Duration::from_millis(500);
/// How long a request may take.
const SENT_WITHIN: Duration = Duration::from_secs(10);
/// How long the server waits for the last spans when it stops.
const FLUSHED_WITHIN: Duration = Duration::from_secs(2);
/// Where collectors take traces, below the endpoint.
const PATH: &str = "/v1/traces";

static SENT: AtomicU64 = AtomicU64::new(0);
static DROPPED: AtomicU64 = AtomicU64::new(0);

/// Tells how many spans were sent and dropped: a name, what it is, and the figure.
pub(crate) fn figures(mut tell: impl FnMut(&'static str, &'static str, f64)) {
    let read = |count: &AtomicU64| count.load(Ordering::Relaxed) as f64;
    tell("windrow_spans_sent_total", "Spans that the collector took.", read(&SENT));
    tell(
        "windrow_spans_dropped_total",
        "Spans that were lost: too many at once, or not taken.",
        read(&DROPPED),
    );
}

#[derive(Debug)]
enum Message {
    Span(Box<Span>),
    /// Send what waits, and say so.
    Flush(oneshot::Sender<()>),
}

/// The way to the collector.
#[derive(Debug)]
pub(super) struct Exporter {
    queue: mpsc::Sender<Message>,
}

impl Exporter {
    pub(super) fn begin(endpoint: &str) -> anyhow::Result<Exporter> {
        let collector = Collector::parse(endpoint)?;
        let (queue, waiting) = mpsc::channel(WAITING_MAX);
        tokio::spawn(export(collector, waiting));
        Ok(Exporter { queue })
    }

    pub(super) fn send(&self, span: Span) {
        if self.queue.try_send(Message::Span(Box::new(span))).is_err() {
            DROPPED.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) async fn flush(&self) {
        let (done, flushed) = oneshot::channel();
        let flush = async {
            if self.queue.send(Message::Flush(done)).await.is_ok() {
                // If the task is gone there is nothing left to wait for.
                let _flushed = flushed.await;
            }
        };
        let _in_time = tokio::time::timeout(FLUSHED_WITHIN, flush).await;
    }
}

async fn export(collector: Collector, mut waiting: mpsc::Receiver<Message>) {
    let mut messages = Vec::with_capacity(BATCH_MAX);
    while waiting.recv_many(&mut messages, BATCH_MAX).await > 0 {
        if messages.len() < BATCH_MAX && !messages.iter().any(is_flush) {
            tokio::time::sleep(GATHER).await;
            while messages.len() < BATCH_MAX
                && let Ok(message) = waiting.try_recv()
            {
                messages.push(message);
            }
        }
        let (mut spans, mut flushes) = (Vec::new(), Vec::new());
        for message in messages.drain(..) {
            match message {
                Message::Span(span) => spans.push(*span),
                Message::Flush(done) => flushes.push(done),
            }
        }
        if !spans.is_empty() {
            collector.deliver(&spans).await;
        }
        for done in flushes {
            // Whoever asked may not wait any more.
            let _waits = done.send(());
        }
    }
}

fn is_flush(message: &Message) -> bool {
    matches!(message, Message::Flush(_))
}

/// Where spans go.
#[derive(Debug)]
struct Collector {
    host: String,
    port: u16,
    path: String,
}

impl Collector {
    fn parse(endpoint: &str) -> anyhow::Result<Collector> {
        let wrong = "otel.endpoint: write http://host:port of an OTLP collector; its TLS is left \
                     to a collector on this machine";
        let uri: Uri = endpoint.parse().ok().context(wrong)?;
        anyhow::ensure!(uri.scheme_str() == Some("http"), wrong);
        let authority = uri.authority().context(wrong)?;
        anyhow::ensure!(!authority.as_str().contains('@'), wrong);
        let path = format!("{}{PATH}", uri.path().trim_end_matches('/'));
        let host = authority.host().to_owned();
        Ok(Collector { host, port: authority.port_u16().unwrap_or(80), path })
    }

    /// Sends spans once. What the collector does not take is lost, and counted.
    async fn deliver(&self, spans: &[Span]) {
        let sent = tokio::time::timeout(SENT_WITHIN, self.post(request(spans).to_string())).await;
        let count = spans.len() as u64;
        let reason = match sent {
            Ok(Ok(())) => {
                SENT.fetch_add(count, Ordering::Relaxed);
                return;
            }
            Ok(Err(error)) => format!("{error:#}"),
            Err(_) => "the collector has not answered in time".to_owned(),
        };
        DROPPED.fetch_add(count, Ordering::Relaxed);
        crate::logs::not_exported(spans.len(), &reason);
    }

    async fn post(&self, body: String) -> anyhow::Result<()> {
        let host = self.host.trim_start_matches('[').trim_end_matches(']');
        let stream = TcpStream::connect((host, self.port)).await?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        // It ends with the sender; what it dies of shows in the answer.
        tokio::spawn(connection);
        let request = Request::post(&self.path)
            .header(HOST, format!("{}:{}", self.host, self.port))
            .header(CONTENT_TYPE, "application/json")
            .body(Body::from(body))?;
        let status = sender.send_request(request).await?.status();
        anyhow::ensure!(status.is_success(), "the collector answered {}", status.as_u16());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_read_or_refused() {
        let read =
            |endpoint: &str| Collector::parse(endpoint).map(|to| (to.host, to.port, to.path)).ok();
        let local = Some(("127.0.0.1".to_owned(), 4318, "/v1/traces".to_owned()));
        assert_eq!(read("http://127.0.0.1:4318"), local);
        assert_eq!(read("http://127.0.0.1:4318/"), local);
        let below = Some(("c".to_owned(), 80, "/otlp/v1/traces".to_owned()));
        assert_eq!(read("http://c/otlp"), below);
        for wrong in ["", "127.0.0.1:4318", "https://c:4318", "http://me:pass@c:4318", "grpc://c"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
