"""Chat with the client that people have in browsers: npm `converse.js`, in Chromium."""

import asyncio
import functools
import http.server
import re
import threading

import pytest
from playwright.sync_api import expect

import browser
import npm
from test_xmpp_clients import App, bare

CONVERSE = "converse.js@14.0.0"
PAGE = """<!DOCTYPE html>
<meta charset="utf-8">
<link rel="stylesheet" href="/converse.min.css">
<body class="converse-fullscreen">
<script type="module">
import "/converse.min.js";
converse.initialize({
  websocket_url: new URLSearchParams(location.search).get("chat"),
  discover_connection_methods: false, view_mode: "fullscreen", assets_path: "/",
});
</script>
"""


class Files(http.server.SimpleHTTPRequestHandler):
    """The page, and what npm brought."""

    def do_GET(self):
        if not self.path.startswith("/?"):
            super().do_GET()
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(PAGE.encode())

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def kind():
    """One database is enough: Chromium takes its time, and other clients show the other one."""
    return "sqlite"


@pytest.fixture(scope="module")
def site():
    """Where the page is served; not where the chat server is, as with any hosted client."""
    folder = npm.installed(CONVERSE) / "node_modules/converse.js/dist"
    site = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Files, directory=folder))
    threading.Thread(target=site.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{site.server_port}"
    site.shutdown()
    site.server_close()


async def make_friends(server):
    async with App(server, "alice") as alice, App(server, "bob") as bob:
        for one, other in ((alice, bob), (bob, alice)):
            one.send_presence_subscription(bare(other))
            await other.hears("presence_subscribe")
            other.send_presence_subscription(bare(one), ptype="subscribed")
        await bob.hears("presence_available", lambda one: one["from"] == alice.boundjid)


class Person:
    """Somebody with converse.js open."""

    def __init__(self, page, site, server, name):
        self.page = page
        self.domain = server.domain.split(":")[0]
        # It shows the logos of its sponsors.
        page.route(re.compile("^https:"), lambda route: route.abort())
        page.goto(f"{site}/?chat=ws://{server.domain}/xmpp-websocket")
        page.fill("input[name=jid]", f"{name}@{self.domain}")
        page.fill("input[name=password]", f"password of {name}")
        page.press("input[name=password]", "Enter")

    def sees_here(self, name):
        contact = self.page.locator(".list-item.online", has_text=f"{name}@{self.domain}")
        expect(contact.first).to_be_visible(timeout=browser.WAIT_MS)
        return contact.first

    def opens(self, name):
        box = self.page.locator(".chat-textarea:visible")
        # Contacts are drawn anew as they come in: a click in that moment is for nobody.
        for tries_left in reversed(range(5)):
            self.sees_here(name).locator(".open-chat").click()
            try:
                expect(box).to_be_visible(timeout=browser.WAIT_MS / 5)
                return
            except AssertionError:
                if not tries_left:
                    raise

    def says(self, text):
        box = self.page.locator(".chat-textarea:visible")
        box.fill(text)
        box.press("Enter")

    def hears(self, text):
        said = self.page.locator(".chat-msg__text:visible", has_text=text)
        expect(said).to_have_text(text, timeout=browser.WAIT_MS)

    def joins(self, room, nick):
        self.page.evaluate(f"location.hash = 'converse/room?jid={room}@conference.{self.domain}'")
        self.page.fill("input[name=nick]", nick)
        self.page.press("input[name=nick]", "Enter")

    def sees_in_room(self, nick):
        occupant = self.page.locator(".occupant-nick:visible", has_text=nick)
        expect(occupant).to_be_visible(timeout=browser.WAIT_MS)


def test_converse_shows_contacts_and_talks_with_them_and_in_a_room(server, site):
    for name in ("alice", "bob"):
        server.person(name)
    asyncio.run(make_friends(server))
    with browser.people() as another:
        alice, bob = (Person(another(), site, server, name) for name in ("alice", "bob"))
        alice.opens("bob")
        alice.says("hello <bob> & ☃")
        bob.opens("alice")
        bob.hears("hello <bob> & ☃")
        bob.says("hello alice")
        alice.hears("hello alice")
        alice.joins("tea", "al")
        alice.sees_in_room("al")
        bob.joins("tea", "bo")
        alice.sees_in_room("bo")
        alice.says("is the kettle on?")
        bob.hears("is the kettle on?")
        bob.says("it is")
        alice.hears("it is")
