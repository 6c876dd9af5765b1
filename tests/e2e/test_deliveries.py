"""What became of a post on other servers: for its author, and on the command line."""

import pytest

from elsewhere import Elsewhere
from waiting import until


@pytest.fixture
def other():
    with Elsewhere() as server:
        yield server


def status(server, *about):
    return server.command("federation", "status", *about)


def test_a_post_that_another_server_does_not_take_waits_and_is_told_of(server, other):
    alice = server.somebody("alice")
    bob = other.actor("bob")
    bob.follow(alice)
    other.taken_with = 503
    post = alice.say("is anybody there?")

    def waiting():
        answer = alice.ask("GET", f"/api/weir/v1/statuses/{post['id']}/deliveries")
        if answer.status_code == 404:  # not sent yet
            return None
        hosts = {one["host"]: one for one in answer.json()["hosts"]}
        host = hosts.get(other.domain)
        return host if host and host["reason"] else None

    host = until(waiting, "the reason why a post waits")
    assert host["state"] == "waiting"
    assert "503" in host["reason"]
    assert host["next_try_at"]
    # Nobody else may ask.
    carol = server.somebody("carol")
    answer = carol.ask("GET", f"/api/weir/v1/statuses/{post['id']}/deliveries")
    assert answer.status_code == 404
    # The same on the command line, by id and by address.
    for name in (post["id"], post["url"], post["uri"]):
        told = status(server, name)
        assert told["waiting"] == 1
        assert [one["state"] for one in told["hosts"]] == ["waiting"]
    assert status(server)["waiting"] >= 1
    assert status(server, other.domain)["waiting"] == 1
    listed = server.command("federation", "hosts")
    assert {one["host"]: one["waiting"] for one in listed}[other.domain] == 1
    # Asked by hand, it is there at once.
    other.taken_with = 202
    assert server.command("federation", "retry", other.domain)["waiting"] == 1
    other.received("Create", lambda create: create["object"]["id"] == post["uri"])
    until(lambda: status(server, post["id"])["delivered"] == 1, "the delivery to be told")
    hosts = status(server, post["id"])["hosts"]
    assert [(one["state"], one["inboxes"]) for one in hosts] == [("delivered", 1)]
