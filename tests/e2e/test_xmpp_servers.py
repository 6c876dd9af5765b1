"""Chat between servers: two of ours, and one of ours with Debian's Prosody, both ways."""

import asyncio
import pathlib
import socket
import subprocess
import time

import pytest

from test_xmpp_clients import App, bare

HERE = pathlib.Path(__file__).resolve().parent
START_S = 30


@pytest.fixture(scope="module")
def here(serve):
    server = serve("127.0.0.5")
    server.person("alice")
    return server


@pytest.fixture(scope="module")
def there(serve):
    server = serve("127.0.0.6")
    server.person("bob")
    return server


class Prosody:
    """Prosody at an address of its own, with a certificate that nobody vouches for."""

    host = "127.0.0.7"
    domain = f"{host}:5222"
    place = (host, 5222)

    def __init__(self, folder):
        self.folder = folder
        key, cert = folder / "key.pem", folder / "cert.pem"
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
             "-subj", f"/CN={self.host}", "-addext", f"subjectAltName=IP:{self.host}",
             "-keyout", key, "-out", cert], check=True, capture_output=True)
        self.config = folder / "prosody.cfg.lua"
        self.config.write_text(f"""
            daemonize = false
            run_as_root = true
            pidfile = "{folder}/pid"
            data_path = "{folder}/data"
            interfaces = {{ "{self.host}" }}
            modules_enabled = {{ "roster", "saslauth", "tls", "dialback", "disco", "ping" }}
            modules_disabled = {{ "s2s_auth_certs" }}
            s2s_secure_auth = false
            s2s_require_encryption = true
            c2s_require_encryption = false
            allow_unencrypted_plain_auth = true
            authentication = "internal_plain"
            log = {{ debug = "{folder}/log" }}
            ssl = {{ key = "{key}"; certificate = "{cert}" }}
            VirtualHost "{self.host}"
        """)
        subprocess.run(["prosodyctl", "--config", self.config, "register", "carol", self.host,
                        "password of carol"], check=True, capture_output=True)
        self.process = subprocess.Popen(["prosody", "--config", self.config],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until = time.monotonic() + START_S
        while time.monotonic() < until:
            try:
                socket.create_connection(self.place, 1).close()
                return
            except OSError:
                time.sleep(0.05)
        raise AssertionError((folder / "log").read_text()[-3000:])

    def stop(self):
        self.process.terminate()
        self.process.wait(START_S)


@pytest.fixture(scope="module")
def prosody(kind, tmp_path_factory):
    # One for each database: it would remember who are friends already.
    subprocess.run([HERE / "../../scripts/need", "prosody:prosody", "openssl:openssl"], check=True)
    server = Prosody(tmp_path_factory.mktemp(f"prosody-{kind}"))
    yield server
    server.stop()


async def make_friends_and_talk(one, other):
    """Across servers: each sees the other, and each hears the other."""
    one.send_presence_subscription(bare(other))
    await other.hears("presence_subscribe", lambda stanza: stanza["from"].bare == bare(one))
    other.send_presence_subscription(bare(one), ptype="subscribed")
    await one.hears("presence_available", lambda stanza: stanza["from"] == other.boundjid)
    one.send_message(mto=bare(other), mbody="hi <&> ☃", mtype="chat")
    heard = await other.hears("message", lambda stanza: stanza["body"])
    assert (heard["body"], heard["from"]) == ("hi <&> ☃", one.boundjid)
    other.send_message(mto=one.boundjid, mbody="hello", mtype="chat")
    heard = await one.hears("message", lambda stanza: stanza["body"])
    assert (heard["body"], heard["from"]) == ("hello", other.boundjid)
    version = await one.plugin["xep_0092"].get_version(other.boundjid)
    assert "slix" in str(version).lower()


def test_two_servers_of_ours(here, there):
    async def talk():
        async with App(here, "alice") as alice, App(there, "bob") as bob:
            await make_friends_and_talk(alice, bob)

    asyncio.run(talk())


def test_prosodys_people_ask_ours(here, prosody):
    async def talk():
        async with App(here, "alice") as alice, App(prosody, "carol") as carol:
            await make_friends_and_talk(carol, alice)

    asyncio.run(talk())


def test_our_people_ask_prosodys(here, prosody):
    async def talk():
        async with App(here, "alice", "second") as alice, App(prosody, "carol", "other") as carol:
            await make_friends_and_talk(alice, carol)

    asyncio.run(talk())
