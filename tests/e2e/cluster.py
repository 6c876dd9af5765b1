"""A PostgreSQL server of its own, for tests that end it."""

import glob
import os
import pathlib
import pwd
import shutil
import subprocess
import time

from conftest import free_port

START_S = 60


def program(name):
    """The PostgreSQL program of this name, whose directory need not be in the path."""
    found = sorted(glob.glob(f"/usr/lib/postgresql/*/bin/{name}"))
    return found[-1] if found else shutil.which(name)


class Cluster:
    """Runs in a directory, as `postgres` where we are root: it refuses to run as root."""

    def __init__(self, home):
        self.home = home
        self.process = None
        self.user = {}
        if os.getuid() == 0:
            owner = pwd.getpwnam("postgres")
            os.chown(home, owner.pw_uid, owner.pw_gid)
            for parent in home.parents[:3]:
                if parent != pathlib.Path("/tmp"):
                    parent.chmod(0o711)
            self.user = {"user": "postgres", "group": "postgres", "extra_groups": []}
        self.port = free_port("127.0.0.1")
        self._run("initdb", "-D", "db", "-U", "postgres", "-A", "trust", "-E", "UTF8",
                  "--locale=C")

    def _run(self, name, *words):
        subprocess.run([program(name), *words], cwd=self.home, check=True, capture_output=True,
                       **self.user)

    @property
    def url(self):
        return f"postgres://postgres@127.0.0.1:{self.port}/postgres"

    def start(self):
        log = open(self.home / "log", "ab")
        self.process = subprocess.Popen(
            [program("postgres"), "-D", "db", "-p", str(self.port), "-k", str(self.home),
             "-c", "listen_addresses=127.0.0.1"],
            cwd=self.home, stdout=log, stderr=log, **self.user,
        )
        ready = [program("pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        until = time.monotonic() + START_S
        while subprocess.run(ready, check=False).returncode != 0:
            assert time.monotonic() < until, (self.home / "log").read_text()
            time.sleep(0.05)
        return self

    def restart(self):
        """Ends it without a word to those who use it, and starts it again."""
        self._run("pg_ctl", "stop", "-m", "immediate", "-D", "db")
        self.process.wait()
        self.start()

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self._run("pg_ctl", "stop", "-m", "fast", "-D", "db")
        self.process.wait()
