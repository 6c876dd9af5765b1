"""`weir storm logins` against the real server, and where it cannot measure."""

import json
import subprocess

import pytest

from conftest import WEIR
from test_xmpp_servers import certificate


@pytest.fixture(scope="module")
def encrypted(serve, tmp_path_factory):
    """A server with a certificate that nobody vouches for."""
    key, cert = certificate(tmp_path_factory.mktemp("tls"), "127.0.0.1")
    return serve(extra={"WEIR_TLS_KEY": str(key), "WEIR_TLS_CERT": str(cert)})


def storm(server, *words):
    """A small storm, however it ends."""
    return subprocess.run(
        [WEIR, "storm", "logins", "--target", server.base, "--clients", "1,5", "--rounds", "1",
         "--people", "2", "--documents", "3", "--bystanders", "2", *words],
        capture_output=True, text=True, check=False)


@pytest.mark.parametrize("is_encrypted", [False, True], ids=["plain", "tls"])
def test_a_storm_of_log_ins_measures_pings_and_calls(is_encrypted, server, encrypted, tmp_path):
    data, page = tmp_path / "storm.json", tmp_path / "storm.html"
    done = storm(encrypted if is_encrypted else server, "--insecure", "--resume", "10",
                 "--seed", "7", "--json", str(data), "--report", str(page))
    assert done.returncode == 0, done.stderr
    measured = json.loads(data.read_text())
    results = measured["results"]
    for key in ("all_ready_ms", "quiet_ping_p99_ms", "quiet_method_p99_ms"):
        assert results[key] > 0, key
    assert results["bystanders_not_answered"] == 0
    assert (results["resumed"], results["resumed_of"]) == (10, 10)
    assert [burst["clients"] for burst in measured["bursts"]] == [1, 5]
    for burst in measured["bursts"]:
        assert (burst["ping_p99_ms"] is None) == (burst["pings"] == 0)
        assert (burst["method_p99_ms"] is None) == (burst["calls"] == 0)
    assert "<svg" in page.read_text()


def test_bursts_are_repeated_for_as_long_as_is_said(server, tmp_path):
    data = tmp_path / "storm.json"
    done = storm(server, "--seconds", "1", "--json", str(data))
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("5 at once") > 1


def test_a_method_that_the_server_does_not_have_is_a_clear_fault(server):
    done = storm(server, "--method", "dance=[1]")
    assert done.returncode == 1 and "dance=[1]" in done.stderr
    done = storm(server, "--method", "")
    assert done.returncode == 0, done.stderr
