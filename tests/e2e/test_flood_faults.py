"""What goes wrong under the server while a flood comes in: it is refused for a while, and lost is
nothing."""

import errno
import os

from cluster import Cluster
from conftest import Database, Server
from test_flood import ACTIVITIES, ACTORS, LONG, storm

FLOOD = ["--activities", str(ACTIVITIES), "--actors", str(ACTORS), "--hosts", "8", "--people", "5",
         "--follows", "20", "--unknown", "0", "--guests", "0", "--no-fresh", "--rate", "250"]
# The door keeps 512 MiB free, for what waits and for the log.
DISK_MIB = 1_188 if LONG else 676


class OwnDatabase(Database):
    """One that goes with its server."""

    def __init__(self, url):
        self.kind, self.url = "postgres", url

    def drop(self):
        pass


def test_a_database_that_is_restarted_in_mid_flood_loses_nothing(tmp_path_factory):
    with Cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        server = Server(tmp_path_factory.mktemp("server"), OwnDatabase(cluster.url))
        try:
            server.start()
            report = tmp_path_factory.mktemp("flood") / "flood.json"
            flood = storm(server, report, *FLOOD, strikes={0.3: cluster.restart,
                                                           0.6: cluster.restart})
        finally:
            server.stop()
    assert flood["results"]["missing"] == 0, flood["said"]


class OnSmallDisk(Server):
    """Its data lies on a disk of its own, in a mount namespace."""

    def words(self, data):
        disk = data / "disk"
        disk.mkdir()
        mount = f'mount -t tmpfs -o size={DISK_MIB}m weir "$1" && shift && exec "$@"'
        return ["unshare", "-rm", "sh", "-c", mount, "sh", str(disk), *super().words(disk)]

    def filler(self):
        """The file that fills the disk, as it is seen from outside of the namespace."""
        return f"/proc/{self.process.pid}/root{self.data}/disk/filler"

    def fill(self):
        with open(self.filler(), "wb", buffering=0) as filler:
            try:
                while True:
                    filler.write(bytes(64 * 1024))
            except OSError as error:
                assert error.errno == errno.ENOSPC, error

    def empty(self):
        os.unlink(self.filler())


def test_on_a_full_disk_what_comes_is_refused_and_taken_when_there_is_room(tmp_path_factory):
    server = OnSmallDisk(tmp_path_factory.mktemp("server"), Database("sqlite"))
    try:
        server.start()
        report = tmp_path_factory.mktemp("flood") / "flood.json"
        flood = storm(server, report, *FLOOD, strikes={0.3: server.fill}, relief=server.empty)
    finally:
        server.stop()
    assert flood["results"]["turned_away"] > 0, flood["said"]
    assert flood["results"]["missing"] == 0, flood["said"]
