"""`weir storm inbox --minutes`: activities that come in at a rate, signed while they do, and posts
that go out meanwhile."""

import json
import subprocess

from conftest import WEIR, free_port

RATE, MINUTES = 40, 0.08
HOSTS = 4


def test_a_soak_sees_all_that_came_in_and_went_out_and_how_it_went_over_time(serve, tmp_path):
    metrics = f"127.0.0.1:{free_port('127.0.0.1')}"
    server = serve(extra={"WEIR_METRICS_LISTEN": metrics})
    data, page = tmp_path / "soak.json", tmp_path / "soak.html"
    done = subprocess.run(
        [WEIR, "storm", "inbox", "--target", server.base, "--rate", str(RATE), "--minutes",
         str(MINUTES), "--actors", "8", "--hosts", str(HOSTS), "--people", "2", "--guests", "4",
         "--seconds", "1", "--outward", "16", "--metrics", f"http://{metrics}/metrics",
         "--json", str(data), "--report", str(page)],
        capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    measured = json.loads(data.read_text())
    results = measured["results"]
    assert results["missing"] == 0, done.stderr
    assert results["accepted"] > RATE * MINUTES * 60 * 0.9
    # Every post of the herald came to every host.
    assert results["undelivered"] == 0 and results["delivered"] > 0, done.stderr
    assert results["delivered"] % HOSTS == 0
    looks = measured["series"]["looks"]
    assert looks[-1]["visible"] == looks[-1]["accepted"] == results["accepted"]
    assert any(look["db_write_ms"] for look in looks), "the server told nothing of its database"
    assert results["rss_bytes_late"] > 0
    assert "What waits" in page.read_text() and "<script" not in page.read_text()


def test_a_soak_without_a_rate_is_wrong_usage():
    words = ["--target", "http://127.0.0.1:1", "--minutes", "1"]
    done = subprocess.run([WEIR, "storm", "inbox", *words], capture_output=True, text=True,
                          check=False)
    assert done.returncode == 2 and "--rate" in done.stderr
