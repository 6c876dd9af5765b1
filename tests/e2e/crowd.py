"""Many listeners in one process, on bare sockets: streams by WebSocket and as server-sent events,
and DDP. Each comes back when it is cut off, as a good client does, and notes what it learns."""

import asyncio
import base64
import json
import os
import time

import pytest

from waiting import EVERY_S

LINE_BYTES_MAX = 1024 * 1024
# A server takes a limited number of connections from each address.
SOURCES = 8


class Busy(Exception):
    """The server asks to come again later."""

    def __init__(self, retry_s):
        super().__init__()
        self.retry_s = retry_s


class Home:
    """The home timeline of somebody at one node; read once for all who ask before it is begun."""

    def __init__(self, person):
        self.person = person
        self.next = None
        self.lock = asyncio.Lock()

    async def posts(self):
        if self.next is None:
            self.next = asyncio.create_task(self._read())
        return await asyncio.shield(self.next)

    async def _read(self):
        async with self.lock:
            self.next = None
            home = await asyncio.to_thread(self.person.home)
            return {post["id"] for post in home}


class Listener:
    """One session of somebody, at one node after the other."""

    def __init__(self, crowd, token, source):
        self.crowd = crowd
        self.token = token
        self.source = source
        self.writer = None
        # How often it was here with everything known that it could learn.
        self.came = 0
        # Of the last connection: whether the server said that nothing was missed.
        self.complete = None
        # Posts it knows of, by whatever way; and those it was told, which are not to come twice.
        self.known, self.told, self.twice = set(), set(), []

    async def run(self):
        while True:
            home = await self.crowd.home(self.token)
            try:
                await self.listen(home)
            except Busy as busy:
                await asyncio.sleep(busy.retry_s)
            except (OSError, EOFError):
                pass  # It was cut off.
            finally:
                if self.writer:
                    self.writer.close()

    async def ask(self, node, path, *headers):
        """Asks for something that does not end; what comes behind the answer's head."""
        host, port = node.domain.split(":")
        reader, self.writer = await asyncio.open_connection(
            host, int(port), limit=LINE_BYTES_MAX, local_addr=(self.source, 0))
        lines = [f"GET {path} HTTP/1.1", f"Host: {node.domain}", *headers, "", ""]
        self.writer.write("\r\n".join(lines).encode())
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        status = head.split(" ")[1]
        if status == "503":
            raise Busy(int(head.split("retry-after: ")[1].split("\r\n")[0]))
        assert status in ("101", "200"), head
        return reader

    def tell(self, post):
        if post in self.told:
            self.twice.append(post)
        self.told.add(post)
        self.known.add(post)

    def cut(self):
        """As a network that is gone."""
        if self.writer:
            self.writer.transport.abort()


class WebSocket:
    def __init__(self, reader, writer):
        self.reader, self.writer = reader, writer

    @classmethod
    async def open(cls, listener, node, path):
        key = base64.b64encode(os.urandom(16)).decode()
        reader = await listener.ask(
            node, path, "Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13",
            f"Sec-WebSocket-Key: {key}")
        return cls(reader, listener.writer)

    async def next(self):
        """The next message, which is JSON."""
        while True:
            first, length = await self.reader.readexactly(2)
            if length in (126, 127):
                wide = await self.reader.readexactly(2 if length == 126 else 8)
                length = int.from_bytes(wide, "big")
            payload = await self.reader.readexactly(length)
            kind = first & 0x0F
            if kind == 1:
                return json.loads(payload)
            if kind == 8:
                raise EOFError
            if kind == 9:
                self._write(10, payload)

    def say(self, message):
        self._write(1, json.dumps(message).encode())

    def _write(self, kind, payload):
        length = len(payload)
        wide = b"" if length < 126 else length.to_bytes(2, "big")
        # A mask of zeroes is one too.
        head = bytes([0x80 | kind, 0x80 | min(length, 126)])
        self.writer.write(head + wide + bytes(4) + payload)


class Stream(Listener):
    """The home timeline, as a stream by WebSocket."""

    last = ""

    async def listen(self, home):
        self.complete = None
        await self.follow(home)

    async def follow(self, home):
        path = f"/api/v1/streaming?stream=user&since={self.last}&access_token={self.token}"
        socket = await WebSocket.open(self, home.person.server, path)
        while True:
            message = await socket.next()
            await self.hear(home, message["event"], message.get("payload"), message.get("id"))

    async def hear(self, home, event, payload, place):
        self.last = place or self.last
        if event == "update":
            self.tell(json.loads(payload)["id"])
        elif event == "resumed":
            is_first = self.complete is None
            self.complete = json.loads(payload)["complete"]
            if not self.complete:
                # What was told may come again: only who resumes is promised more.
                self.told.clear()
                self.known |= await home.posts()
            self.came += is_first


class Events(Stream):
    """The same as server-sent events."""

    async def follow(self, home):
        headers = [f"Authorization: Bearer {self.token}", f"Last-Event-ID: {self.last}"]
        reader = await self.ask(home.person.server, "/api/v1/streaming/user", *headers)
        fields = {}
        while line := await reader.readline():
            name, _, value = line.decode().strip().partition(": ")
            if name in ("event", "data", "id"):
                fields[name] = value
            elif not name and fields:
                await self.hear(home, fields["event"], fields["data"], fields.get("id"))
                fields = {}
        raise EOFError


class Documents(Listener):
    """The home timeline as documents."""

    session, received = None, 0

    async def listen(self, home):
        socket = await WebSocket.open(self, home.person.server, "/websocket")
        hello = {"msg": "connect", "version": "1", "support": ["1"]}
        if self.session:
            hello |= {"session": self.session, "receivedCount": self.received}
        socket.say(hello)
        while True:
            message = await socket.next()
            kind = message["msg"]
            self.received += kind not in ("ping", "pong")
            if kind == "ping":
                socket.say({"msg": "pong"})
            elif kind == "connected":
                self.complete = message["session"] == self.session
                if self.complete:
                    self.came += 1
                    continue
                self.session, self.received = message["session"], 1
                self.told.clear()
                login = {"msg": "method", "id": "1", "method": "login"}
                socket.say(login | {"params": [{"resume": self.token}]})
                wish = {"msg": "sub", "id": "2", "name": "timelines.home"}
                socket.say(wish | {"params": [{"limit": 200}]})
            elif kind == "ready":
                self.came += "2" in message["subs"]
            elif kind == "added" and message["collection"] == "timeline_entries":
                self.tell(message["fields"]["status_id"])
            assert kind not in ("nosub", "error", "failed") and "error" not in message, message


class Crowd:
    """Listeners of each kind in `counts`, of these people in turn."""

    def __init__(self, node, counts, people, patience_s):
        self.patience_s = patience_s
        self.people = {token(one): one for one in people}
        tokens = list(self.people)
        kinds = [kind for kind, count in counts.items() for _ in range(count)]
        self.listeners = [
            kind(self, tokens[number % len(tokens)], f"127.0.0.{2 + number % SOURCES}")
            for number, kind in enumerate(kinds)]
        self.homes, self.is_open = {}, asyncio.Event()
        self.move(node)

    def move(self, node):
        """Who comes from now on comes to `node`."""
        self.homes = {one: Home(person.at(node)) for one, person in self.people.items()}
        self.is_open.set()

    async def home(self, whose):
        await self.is_open.wait()
        return self.homes[whose]

    def cut(self):
        """All are cut off, and come back once the crowd moves."""
        self.is_open.clear()
        for one in self.listeners:
            one.cut()

    async def until(self, holds, what):
        """Waits until this holds of each of them."""
        end = time.monotonic() + self.patience_s
        while lacking := sum(not holds(one) for one in self.listeners):
            for task in self.tasks:
                if task.done():
                    task.result()
            if time.monotonic() > end:
                pytest.fail(f"{what}: not of {lacking} within {self.patience_s} s")
            await asyncio.sleep(EVERY_S)

    async def __aenter__(self):
        self.tasks = [asyncio.create_task(one.run()) for one in self.listeners]
        return self

    async def __aexit__(self, *_):
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)


def token(person):
    return person.session.headers["Authorization"].split(" ")[1]
