"""`weir jobs` and `weir storm jobs`, as an administrator uses them."""

import json
import struct
import subprocess
import zlib

import pytest

from conftest import WEIR
from waiting import until


@pytest.fixture(scope="module")
def server(serve):
    return serve()


def ended(server):
    return sum(row["done"] for row in server.command("jobs", "history"))


def test_what_ended_stands_in_the_history_and_in_the_counts(server):
    alice = server.somebody("alice")
    alice.say("work for the queues")
    until(lambda: ended(server) > 0, "jobs in the history")
    stats = server.command("jobs", "stats")
    assert stats["done_since_start"] > 0 and stats["dead"] == 0
    assert {"oldest_age_ms", "queues", "failing"} <= stats.keys()
    names = [queue["queue"] for queue in server.command("jobs", "queues")]
    assert names == sorted(names) and names


def test_a_paused_queue_is_searched_cleared_and_resumed(server):
    queue = server.command("jobs", "queues")[0]["queue"]
    server.command("jobs", "pause", queue)
    states = {row["queue"]: row["paused"] for row in server.command("jobs", "queues")}
    assert states[queue] is True
    assert server.command("jobs", "clear", queue) == {"deleted": 0}
    assert server.command("jobs", "lanes", queue) == []
    assert server.command("jobs", "list", "dead", "--queue", queue, "--text", "nothing") == []
    assert server.command("jobs", "delete", "--all", "dead", "--kind", "none") == {"deleted": 0}
    assert server.command("jobs", "kill", "--all", "retries", "--queue", queue) == {"killed": 0}
    server.command("jobs", "resume", queue)
    server.command("jobs", "drain", queue, "--timeout", "60")
    assert server.command("jobs", "running") == []


def test_a_queue_that_is_not_there_is_named(server):
    for words in (["clear", "nowhere"], ["drain", "nowhere"], ["move", "nowhere", "nowhere2"]):
        done = subprocess.run([WEIR, "jobs", *words, "--data", str(server.data)],
                              env=server.environment(), capture_output=True, text=True, check=False)
        assert done.returncode == 1 and "no queue nowhere" in done.stderr


def test_periodic_jobs_are_listed_run_at_once_and_paused(server):
    listed = server.command("jobs", "periodic", "list")
    assert listed and {"name", "kind", "plan", "next_at", "last_at", "paused"} == listed[0].keys()
    name = listed[0]["name"]

    def one():
        rows = server.command("jobs", "periodic", "list")
        return next(row for row in rows if row["name"] == name)

    server.command("jobs", "periodic", "pause", name)
    assert one()["paused"] is True
    server.command("jobs", "periodic", "resume", name)
    assert one()["paused"] is False
    assert "enqueued" in server.command("jobs", "periodic", "run", name)
    assert one()["last_at"] is not None


def test_batches_are_listed_and_one_that_is_not_there_is_named(server):
    assert server.command("jobs", "batches", "list", "--limit", "5") == []
    done = subprocess.run([WEIR, "jobs", "batches", "show", "17", "--data", str(server.data)],
                          env=server.environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "no batch 17" in done.stderr


def test_whoever_watches_without_a_server_is_told_what_to_start(tmp_path):
    done = subprocess.run([WEIR, "jobs", "watch", "--data", str(tmp_path / "none")],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "weir serve" in done.stderr
    assert not (tmp_path / "none").exists()


def test_whoever_watches_gets_one_line_a_look(server):
    done = subprocess.run([WEIR, "jobs", "watch", "--count", "2", "--data", str(server.data)],
                          env=server.environment(), capture_output=True, text=True, check=True)
    first, second = done.stdout.splitlines()
    assert first.startswith("ready=") and "done_per_s=" in second


def test_where_memory_is_short_the_less_urgent_wait_and_say_why_and_the_server_lives(serve):
    # Less than the program takes when it does nothing.
    server = serve(extra={"WEIR_MEMORY_BUDGET_MIB": "8"})

    def queue(name):
        rows = server.command("jobs", "stats")["queues"]
        return next(row for row in rows if row["queue"] == name)

    alice = server.somebody("alice")
    server.command("jobs", "pause", "distribute")
    alice.say("what is urgent waits, and so is there to be worked first")
    until(lambda: queue("distribute")["ready"] > 0, "something more urgent to do")
    picture = png(1_500)
    for _ in range(2):
        # Each takes some of what is short.
        media = alice.call("POST", "/api/v2/media", files={"file": ("a.png", picture)})
        alice.say("a picture", media_ids=[media["id"]])
    held = until(lambda: (lambda row: row["ready"] > 0 and row["limited_by"] == "memory" and row)(
        queue("search")), "a queue that gives way")
    assert "memory" in held["why"] and held["running"] == 0
    server.command("jobs", "resume", "distribute")
    until(lambda: queue("search")["ready"] == 0, "what waited is worked when nothing else is")
    assert server.process.poll() is None
    log = (server.data / "log").read_text()
    assert "memory is nearly used up" in log


def png(side):
    """A picture of so many pixels each way."""
    def chunk(kind, data):
        checked = kind + data
        return struct.pack(">I", len(data)) + checked + struct.pack(">I", zlib.crc32(checked))
    head = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    rows = (b"\0" + bytes(3 * side)) * side
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows, 1))
            + chunk(b"IEND", b""))


def test_a_storm_of_jobs_loses_none_and_writes_what_it_measured(kind, server, tmp_path):
    data, page = tmp_path / "storm.json", tmp_path / "storm.html"
    target = [] if kind == "sqlite" else ["--target", server.database.url]
    subprocess.run([WEIR, "storm", "jobs", "--jobs", "2000", "--seconds", "1", "--clients", "8",
                    "--json", str(data), "--report", str(page), *target],
                   check=True, capture_output=True)
    measured = json.loads(data.read_text())
    assert {"scenario", "machine", "versions", "parameters", "results"} <= measured.keys()
    results = measured["results"]
    assert (results["lost"], results["repeated"]) == (0, 0)
    for key in ("enqueue_per_s", "drain_per_s", "rss_max_bytes", "due_p99_ms", "urgent_p99_ms",
                "ack_p99_ms"):
        assert results[key] > 0, key
    text = page.read_text()
    assert "<svg" in text and "<script" not in text and "http-equiv" not in text


def test_a_storm_is_watched_while_it_runs(tmp_path):
    storm = subprocess.Popen(
        [WEIR, "storm", "jobs", "--jobs", "1000000", "--rate", "1000", "--scratch", str(tmp_path)],
        stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    try:
        told = next(line for line in storm.stderr if line.startswith("to watch it: weir jobs"))
        data = told.split("--data ")[1].strip()

        def done():
            watched = subprocess.run(
                [WEIR, "jobs", "watch", "--json", "--count", "1", "--data", data],
                capture_output=True, text=True, check=True)
            return sum(row["done"] for row in json.loads(watched.stdout)["kinds"])

        until(lambda: done() > 0, "jobs that are done are seen")
        refused = subprocess.run([WEIR, "account", "list", "--data", data],
                                 capture_output=True, text=True, check=False)
        assert refused.returncode == 1 and "no community" in refused.stderr
    finally:
        storm.kill()
        storm.wait()


def test_a_storm_on_something_unknown_says_what_to_name(tmp_path):
    done = subprocess.run([WEIR, "storm", "jobs", "--target", "http://127.0.0.1:1"],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "postgres://" in done.stderr
