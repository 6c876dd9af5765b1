"""What benchmarks need beside them: free ports, a PostgreSQL of their own, and a server on it."""

import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

WEIR = os.environ.get("WEIR_BIN",
                      str(pathlib.Path(__file__).resolve().parent.parent / "target/release/weir"))
START_S = 120
STOP_S = 60


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(port, process):
    for _ in range(500):
        assert process.poll() is None, "a server ended at once"
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.02)
    sys.exit(f"nothing answers on port {port}")


def postgres(scratch, more=()):
    """A PostgreSQL of its own with its defaults, and `more` settings: what it syncs counts."""
    found = shutil.which("initdb") or sorted(
        pathlib.Path("/usr/lib/postgresql").glob("*/bin/initdb"))[-1]
    tools, place = pathlib.Path(found).resolve().parent, scratch / "postgres"
    place.mkdir()
    become = []
    if os.getuid() == 0:
        scratch.chmod(0o711)
        shutil.chown(place, "postgres")
        become = ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups"]
    subprocess.run([*become, tools / "initdb", "-D", "db", "-U", "postgres", "-A", "trust",
                    "-E", "UTF8", "--locale=C"], cwd=place, check=True, stdout=subprocess.DEVNULL)
    port = free_port()
    log = open(scratch / "postgres.log", "wb")
    process = subprocess.Popen([*become, tools / "postgres", "-D", "db", "-p", str(port),
                                "-k", place, "-c", "listen_addresses=127.0.0.1",
                                *(word for setting in more for word in ("-c", setting))],
                               cwd=place, stdout=log, stderr=log)
    wait_for(port, process)
    for _ in range(200):
        if subprocess.run([tools / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(port)],
                          check=False).returncode == 0:
            break
        time.sleep(0.05)
    return process, f"postgres://postgres@127.0.0.1:{port}/postgres"


class Server:
    """`weir serve --dev` on a data directory and a database of its own."""

    def __init__(self, kind, admin):
        self.data = tempfile.TemporaryDirectory(dir=os.environ.get("WEIR_BENCH_SCRATCH"))
        self.place = pathlib.Path(self.data.name)
        self.kind, self.admin, self.process = kind, admin, None
        self.url = f"sqlite:{self.place / 'weir.db'}"
        if kind == "postgres":
            self.name = f"weir_bench_{os.getpid()}_{free_port()}"
            self.sql(f"CREATE DATABASE {self.name} TEMPLATE template0 ENCODING 'UTF8' "
                     "LC_COLLATE 'C' LC_CTYPE 'C'")
            self.url = f"{admin.rsplit('/', 1)[0]}/{self.name}"
        self.domain = f"127.0.0.1:{free_port()}"
        self.base = f"http://{self.domain}"
        self.metrics = f"127.0.0.1:{free_port()}"

    def sql(self, text, url=None):
        done = subprocess.run(["psql", "-qtA", url or self.admin, "-c", text], check=True,
                              capture_output=True, text=True)
        return done.stdout.strip()

    def start(self):
        env = {**os.environ, "WEIR_DATABASE_URL": self.url, "WEIR_METRICS_LISTEN": self.metrics}
        with open(self.place / "log", "ab") as log:
            self.process = subprocess.Popen(
                [WEIR, "serve", "--dev", "--data", self.place, "--domain", self.domain,
                 "--listen", self.domain], env=env, stdout=log, stderr=log)
        until = time.monotonic() + START_S
        while time.monotonic() < until:
            try:
                if urllib.request.urlopen(f"{self.base}/health", timeout=2).status == 200:
                    return self
            except OSError:
                pass
            if self.process.poll() is not None:
                break
            time.sleep(0.01)
        sys.exit(f"the server did not start:\n{(self.place / 'log').read_text()[-2000:]}")

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                print(f"the server did not stop within {STOP_S} s, and is killed", flush=True)
                self.kill()
        self.process = None

    def bytes(self):
        """What the database takes on the disk; SQLite's log is in it once the server stopped."""
        if self.kind == "postgres":
            return int(self.sql(f"SELECT pg_database_size('{self.name}')"))
        return sum(file.stat().st_size for file in self.place.glob("weir.db*"))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
        if self.kind == "postgres":
            self.sql(f"DROP DATABASE {self.name} WITH (FORCE)")
        self.data.cleanup()
