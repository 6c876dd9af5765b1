"""`weir storm deliver`: two posts to followers on servers of which some do not answer well."""

import json
import subprocess

from conftest import WEIR

FOLLOWERS, HOSTS = 12, 6
# One refuses, one hangs, one is slow, one fails.
BAD = ["--dead", "2", "--slow", "1", "--slow-ms", "500", "--failing", "1"]
LIVE = HOSTS - 4


def test_every_inbox_of_hosts_that_answer_gets_both_posts_once(server, tmp_path):
    data, page = tmp_path / "deliver.json", tmp_path / "deliver.html"
    done = subprocess.run(
        [WEIR, "storm", "deliver", "--target", server.base, "--followers", str(FOLLOWERS),
         "--hosts", str(HOSTS), *BAD, "--personal", "--json", str(data), "--report", str(page)],
        capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    results = json.loads(data.read_text())["results"]
    assert results["deliveries"] == 2 * LIVE * FOLLOWERS // HOSTS, done.stderr
    assert (results["missing"], results["second_missing"], results["repeated"]) == (0, 0, 0)
    # The others were tried.
    assert results["tries_elsewhere"] > 0
    for key in ("deliveries_per_s", "last_live_host_ms", "second_last_live_host_ms",
                "rss_max_bytes"):
        assert results[key] > 0, key
    assert "<svg" in page.read_text()
