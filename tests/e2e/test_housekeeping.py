"""What is removed in time, on the command line of a server that runs."""

import subprocess

from conftest import WEIR
from elsewhere import Elsewhere
from waiting import until


def test_what_is_removed_is_told_and_can_be_done_now(server):
    status = server.command("housekeeping", "status")
    assert status["database_bytes"] > 0
    assert status["remote_days"] == 30
    chores = {one["chore"]: one for one in status["chores"]}
    assert {"posts", "accounts", "tags", "codes", "tombstones"} <= chores.keys()
    alice = server.somebody("alice")
    with Elsewhere() as other:
        bob = other.actor("bob")
        bob.follow(alice)
        until(lambda: server.command("federation", "hosts"), "a server to be known")
        done = server.command("housekeeping", "run", "accounts")
        assert [one["chore"] for one in done] == ["accounts"]
        assert done[0]["looked_at"] >= 1
        assert done[0]["removed"] == 0
    everything = server.command("housekeeping", "run")
    assert [one["chore"] for one in everything] == list(chores)
    after = {one["chore"]: one for one in server.command("housekeeping", "status")["chores"]}
    assert all(one["ended_at"] for one in after.values())
    assert after["accounts"]["looked_at"] >= 1


def test_a_kind_that_does_not_exist_is_refused_with_what_to_do(server):
    done = subprocess.run(
        [WEIR, "housekeeping", "run", "everything", "--data", str(server.data)],
        env=server.environment(), capture_output=True, text=True, check=False,
    )
    assert done.returncode == 1
    assert "weir housekeeping status" in done.stderr
