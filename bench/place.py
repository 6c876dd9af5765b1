"""What benchmarks need beside them: free ports, and a PostgreSQL of their own."""

import os
import pathlib
import shutil
import socket
import subprocess
import sys
import time


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


def postgres(scratch):
    """A PostgreSQL of its own with its defaults: what it syncs counts."""
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
                                "-k", place, "-c", "listen_addresses=127.0.0.1"],
                               cwd=place, stdout=log, stderr=log)
    wait_for(port, process)
    for _ in range(200):
        if subprocess.run([tools / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(port)],
                          check=False).returncode == 0:
            break
        time.sleep(0.05)
    return process, f"postgres://postgres@127.0.0.1:{port}/postgres"
