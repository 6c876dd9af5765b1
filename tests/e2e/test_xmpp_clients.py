"""Chat with clients that nobody here wrote: slixmpp, npm `@xmpp/client` and `strophe.js`."""

import asyncio
import json
import os
import pathlib
import re
import subprocess
import threading

import pytest
import slixmpp

import npm
from waiting import until

HERE = pathlib.Path(__file__).resolve().parent
PATIENCE_S = 30


@pytest.fixture(scope="session")
def packages():
    return npm.installed("@xmpp/client@0.14.0", "strophe.js@5.0.0", "@xmldom/xmldom@0.9.8",
                         "ws@8.18.3")


def c2s(server, door="xmpp"):
    """Where apps connect, as the line `ready` tells; with TLS at once at `xmpp_tls`."""
    def lines():
        return [line for line in (server.data / "log").read_text().splitlines() if "ready" in line]

    # It answers a little before it says so.
    ready = until(lines, "the line that says where apps connect")
    plain = re.sub(r"\x1b\[[0-9;]*m", "", ready[-1])
    host, port = re.search(rf' {door}="?([^" ]+)', plain).group(1).rsplit(":", 1)
    return host, int(port)


class App(slixmpp.ClientXMPP):
    """slixmpp as its manual has it."""

    def __init__(self, server, name, resource="slix"):
        domain = server.domain.split(":")[0]
        super().__init__(f"{name}@{domain}/{resource}", f"password of {name}")
        for plugin in ("xep_0030", "xep_0199", "xep_0280", "xep_0198", "xep_0092", "xep_0352"):
            self.register_plugin(plugin)
        mechanisms = self.plugin["feature_mechanisms"]
        mechanisms.unencrypted_plain = mechanisms.unencrypted_scram = True
        self.place = getattr(server, "place", None) or c2s(server)
        self.enable_direct_tls = False
        self.enable_starttls = False
        self.enable_plaintext = True
        self.auto_authorize = None
        self.auto_subscribe = False
        self.heard = []
        self.started = asyncio.Event()
        self.add_event_handler("session_start", self.start)
        for event in ("message", "presence", "roster_update", "presence_subscribe", "failed_auth",
                      "presence_available", "presence_unavailable", "carbon_received",
                      "carbon_sent", "stream_error"):
            self.add_event_handler(event, lambda stanza, event=event: self.heard.append(
                (event, stanza)))

    async def start(self, _):
        await self.get_roster()
        self.send_presence()
        self.started.set()

    async def __aenter__(self):
        self.connect(*self.place)
        await asyncio.wait_for(self.started.wait(), PATIENCE_S)
        return self

    async def __aexit__(self, *_):
        await self.disconnect()

    async def hears(self, event, fits=lambda _: True):
        """The first of its stanzas that fits, now or later."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                for kind, stanza in self.heard:
                    if kind == event and fits(stanza):
                        return stanza
                await asyncio.sleep(0.02)


def bare(app):
    return app.boundjid.bare


@pytest.fixture(scope="module")
def people(server):
    for name in ("alice", "bob"):
        server.person(name)
    return server


def test_slixmpp_makes_friends_and_talks(people):
    async def talk():
        async with App(people, "alice") as alice, App(people, "bob") as bob:
            alice.send_presence_subscription(bare(bob))
            await bob.hears("presence_subscribe", lambda one: one["from"].bare == bare(alice))
            bob.send_presence_subscription(bare(alice), ptype="subscribed")
            bob.send_presence_subscription(bare(alice))
            await alice.hears("presence_subscribe", lambda one: one["from"].bare == bare(bob))
            alice.send_presence_subscription(bare(bob), ptype="subscribed")
            await alice.hears("presence_available", lambda one: one["from"] == bob.boundjid)
            await bob.hears("presence_available", lambda one: one["from"] == alice.boundjid)
            alice.send_message(mto=bare(bob), mbody="hi <&> ☃", mtype="chat")
            heard = await bob.hears("message", lambda one: one["body"])
            assert (heard["body"], heard["from"]) == ("hi <&> ☃", alice.boundjid)
            await alice.update_roster(bare(bob), name="Bob", groups=["Friends"])
            await alice.get_roster()
            known = alice.client_roster[bare(bob)]
            assert (known["subscription"], known["groups"]) == ("both", ["Friends"])
            version = await alice.plugin["xep_0092"].get_version(bob.boundjid)
            assert "slix" in str(version).lower()
        return True

    assert asyncio.run(talk())


def test_slixmpp_pings_and_finds_what_there_is(people):
    async def ask():
        async with App(people, "alice") as alice:
            domain = alice.boundjid.domain
            assert await alice.plugin["xep_0199"].ping(domain, timeout=10) < 10
            info = await alice.plugin["xep_0030"].get_info(jid=domain)
            assert "urn:xmpp:carbons:2" in info["disco_info"]["features"]
        return True

    assert asyncio.run(ask())


def test_slixmpp_gets_carbons_and_what_waited(people):
    async def talk():
        async with App(people, "alice") as alice:
            alice.send_message(mto=f"bob@{alice.boundjid.domain}", mbody="while you slept",
                               mtype="chat")
            await alice.plugin["xep_0199"].ping(alice.boundjid.domain, timeout=10)
            async with App(people, "bob", "phone") as phone:
                waited = await phone.hears("message",
                                           lambda one: one["body"] == "while you slept")
                assert waited["delay"]["stamp"]
                async with App(people, "bob", "desk") as desk:
                    await desk.plugin["xep_0280"].enable()
                    alice.send_message(mto=phone.boundjid, mbody="psst", mtype="chat")
                    copy = await desk.hears("carbon_received")
                    assert copy["carbon_received"]["body"] == "psst"
                    phone.send_message(mto=bare(alice), mbody="what?", mtype="chat")
                    copy = await desk.hears("carbon_sent")
                    assert copy["carbon_sent"]["body"] == "what?"
        return True

    assert asyncio.run(talk())


class Node:
    """A client for Node in a process of its own."""

    def __init__(self, packages, server, name, script="xmpp_client.mjs", by="tcp"):
        service = f"xmpp://{':'.join(map(str, c2s(server)))}"
        if by == "websocket":
            service = f"ws://{server.domain}/xmpp-websocket"
        self.heard = []
        self.process = subprocess.Popen(
            ["node", HERE / script, service,
             server.domain.split(":")[0], name, f"password of {name}"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            # The certificate of a server for tests is its own.
            env={**os.environ, "CLIENTS": str(packages), "NODE_TLS_REJECT_UNAUTHORIZED": "0"})
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            self.heard.append(json.loads(line))

    def has(self, event, **wanted):
        return any(one["event"] == event and wanted.items() <= one.items() for one in self.heard)

    def address(self):
        return next(one["address"] for one in self.heard if one["event"] == "online")

    def says(self, to, text):
        self.process.stdin.write(f"{to} {text}\n")
        self.process.stdin.flush()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait(timeout=PATIENCE_S)


def talk(alice, bob, domain):
    """Both are there, and each hears the other; neither is told of an error."""
    with alice, bob:
        until(lambda: alice.has("online") and bob.has("online"), "both to be there")
        alice.says(f"bob@{domain}", "hello <bob> & ☃")
        until(lambda: bob.has("message", body="hello <bob> & ☃", **{"from": alice.address()}),
              "the message")
        bob.says(alice.address(), "hello alice")
        until(lambda: alice.has("message", body="hello alice"), "the answer")
    errors = [one for one in alice.heard + bob.heard if one["event"] == "error"]
    assert errors == [], json.dumps(alice.heard + bob.heard, indent=1)


def test_xmpp_js_talks_over_tcp_and_over_websocket(people, packages):
    talk(Node(packages, people, "alice"), Node(packages, people, "bob", by="websocket"),
         people.domain.split(":")[0])


def test_strophe_talks_over_websocket(people, packages):
    def strophe(name):
        return Node(packages, people, name, script="strophe.mjs", by="websocket")

    talk(strophe("alice"), strophe("bob"), people.domain.split(":")[0])


def test_an_account_that_is_shut_out_loses_its_chat(people):
    people.person("carol")

    async def lose():
        app = App(people, "carol")
        async with app:
            people.command("account", "set", "carol", "--disabled", "true")
            await app.hears("stream_error")
            app.abort()
        again = App(people, "carol")
        again.connect(*again.place)
        await again.hears("failed_auth")
        again.abort()
        return True

    assert asyncio.run(lose())


def test_what_stream_management_acknowledged_outlives_a_kill(serve):
    server = serve()
    for name in ("alice", "bob"):
        server.person(name)

    async def flood():
        """Writes to bob until the server is killed; what was acknowledged."""
        alice, acknowledged = App(server, "alice"), set()
        alice.add_event_handler("stanza_acked",
                                lambda stanza: acknowledged.add(stanza["body"]))
        alice.connect(*alice.place)
        await asyncio.wait_for(alice.started.wait(), PATIENCE_S)
        # Fewer than may wait for somebody who is not there.
        for number in range(900):
            alice.send_message(mto=f"bob@{alice.boundjid.domain}", mbody=f"{number}", mtype="chat")
            if len(acknowledged) > 100:
                break
            await asyncio.sleep(0)
        async with asyncio.timeout(PATIENCE_S):
            while len(acknowledged) <= 100:
                alice.plugin["xep_0198"].request_ack()
                await asyncio.sleep(0.02)
        server.kill()
        alice.abort()
        return {body for body in acknowledged if body}

    async def read(wanted):
        async with App(server, "bob") as bob:
            for body in wanted:
                await bob.hears("message", lambda one, body=body: one["body"] == body)

    acknowledged = asyncio.run(flood())
    assert len(acknowledged) > 50
    server.start()
    asyncio.run(read(acknowledged))


def test_what_somebody_has_read_is_in_the_archive_after_a_kill(serve):
    server = serve()
    for name in ("alice", "bob"):
        server.person(name)

    def bodies(app):
        return {stanza["body"] for kind, stanza in app.heard if kind == "message"} - {""}

    async def flood():
        """Bob reads what alice writes until the server is killed; what he has read."""
        alice, bob = App(server, "alice"), App(server, "bob")
        for app in (alice, bob):
            app.connect(*app.place)
            await asyncio.wait_for(app.started.wait(), PATIENCE_S)
        for number in range(900):
            alice.send_message(mto=bare(bob), mbody=f"{number}", mtype="chat")
        async with asyncio.timeout(PATIENCE_S):
            while len(bodies(bob)) <= 100:
                await asyncio.sleep(0)
        server.kill()
        for app in (alice, bob):
            app.abort()
        return bodies(bob)

    async def archived():
        async with App(server, "bob") as bob:
            bob.register_plugin("xep_0313")
            found = bob.plugin["xep_0313"].iterate(rsm={"max": 250})
            return {one["mam_result"]["forwarded"]["stanza"]["body"] async for one in found}

    heard = asyncio.run(flood())
    server.start()
    assert heard <= asyncio.run(archived())
