"""Chat with the clients that people have on terminals: Debian's go-sendxmpp and profanity."""

import pathlib
import subprocess

import pytest

from terminal import Terminal
from test_xmpp_clients import c2s
from waiting import until

HERE = pathlib.Path(__file__).resolve().parent
PATIENCE_S = 30


@pytest.fixture(scope="module")
def people(server):
    subprocess.run([HERE / "../../scripts/need", "go-sendxmpp:go-sendxmpp", "profanity:profanity"],
                   check=True)
    for name in ("alice", "bob"):
        server.person(name)
    return server


def domain(server):
    return server.domain.split(":")[0]


def sendxmpp(server, name, *words, door="xmpp"):
    """The command line of go-sendxmpp; TLS begins as the door wants it."""
    host, port = c2s(server, door)
    # The certificate of a server for tests is its own.
    tls = ["--no-tls-verify", *(["--tls"] if door == "xmpp_tls" else [])]
    return ["go-sendxmpp", *tls, "--username", f"{name}@{domain(server)}", "--password",
            f"password of {name}", "--jserver", f"{host}:{port}", *words]


def say(server, name, text, *words):
    subprocess.run(sendxmpp(server, name, *words), input=text, text=True, check=True,
                   timeout=PATIENCE_S, capture_output=True)


class Listener:
    """go-sendxmpp that prints what comes."""

    def __init__(self, server, name, folder):
        self.printed = folder / "heard"
        with open(self.printed, "wb") as out:
            self.process = subprocess.Popen(
                sendxmpp(server, name, "--listen", door="xmpp_tls"), stdin=subprocess.DEVNULL,
                stdout=out, stderr=out)

    def hears(self, text):
        until(lambda: text in self.printed.read_text(), f"go-sendxmpp hears {text!r}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()


def test_go_sendxmpp_sends_by_starttls_and_listens_by_tls(people, tmp_path):
    with Listener(people, "bob", tmp_path) as bob:
        say(people, "alice", "hello <bob> & ☃", f"bob@{domain(people)}")
        bob.hears(f"alice@{domain(people)}: hello <bob> & ☃")


def test_profanity_talks_with_somebody_and_in_a_room(people, tmp_path):
    host, port = c2s(people)
    room = f"tea@conference.{domain(people)}"
    with (Listener(people, "bob", tmp_path) as bob,
          Terminal(tmp_path / "home", "profanity") as profanity):
        profanity.shows("/help")
        profanity.types(f"/connect alice@{domain(people)} server {host} port {port} tls trust")
        profanity.shows("password:")
        profanity.types("password of alice")
        profanity.shows("logged in successfully")
        profanity.types(f"/msg bob@{domain(people)} hello-from-profanity")
        bob.hears("hello-from-profanity")
        say(people, "bob", "hello-from-go", f"alice@{domain(people)}")
        profanity.shows("hello-from-go")
        profanity.types(f"/join {room} nick al")
        profanity.shows("Room locked, requires configuration.")
        profanity.types("/room accept")
        profanity.shows("Room unlocked.")
        profanity.types("anybody-here?")
        profanity.shows("al: anybody-here?")
        say(people, "bob", "i-am-here", "--chatroom", "--alias", "bo", room)
        profanity.shows("bo: i-am-here")
        profanity.types("/quit")
