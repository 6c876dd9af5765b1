"""`weir storm streaming` against the real server, by what its listeners can use."""

import json
import subprocess

import pytest

from conftest import WEIR
from test_xmpp_servers import certificate

CLIENTS = 30
POSTS, FLOOD = 10, 30


@pytest.fixture(scope="module")
def encrypted(serve, tmp_path_factory):
    """A server with a certificate that nobody vouches for."""
    key, cert = certificate(tmp_path_factory.mktemp("tls"), "127.0.0.1")
    return serve(extra={"WEIR_TLS_KEY": str(key), "WEIR_TLS_CERT": str(cert)})


def storm(server, tmp_path, *words):
    """What a small storm measured, and the page it wrote."""
    data, page = tmp_path / "storm.json", tmp_path / "storm.html"
    done = subprocess.run(
        [WEIR, "storm", "streaming", "--target", server.base, "--clients", str(CLIENTS),
         "--accounts", "3", "--rate", str(POSTS), "--seconds", "1", "--flood", str(FLOOD),
         "--stalled", "3", "--json", str(data), "--report", str(page), *words],
        capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(data.read_text()), page.read_text()


@pytest.mark.parametrize("transport", ["sse", "websocket"])
@pytest.mark.parametrize("is_encrypted", [False, True], ids=["plain", "tls"])
def test_a_storm_on_streams_misses_nothing(
        is_encrypted, transport, server, encrypted, tmp_path):
    target = encrypted if is_encrypted else server
    measured, page = storm(target, tmp_path, "--transport", transport, "--insecure")
    results = measured["results"]
    for key in ("connect_failed", "fanout_missing", "flood_missing", "slow_missing",
                "reconnect_failed", "reconnect_missing"):
        assert results[key] == 0, key
    for key in ("connect_per_s", "deliveries_per_s", "fanout_p99_ms", "flood_p99_ms",
                "slow_p99_ms", "reconnect_all_ms", "idle_ping_p99_ms", "flood_ping_p99_ms",
                "rss_bytes"):
        assert results[key] > 0, key
    assert measured["parameters"]["transport"] == transport
    came = measured["series"]["connections"]
    assert max(open for _, open in came) == CLIENTS
    assert "<svg" in page and "<script" not in page


@pytest.mark.parametrize("transport", ["sse", "websocket"])
def test_visitors_listen_to_a_public_stream(transport, server, tmp_path):
    measured, _ = storm(server, tmp_path, "--transport", transport, "--visitors", "--stream",
                        "public:local", "--parts", "paced")
    results = measured["results"]
    assert (results["connect_failed"], results["fanout_missing"]) == (0, 0)
    assert results["fanout_p50_ms"] > 0 and "flood_missing" not in results


def test_a_certificate_that_nobody_vouches_for_is_taken_only_where_that_is_asked(
        encrypted, tmp_path):
    done = subprocess.run([WEIR, "storm", "streaming", "--target", encrypted.base],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "--insecure" in done.stderr
