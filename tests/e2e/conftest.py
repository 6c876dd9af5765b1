"""Servers for end-to-end tests: the real program, on a free port, on each database."""

import errno
import json
import os
import random
import signal
import socket
import ssl
import subprocess
import time
import urllib.request
import uuid

import pytest

from elsewhere import Elsewhere
from person import Person

WEIR = os.environ["WEIR_BIN"]
POSTGRES = os.environ.get("WEIR_TEST_POSTGRES", "")
START_S = 60
STOP_S = 15
PORTS, PORTS_TRIED = (20_000, 32_768), 32
# These files take longest, and begin: two are worked on at a time.
LONGEST = ["test_storm_streaming", "test_flood_faults", "test_flood", "test_storm_chat"]


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: item.path.stem not in LONGEST)


def free_port(host):
    """One below those that Linux gives to connections, unless it was told otherwise: no connection
    takes it before it is listened on, nor while a server is started again."""
    for _ in range(PORTS_TRIED):
        port = random.randrange(*PORTS)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
                return port
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
    raise OSError(errno.EADDRINUSE, f"no port of {PORTS} is free on {host}")


class Database:
    """A database of its own: a file, or one made on the PostgreSQL server."""

    def __init__(self, kind):
        self.kind = kind
        self.url = "sqlite:weir.db"
        if kind == "postgres":
            self.name = f"weir_e2e_{uuid.uuid4().hex[:12]}"
            self._sql(
                f"CREATE DATABASE {self.name} TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'"
            )
            self.url = f"{POSTGRES.rsplit('/', 1)[0]}/{self.name}"

    def _sql(self, text):
        subprocess.run(["psql", "-q", POSTGRES, "-c", text], check=True, capture_output=True)

    def drop(self):
        if self.kind == "postgres":
            self._sql(f"DROP DATABASE {self.name} WITH (FORCE)")


class Server:
    """`weir serve --dev` on an address of its own."""

    def __init__(self, data, database, host="127.0.0.1", extra=None):
        self.data = data
        self.database = database
        self.host = host
        self.domain = f"{host}:{free_port(host)}"
        self.extra = extra or {}
        scheme = "https" if "WEIR_TLS_CERT" in self.extra else "http"
        self.base = f"{scheme}://{self.domain}"
        self.process = None
        self.people = 0

    def environment(self):
        return {
            **os.environ,
            "WEIR_DATABASE_URL": self.database.url,
            "WEIR_METRICS_LISTEN": f"{self.host}:0",
            **self.extra,
        }

    def words(self, data):
        """The command line."""
        return [WEIR, "serve", "--dev", "--data", str(data), "--domain", self.domain,
                "--listen", self.domain]

    def start(self):
        log = open(self.data / "log", "ab")
        self.process = subprocess.Popen(
            self.words(self.data),
            env=self.environment(), stdout=log, stderr=log,
        )
        health = f"{self.base}/health"
        # A certificate of a server for tests is its own.
        anybody = ssl._create_unverified_context()
        until = time.monotonic() + START_S
        while time.monotonic() < until:
            try:
                if urllib.request.urlopen(health, timeout=2, context=anybody).status == 200:
                    return self
            except OSError:
                pass
            assert self.process.poll() is None, (self.data / "log").read_text()[-3000:]
            time.sleep(0.02)
        raise AssertionError(f"no /health within {START_S} s:\n{(self.data / 'log').read_text()}")

    def kill(self):
        """The end that nobody can prepare for."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.terminate()
            self.process.wait(STOP_S)

    def command(self, *words):
        """A command of the program on this server's data; its `--json` as values."""
        done = subprocess.run(
            [WEIR, *words, "--json", "--data", str(self.data)],
            env=self.environment(), capture_output=True, text=True, check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def person(self, name, role="user"):
        """Makes an account; its bearer token."""
        self.command("account", "create", name, "--email", f"{name}@mail.test",
                     "--password", f"password of {name}", "--role", role)
        return self.command("account", "token", name)["token"]

    def somebody(self, name, role="user"):
        """Makes an account whose name nobody has here, and acts for it."""
        self.people += 1
        unique = f"{name}{self.people}"
        return Person(self, unique, self.person(unique, role))


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def kind(request):
    if request.param == "postgres":
        assert POSTGRES, "WEIR_TEST_POSTGRES names no server; run `make test`"
    return request.param


@pytest.fixture(scope="module")
def serve(kind, tmp_path_factory):
    """Starts servers; all are stopped when the tests of a file are done."""
    servers = []

    def start(host="127.0.0.1", extra=None):
        data = tmp_path_factory.mktemp("server")
        server = Server(data, Database(kind), host, extra)
        servers.append(server)
        return server.start()

    yield start
    for server in servers:
        server.stop()
        server.database.drop()


@pytest.fixture(scope="module")
def server(serve):
    """One server for all tests of a file."""
    return serve()


@pytest.fixture(scope="module")
def elsewhere():
    """A server of another kind, on an address of its own."""
    with Elsewhere() as other:
        yield other
