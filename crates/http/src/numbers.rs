//! Numbers of requests, by method, route and status. Each is looked up once by its labels, and
//! kept: a look-up takes longer than many a handler.

use std::collections::HashMap;
use std::time::Duration;

use http::{Method, StatusCode};
use metrics::{Counter, Histogram, counter, histogram};
use parking_lot::RwLock;

/// What was counted so far; by routes, of which there are as many as in the source.
#[derive(Default)]
pub(crate) struct Numbers {
    routes: RwLock<HashMap<Box<str>, Vec<Number>>>,
}

struct Number {
    method: &'static str,
    status: StatusCode,
    requests: Counter,
    duration_seconds: Histogram,
}

impl Number {
    fn new(method: &'static str, route: &str, status: StatusCode) -> Self {
        let requests = counter!(
            "weir_http_requests_total",
            "method" => method, "route" => route.to_owned(), "status" => status.as_str().to_owned()
        );
        let duration_seconds = histogram!(
            "weir_http_request_duration_seconds", "method" => method, "route" => route.to_owned()
        );
        Self { method, status, requests, duration_seconds }
    }

    fn record(&self, elapsed: Duration) {
        self.requests.increment(1);
        self.duration_seconds.record(elapsed);
    }
}

impl Numbers {
    /// Counts a request of `route`, which is a pattern and never a path.
    pub(crate) fn record(
        &self,
        method: &Method,
        route: &str,
        status: StatusCode,
        elapsed: Duration,
    ) {
        let method = name(method);
        let is_it = |number: &&Number| number.method == method && number.status == status;
        if let Some(number) = self.routes.read().get(route).and_then(|all| all.iter().find(is_it)) {
            return number.record(elapsed);
        }
        let number = Number::new(method, route, status);
        number.record(elapsed);
        let mut routes = self.routes.write();
        let all = routes.entry(route.into()).or_default();
        // Another may have been first; both count in the same place.
        if !all.iter().any(|number| is_it(&number)) {
            all.push(number);
        }
    }
}

fn name(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::HEAD => "HEAD",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_count_by_method_route_and_status() {
        let recorder = metrics_exporter_prometheus::PrometheusBuilder::new().build_recorder();
        let counted = recorder.handle();
        metrics::with_local_recorder(&recorder, || {
            let numbers = Numbers::default();
            let record = |method: &Method, route, status| {
                numbers.record(method, route, status, Duration::from_millis(1));
            };
            for _ in 0..3 {
                record(&Method::POST, "/inbox", StatusCode::ACCEPTED);
                record(&Method::POST, "/inbox", StatusCode::UNAUTHORIZED);
            }
            record(&Method::GET, "/inbox", StatusCode::ACCEPTED);
            record(&Method::POST, "/{any}", StatusCode::ACCEPTED);
            record(&Method::from_bytes(b"BREW").unwrap(), "/inbox", StatusCode::IM_A_TEAPOT);
        });
        let text = counted.render();
        let count = |labels: &str| format!("weir_http_requests_total{{{labels}}}");
        for (labels, times) in [
            ("method=\"POST\",route=\"/inbox\",status=\"202\"", 3),
            ("method=\"POST\",route=\"/inbox\",status=\"401\"", 3),
            ("method=\"GET\",route=\"/inbox\",status=\"202\"", 1),
            ("method=\"POST\",route=\"/{any}\",status=\"202\"", 1),
            ("method=\"other\",route=\"/inbox\",status=\"418\"", 1),
        ] {
            assert!(text.contains(&format!("{} {times}\n", count(labels))), "{labels}: {text}");
        }
        let durations =
            "weir_http_request_duration_seconds_count{method=\"POST\",route=\"/inbox\"}";
        assert!(text.contains(&format!("{durations} 6\n")), "{text}");
    }
}
