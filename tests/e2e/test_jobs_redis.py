"""Background jobs on a Redis, in Sidekiq's format, between two servers."""

import json
import subprocess

import pytest

from conftest import free_port
from waiting import until


class Redis:
    """A redis-server that keeps all it answered for."""

    def __init__(self, directory):
        self.port = free_port("127.0.0.1")
        self.process = subprocess.Popen(
            ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--save", "",
             "--appendonly", "yes", "--appendfsync", "everysec", "--dir", str(directory)],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )

    def ask(self, number, *words):
        """What a command says of a database."""
        done = subprocess.run(
            ["redis-cli", "--json", "-p", str(self.port), "-n", str(number), *words],
            capture_output=True, text=True, check=True,
        )
        return json.loads(done.stdout)

    def url(self, number):
        return f"redis://127.0.0.1:{self.port}/{number}"


@pytest.fixture(scope="module")
def redis(tmp_path_factory):
    redis = Redis(tmp_path_factory.mktemp("redis"))
    yield redis
    redis.process.kill()
    redis.process.wait()


@pytest.fixture(scope="module")
def number(kind):
    """The first server's database of Redis: each server has one for itself."""
    return {"sqlite": 0, "postgres": 2}[kind]


@pytest.fixture(scope="module")
def servers(serve, redis, number):
    return [
        serve(f"127.0.0.{8 + place}",
              {"WEIR_JOBS_BACKEND": "redis", "WEIR_REDIS_URL": redis.url(number + place)})
        for place in (0, 1)
    ]


@pytest.fixture(scope="module")
def alice(servers):
    return servers[0].somebody("alice")


@pytest.fixture(scope="module")
def bob(servers, alice):
    bob = servers[1].somebody("bob")
    bob.follow(alice)
    return bob


def test_posts_are_delivered_and_sidekiqs_numbers_count_it(servers, redis, number, alice, bob):
    post = alice.say("a post that goes over Redis")
    assert bob.receives(post)
    until(lambda: int(redis.ask(number, "GET", "stat:processed") or 0) > 0, "a job is counted")
    [identity] = until(lambda: redis.ask(number, "SMEMBERS", "processes"), "the process is listed")
    info = json.loads(redis.ask(number, "HGET", identity, "info"))
    queues = [queue["queue"] for queue in servers[0].command("jobs", "queues")]
    assert set(info["queues"]) <= set(queues)


def test_the_start_says_what_redis_does_not_keep(servers):
    log = servers[0].data / "log"
    until(lambda: "a crash of Redis loses up to about two seconds" in log.read_text(), "the line")


def test_nothing_is_lost_when_the_server_is_killed(servers, alice, bob):
    posts = [alice.say(f"post {number} before the fall") for number in range(10)]
    servers[0].kill()
    servers[0].start()
    for post in posts:
        assert bob.receives(post)


def test_jobs_wait_while_redis_stands_still(redis, number, alice, bob):
    redis.ask(number, "CLIENT", "PAUSE", "1500", "ALL")
    post = alice.say("a post while Redis stands still")
    assert bob.receives(post)
