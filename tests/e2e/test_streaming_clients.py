"""Streaming clients that nobody here wrote: npm `masto`, and Mastodon.py that comes back."""

import json
import os
import pathlib
import subprocess
import threading

import pytest
from mastodon import Mastodon

import npm
from waiting import until

HERE = pathlib.Path(__file__).resolve().parent


@pytest.fixture(scope="session")
def packages():
    return npm.installed("masto@7.12.0", "ws@8.18.0")


class Masto:
    """A listener of npm `masto` in a process of its own."""

    def __init__(self, packages, server, token):
        self.heard = []
        self.process = subprocess.Popen(
            ["node", HERE / "stream.mjs", server.base, token], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True, env={**os.environ, "CLIENTS": str(packages)})
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            self.heard.append(json.loads(line))

    def has(self, event, **wanted):
        return any(one["event"] == event and wanted.items() <= one.items() for one in self.heard)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait(timeout=30)


def client(server, name):
    return Mastodon(access_token=server.person(name), api_base_url=server.base,
                    version_check_mode="none")


def test_masto_hears_posts_boosts_notifications_edits_and_deletions(server, packages):
    alice, token = client(server, "alice"), server.person("bob")
    bob = Mastodon(access_token=token, api_base_url=server.base, version_check_mode="none")
    bob.account_follow(alice.me())
    with Masto(packages, server, token) as masto:
        until(lambda: masto.has("ready"), "masto")
        until(lambda: alice.status_post("?") and masto.has("update"), "a subscription")
        post = alice.status_post("live #weir @bob")
        until(lambda: masto.has("update", stream=["user"], id=str(post["id"])), "home")
        until(lambda: masto.has("update", stream=["hashtag", "weir"], id=str(post["id"])), "tag")
        until(lambda: masto.has("notification"), "a mention")
        alice.status_update(post, "changed #weir")
        until(lambda: masto.has("status.update", id=str(post["id"])), "an edit")
        alice.status_delete(post)
        until(lambda: masto.has("delete", id=str(post["id"])), "a deletion")
        bob.create_filter_v2("no", ["home"], "warn", keywords_attributes=[])
        until(lambda: masto.has("filters_changed"), "a change of filters")


def lines(server, token, since):
    """Server-sent events by curl, which nobody here wrote either."""
    where = f"{server.base}/api/v1/streaming/user"
    command = ["curl", "-sN", "-H", f"Authorization: Bearer {token}", where]
    if since:
        command += ["-H", f"Last-Event-ID: {since}"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_server_sent_events_go_on_where_the_client_was_cut_off(server):
    carol_token, token = server.person("carol"), server.person("dave")
    carol = Mastodon(access_token=carol_token, api_base_url=server.base, version_check_mode="none")
    dave = Mastodon(access_token=token, api_base_url=server.base, version_check_mode="none")
    dave.account_follow(carol.me())
    own, stream = lines(server, carol_token, None), lines(server, token, None)
    for one in (own, stream):
        assert one.stdout.readline().startswith(":")
    first = carol.status_post("while dave listens")
    since = None
    for line in stream.stdout:
        if line.startswith("id: "):
            since = line.removeprefix("id: ").strip()
            break
    stream.kill()
    stream.wait()
    missed = [carol.status_post(f"missed {number}")["id"] for number in range(3)]
    # A post is told soon after its answer; one told only when dave is back is no longer missed.
    assert any(line.startswith("data: {") and json.loads(line[6:])["id"] == str(missed[-1])
               for line in own.stdout)
    own.kill()
    own.wait()
    stream = lines(server, token, since)
    told = []
    for line in stream.stdout:
        if line.startswith("event: resumed"):
            break
        if line.startswith("data: {"):
            told.append(int(json.loads(line.removeprefix("data: "))["id"]))
    assert json.loads(stream.stdout.readline().removeprefix("data: ")) == {"complete": True}
    stream.kill()
    stream.wait()
    assert told == [int(one) for one in missed] and int(first["id"]) not in told
