"""Two nodes of one community, on one PostgreSQL and one Redis."""

import asyncio
import json
import os
import subprocess
import threading

import pytest
import requests
from MeteorClient import MeteorClient

from conftest import Database, Server, free_port
from crowd import Crowd, Documents as DocumentsOfMany, Events, Stream as StreamOfMany
from waiting import until

LONG = bool(os.environ.get("WEIR_TEST_LONG"))
# Listeners of a node that is killed, by WebSocket; a tenth as many more by each other way.
CROWD = 5_000 if LONG else 300
# Whose they are; nobody may have more than 256.
PEOPLE = 40 if LONG else 2
PATIENCE_S = 300 if LONG else 60


class Node(Server):
    """Serves a community beside its first node, under that one's name."""

    def __init__(self, data, first):
        super().__init__(data, first.database, "127.0.0.1", first.extra)
        self.named = first.domain

    def words(self, data):
        words = super().words(data)
        words[words.index("--domain") + 1] = self.named
        return words


@pytest.fixture(scope="module", params=["postgres"])
def kind(request):
    """Nodes share a database, which SQLite's is not."""
    return request.param


class Redis:
    """A bus that can go away and come back."""

    def __init__(self):
        self.port = free_port("127.0.0.1")
        self.process = None
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--save", ""],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def end(self):
        self.process.kill()
        self.process.wait()

    def listeners(self):
        """Nodes that hear the bus."""
        words = ["redis-cli", "--json", "-p", str(self.port)]
        found = subprocess.run([*words, "PUBSUB", "CHANNELS", "weir:*"], capture_output=True,
                               text=True, check=False)
        channels = json.loads(found.stdout) if found.returncode == 0 else []
        if not channels:
            return 0
        found = subprocess.run([*words, "PUBSUB", "NUMSUB", *channels], capture_output=True,
                               text=True, check=True)
        counts = json.loads(found.stdout)
        return counts[1] if isinstance(counts, list) else next(iter(counts.values()))


@pytest.fixture(scope="module")
def redis():
    redis = Redis()
    yield redis
    redis.end()


@pytest.fixture(scope="module")
def nodes(kind, redis, tmp_path_factory):
    extra = {"WEIR_REDIS_URL": f"redis://127.0.0.1:{redis.port}/0"}
    database = Database(kind)
    first = Server(tmp_path_factory.mktemp("node"), database, extra=extra)
    servers = [first]
    try:
        first.start()
        servers.append(Node(tmp_path_factory.mktemp("node"), first).start())
        until(lambda: redis.listeners() == 2, "both nodes on the bus")
        yield servers
    finally:
        for server in reversed(servers):
            server.stop()
        database.drop()


@pytest.fixture(scope="module")
def alice(nodes):
    return nodes[0].somebody("alice")


class Stream:
    """A stream as server-sent events."""

    def __init__(self, person, name):
        self.heard, self.ended = [], threading.Event()
        self.answer = person.session.get(f"{person.server.base}/api/v1/streaming/{name}",
                                         stream=True, timeout=120)
        self.answer.raise_for_status()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        try:
            for line in self.answer.iter_lines():
                self.heard.append(line.decode())
        except (requests.RequestException, AttributeError):
            pass  # It was closed while it was read.
        self.ended.set()

    def has(self, text):
        return any(text in line for line in self.heard)

    def close(self):
        # Somebody reads: without this it would wait for what is told next.
        self.answer.raw.shutdown()
        self.answer.close()


class Documents:
    """A DDP client logged in as somebody."""

    def __init__(self, person):
        self.client = MeteorClient(person.server.base.replace("http", "ws") + "/websocket",
                                   auto_reconnect=False)
        connected, self.closed = threading.Event(), threading.Event()
        self.client.on("connected", connected.set)
        self.client.on("closed", lambda *_: self.closed.set())
        self.client.connect()
        assert connected.wait(30)
        token = person.session.headers["Authorization"].split(" ")[1]
        self.call("login", {"resume": token})

    def _wait(self, begin, *words):
        done, problems = threading.Event(), []

        def finish(error, *_):
            problems.extend([error] if error else [])
            done.set()

        begin(*words, finish)
        assert done.wait(30) and not problems, problems

    def call(self, method, *params):
        self._wait(self.client.call, method, list(params))

    def subscribe(self, name, **params):
        self._wait(self.client.subscribe, name, [params])

    def status(self, post):
        return self.client.find_one("statuses", {"_id": post["id"]})


@pytest.fixture(scope="module")
def bob(nodes, alice):
    """Follows alice from the other node."""
    bob = nodes[1].somebody("bob")
    account = bob.find(alice.name)
    bob.post(f"/api/v1/accounts/{account['id']}/follow")
    return bob


def test_a_post_made_on_one_node_reaches_those_who_listen_on_the_other(nodes, alice, bob):
    stream, documents = Stream(bob, "user"), Documents(bob)
    documents.subscribe("timelines.home")
    post = alice.say("from node to node")
    until(lambda: stream.has("from node to node"), "the post in the stream")
    until(lambda: documents.status(post), "the post by DDP")
    # What everybody sees of it changes, and what the reader did with it.
    alice.put(f"/api/v1/statuses/{post['id']}", status="edited on the way")
    until(lambda: stream.has("edited on the way"), "the edit in the stream")
    until(lambda: "edited" in documents.status(post)["content"], "the edit by DDP")
    bob.at(nodes[0]).do("favourite", post)
    until(lambda: documents.status(post)["favourites_count"] == 1, "the count by DDP")
    until(lambda: documents.client.find_one("status_states", {"_id": post["id"]}), "the state")
    alice.delete(f"/api/v1/statuses/{post['id']}")
    until(lambda: not documents.status(post), "the post is gone")
    documents.client.close()
    stream.close()


def test_what_was_missed_while_the_bus_was_away_is_read_when_it_is_back(nodes, redis, alice, bob):
    documents = Documents(bob)
    documents.subscribe("timelines.home")
    known = alice.say("known before")
    until(lambda: documents.status(known), "the post by DDP")
    redis.end()
    missed = alice.say("said while nobody heard")
    bob.at(nodes[0]).do("favourite", known)
    redis.start()
    until(lambda: redis.listeners() == 2, "both nodes on the bus")
    until(lambda: documents.status(missed), "the missed post by DDP")
    until(lambda: documents.status(known)["favourites_count"] == 1, "the missed count by DDP")
    documents.client.close()


def test_who_is_shut_out_on_one_node_is_cut_off_on_the_other(nodes):
    carol = nodes[1].somebody("carol")
    stream, documents = Stream(carol, "user"), Documents(carol)
    until(lambda: documents.client.find("users"), "the own document")
    nodes[0].command("account", "set", carol.name, "--disabled", "true")
    assert stream.ended.wait(30), "the stream goes on"
    until(lambda: not documents.client.find("users"), "the DDP session is nobody's")
    assert carol.ask("GET", "/api/v1/timelines/home").status_code in (401, 403)
    documents.client.close()


def test_who_was_shut_out_while_the_bus_was_away_is_cut_off_when_it_is_back(nodes, redis):
    carol, dave = nodes[1].somebody("carol"), nodes[1].somebody("dave")
    streams, documents = [Stream(one, "user") for one in (carol, dave)], Documents(carol)
    until(lambda: documents.client.find("users"), "the own document")
    redis.end()
    nodes[0].command("account", "set", carol.name, "--disabled", "true")
    redis.start()
    until(lambda: redis.listeners() == 2, "both nodes on the bus")
    assert streams[0].ended.wait(30), "the stream goes on"
    until(lambda: not documents.client.find("users"), "the DDP session is nobody's")
    dave.say("still here")
    until(lambda: streams[1].has("still here"), "the other's stream goes on")
    documents.client.close()
    streams[1].close()


def test_who_follows_somebody_by_one_node_is_told_to_them_on_the_other(nodes):
    alice, bob = nodes[0].somebody("alice"), nodes[1].somebody("bob")
    follower, followed = alice.find(bob.name), bob.find(alice.name)
    documents = Documents(alice)
    documents.subscribe("relationships", account_ids=[follower["id"]])
    documents.subscribe("presence", account_ids=[follower["id"]])

    def bond():
        return documents.client.find_one("relationships", {"_id": follower["id"]})

    until(bond, "the relationship by DDP")
    assert not bond()["followed_by"]
    bob.post(f"/api/v1/accounts/{followed['id']}/follow")
    until(lambda: bond()["followed_by"], "the new follower by DDP")
    until(lambda: documents.client.find_one("presence", {"_id": follower["id"]}), "the presence")
    bob.post(f"/api/v1/accounts/{followed['id']}/unfollow")
    until(lambda: not bond()["followed_by"], "the follower is gone by DDP")
    documents.client.close()


class Speaker:
    """Says things by either node, and remembers all."""

    def __init__(self):
        self.said = set()

    async def say(self, person, count):
        for _ in range(count):
            post = await asyncio.to_thread(person.say, f"number {len(self.said)} to the crowd")
            self.said.add(post["id"])

    def is_known_to(self, listener):
        return self.said <= listener.known


async def survive(nodes, alice, people):
    first, second = nodes
    speaker, by_second = Speaker(), alice.at(second)
    counts = {StreamOfMany: CROWD, Events: CROWD // 10, DocumentsOfMany: CROWD // 10}
    crowd = Crowd(first, counts, people, PATIENCE_S)
    # By it is known what is known at the second node.
    witness = Crowd(second, {StreamOfMany: 1}, people, PATIENCE_S)
    async with crowd, witness:
        await crowd.until(lambda one: one.came == 1, "there")
        [there] = witness.listeners
        await witness.until(lambda one: one.came == 1, "there")
        await speaker.say(by_second, 5)
        await crowd.until(speaker.is_known_to, "what was said before")
        crowd.move(second)
        saying = asyncio.create_task(speaker.say(by_second, 10))
        # The last word of the first node, which perhaps nobody hears.
        await speaker.say(alice, 1)
        before = there.last.split("-")[0]
        first.kill()
        await saying
        await crowd.until(lambda one: one.came == 2, "back")
        assert not any(one.complete for one in crowd.listeners), "it is another node"
        await speaker.say(by_second, 5)
        await crowd.until(speaker.is_known_to, "what was said meanwhile and after")
        # That the first node fell silent is noticed, and who was here before learns of it.
        streams = [one for one in crowd.listeners if isinstance(one, StreamOfMany)]
        await witness.until(lambda one: one.last.split("-")[0] != before, "the silence")
        epoch = there.last.split("-")[0]
        await crowd.until(
            lambda one: one not in streams or one.last.split("-")[0] == epoch, "the silence")
        # From here on whoever is cut off loses nothing, and gets nothing twice.
        crowd.cut()
        await speaker.say(by_second, 5)
        crowd.move(second)
        await crowd.until(lambda one: one.came == 3, "back again")
        await crowd.until(speaker.is_known_to, "what was said while they were away")
        assert all(one.complete for one in streams)
        assert [one.twice for one in crowd.listeners if one.twice] == []


def test_a_crowd_whose_node_is_killed_comes_back_to_another_and_misses_nothing(
        nodes, redis, alice):
    people = [nodes[0].somebody("listener") for _ in range(PEOPLE)]
    for one in people:
        one.post(f"/api/v1/accounts/{alice.id}/follow")
    try:
        asyncio.run(survive(nodes, alice, people))
    finally:
        nodes[0].stop()
        nodes[0].start()
        until(lambda: redis.listeners() == 2, "both nodes on the bus")
