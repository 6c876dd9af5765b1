"""Chat between servers: two of ours, and ours with Debian's Prosody and ejabberd, both ways."""

import asyncio
import os
import pathlib
import socket
import subprocess
import time

import pytest

from test_xmpp_clients import App, bare

HERE = pathlib.Path(__file__).resolve().parent
# Erlang takes its time where others want the processors too.
START_S = 120


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


def certificate(folder, host):
    """The files of a key and of a certificate that nobody vouches for."""
    key, cert = folder / "key.pem", folder / "cert.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
         "-subj", f"/CN={host}", "-addext", f"subjectAltName=IP:{host}",
         "-keyout", key, "-out", cert], check=True, capture_output=True)
    return key, cert


class Peer:
    """Another server in a process of its own, at an address of its own."""

    def run(self, log, words, **options):
        with open(log, "ab") as out:
            self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=out,
                                            stderr=out, **options)
        until = time.monotonic() + START_S
        while time.monotonic() < until:
            try:
                socket.create_connection(self.place, 1).close()
                return
            except OSError:
                assert self.process.poll() is None, log.read_text()[-3000:]
                time.sleep(0.05)
        self.stop()
        raise AssertionError(log.read_text()[-3000:])

    def stop(self):
        # What it holds is of no more use.
        self.process.kill()
        self.process.wait()


class Prosody(Peer):
    """Prosody at an address of its own."""

    host = "127.0.0.7"
    domain = f"{host}:5222"
    place = (host, 5222)

    def __init__(self, folder):
        key, cert = certificate(folder, self.host)
        config = folder / "prosody.cfg.lua"
        config.write_text(f"""
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
        subprocess.run(["prosodyctl", "--config", config, "register", "carol", self.host,
                        "password of carol"], check=True, capture_output=True)
        self.run(folder / "log", ["prosody", "--config", config])


class Ejabberd(Peer):
    """ejabberd at an address of its own, as one Erlang process that other nodes cannot reach: so
    it needs no epmd, which would outlive it."""

    host = "127.0.0.8"
    domain = f"{host}:5222"
    place = (host, 5222)

    def __init__(self, folder):
        key, cert = certificate(folder, self.host)
        config = folder / "ejabberd.yml"
        config.write_text(f"""
            hosts: ["{self.host}"]
            certfiles: ["{key}", "{cert}"]
            loglevel: info
            s2s_use_starttls: required
            listen:
              - {{ port: 5222, ip: "{self.host}", module: ejabberd_c2s, starttls: true }}
              - {{ port: 5269, ip: "{self.host}", module: ejabberd_s2s_in }}
            modules: {{ mod_roster: {{}}, mod_disco: {{}}, mod_ping: {{}}, mod_s2s_dialback: {{}} }}
        """)
        # No name is asked of anybody: the addresses are all there is.
        names = folder / "inetrc"
        names.write_text("{lookup, [file]}.\n")
        # One for each database: it would remember who are friends already.
        register = "".join(
            f'ejabberd_auth:try_register(<<"{name}">>, <<"{self.host}">>, '
            f'<<"password of {name}">>), ' for name in ("dave-sqlite", "dave-postgres")) + "ok."
        self.run(
            folder / "out",
            ["erl", "-noinput", "+S", "1", "+sbwt", "none", "-mnesia", "dir", f'"{folder}/db"',
             "-s", "ejabberd", "-eval", register],
            env={**os.environ, "HOME": str(folder), "EJABBERD_CONFIG_PATH": str(config),
                 "EJABBERD_LOG_PATH": f"{folder}/log", "ERL_LIBS": erlang_libraries(),
                 "ERL_INETRC": str(names), "ERL_CRASH_DUMP_BYTES": "0"})


def erlang_libraries():
    """Where Debian's package has its programs."""
    files = subprocess.run(["dpkg", "-L", "ejabberd"], check=True, capture_output=True, text=True)
    found = next(one for one in files.stdout.splitlines() if one.endswith("/ejabberd_app.beam"))
    return str(pathlib.Path(found).parents[2])


@pytest.fixture(scope="module")
def prosody(kind, tmp_path_factory):
    # One for each database: it would remember who are friends already.
    subprocess.run([HERE / "../../scripts/need", "prosody:prosody", "openssl:openssl"], check=True)
    server = Prosody(tmp_path_factory.mktemp(f"prosody-{kind}"))
    yield server
    server.stop()


@pytest.fixture(scope="session")
def ejabberd(tmp_path_factory):
    subprocess.run([HERE / "../../scripts/need", "ejabberdctl:ejabberd", "erl:erlang-base",
                    "openssl:openssl"], check=True)
    server = Ejabberd(tmp_path_factory.mktemp("ejabberd"))
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


def test_ejabberds_people_ask_ours(here, ejabberd, kind):
    async def talk():
        dave = App(ejabberd, f"dave-{kind}")
        async with App(here, "alice", "third") as alice, dave:
            await make_friends_and_talk(dave, alice)

    asyncio.run(talk())


def test_our_people_ask_ejabberds(here, ejabberd, kind):
    async def talk():
        dave = App(ejabberd, f"dave-{kind}", "other")
        async with App(here, "alice", "fourth") as alice, dave:
            await make_friends_and_talk(alice, dave)

    asyncio.run(talk())
