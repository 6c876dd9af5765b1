"""A server of another kind: people with keys, signed by `apsig`, and an inbox that keeps what
comes. It shows Weir from the outside."""

import email.utils
import itertools
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlparse

import requests
from apsig.draft import Signer, Verifier
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from waiting import until

HOST = "127.0.0.9"
TIMEOUT_S = 30
FORM = "application/activity+json"
CONTEXT = ["https://www.w3.org/ns/activitystreams", "https://w3id.org/security/v1"]
PUBLIC = "https://www.w3.org/ns/activitystreams#Public"


def pem(key):
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return key.public_key().public_bytes(serialization.Encoding.PEM, form).decode()


def new_key():
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


class Received:
    """A request as it came."""

    def __init__(self, method, path, headers, body):
        self.method = method
        self.path = path
        self.headers = headers
        self.body = body

    def activity(self):
        return json.loads(self.body)

    def signer(self, public_pem):
        """The key's id, when the signature holds by `apsig`; else an exception."""
        url = f"http://{self.headers['host']}{self.path}"
        verifier = Verifier(public_pem, self.method, url, self.headers, self.body)
        return verifier.verify(raise_on_fail=True)


class Actor:
    """A person of the other server."""

    def __init__(self, server, name):
        self.server = server
        self.name = name
        self.id = f"{server.base}/users/{name}"
        self.handle = f"{name}@{server.domain}"
        self.key = new_key()
        self.more = {}

    def document(self):
        return {
            "@context": CONTEXT, "id": self.id, "type": "Person",
            "preferredUsername": self.name, "name": self.name, "inbox": f"{self.id}/inbox",
            "outbox": f"{self.id}/outbox", "followers": f"{self.id}/followers",
            "url": f"{self.server.base}/@{self.name}",
            "endpoints": {"sharedInbox": f"{self.server.base}/inbox"},
            "publicKey": {"id": f"{self.id}#main-key", "owner": self.id,
                          "publicKeyPem": pem(self.key)},
            **self.more,
        }

    def note(self, content, to=(PUBLIC,), cc=(), **more):
        """A post, which this server serves from now on."""
        number = next(self.server.numbers)
        note = {
            "@context": CONTEXT, "id": f"{self.id}/statuses/{number}", "type": "Note",
            "attributedTo": self.id, "content": content, "to": list(to),
            "cc": [*cc, f"{self.id}/followers"], "published": now(), **more,
        }
        self.server.documents[urlparse(note["id"]).path] = note
        return note

    def activity(self, kind, what, **more):
        number = next(self.server.numbers)
        return {"@context": CONTEXT, "id": f"{self.id}/activities/{number}", "type": kind,
                "actor": self.id, "object": what, **more}

    def create(self, note):
        return self.activity("Create", note, to=note["to"], cc=note["cc"])

    def signed(self, inbox, body, key=None, headers=None):
        """The headers of a delivery."""
        signer = Signer(headers={"Content-Type": FORM, **(headers or {})},
                        private_key=key or self.key, method="POST", url=inbox,
                        key_id=f"{self.id}#main-key", body=body)
        headers = signer.sign()
        # Only one of the two places for a signature, as servers do.
        del headers["Authorization"]
        return headers

    def deliver(self, server, activity, key=None, headers=None):
        """Hands an activity to the shared inbox of a Weir server; the answer."""
        inbox = f"{server.base}/inbox"
        body = activity if isinstance(activity, bytes) else json.dumps(activity).encode()
        return requests.post(inbox, data=body, timeout=TIMEOUT_S,
                             headers=self.signed(inbox, body, key, headers))

    def follow(self, person):
        """Follows somebody on a Weir server, and waits for the agreement."""
        follow = self.activity("Follow", actor_id(person))
        assert self.deliver(person.server, follow).status_code == 202
        self.server.received("Accept", lambda one: one["object"] == follow["id"]
                             or one["object"].get("id") == follow["id"])
        return follow

    def accept_follow_of(self, person):
        """Has somebody on a Weir server follow this one, and agrees."""
        account = person.find(self.handle)
        person.post(f"/api/v1/accounts/{account['id']}/follow")
        asked = self.server.received("Follow", lambda one: one["object"] == self.id
                                     and one["actor"] == actor_id(person))
        accept = self.activity("Accept", asked.activity())
        assert self.deliver(person.server, accept).status_code == 202
        until(lambda: person.relation(account)["following"], "the agreement to a follow")
        return account


def now():
    return email.utils.localtime().astimezone().isoformat(timespec="milliseconds")


def actor_id(person):
    """The id of a person of a Weir server."""
    answer = requests.get(f"{person.server.base}/.well-known/webfinger", timeout=TIMEOUT_S,
                          params={"resource": f"acct:{person.handle}"})
    assert answer.status_code == 200, answer.text
    return next(one["href"] for one in answer.json()["links"] if one["rel"] == "self")


def actor_document(person):
    answer = requests.get(actor_id(person), headers={"Accept": FORM}, timeout=TIMEOUT_S)
    assert answer.status_code == 200, answer.text
    return answer.json()


class Elsewhere:
    """Serves actors and posts, and keeps each request that comes."""

    def __init__(self, host=HOST):
        self.requests = []
        self.documents = {}
        self.actors = {}
        self.numbers = itertools.count(1)
        # How deliveries are answered.
        self.taken_with = 202
        elsewhere = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def keep(self):
                length = int(self.headers.get("Content-Length") or 0)
                headers = {name.lower(): value for name, value in self.headers.items()}
                request = Received(self.command, self.path, headers, self.rfile.read(length))
                elsewhere.requests.append(request)

            def answer(self, status, document=None, form=FORM):
                body = b"" if document is None else json.dumps(document).encode()
                self.send_response(status)
                self.send_header("Content-Type", form)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_POST(self):
                self.keep()
                self.answer(elsewhere.taken_with)

            def do_GET(self):
                self.keep()
                document, form = elsewhere.document(self.path)
                self.answer(200 if document else 404, document, form)

            def log_message(self, *_):
                pass

        self.http = ThreadingHTTPServer((host, 0), Handler)
        self.http.daemon_threads = True
        self.domain = f"{host}:{self.http.server_port}"
        self.base = f"http://{self.domain}"

    def __enter__(self):
        threading.Thread(target=self.http.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.http.shutdown()
        self.http.server_close()

    def actor(self, name):
        name = f"{name}{next(self.numbers)}"
        self.actors[name] = Actor(self, name)
        return self.actors[name]

    def document(self, target):
        """What lies at a path, and its media type."""
        asked = urlparse(target)
        if asked.path == "/.well-known/webfinger":
            resource = parse_qs(asked.query).get("resource", [""])[0]
            name = resource.removeprefix("acct:").split("@")[0]
            actor = self.actors.get(name)
            links = actor and [{"rel": "self", "type": FORM, "href": actor.id}]
            found = actor and {"subject": f"acct:{actor.handle}", "links": links}
            return found, "application/jrd+json"
        if asked.path in self.documents:
            return self.documents[asked.path], FORM
        parts = asked.path.strip("/").split("/")
        if parts[0] != "users" or len(parts) < 2 or parts[1] not in self.actors:
            return None, FORM
        actor = self.actors[parts[1]]
        if len(parts) == 2:
            return actor.document(), FORM
        if parts[2:] in (["outbox"], ["followers"], ["following"]):
            return {"@context": CONTEXT, "id": f"{self.base}{asked.path}", "totalItems": 0,
                    "type": "OrderedCollection", "orderedItems": []}, FORM
        return None, FORM

    def deliveries(self, kind=None):
        posts = [one for one in list(self.requests) if one.method == "POST"]
        return [one for one in posts if kind is None or one.activity()["type"] == kind]

    def received(self, kind, fits=lambda activity: True):
        """Waits for a delivery."""
        def found():
            return next((one for one in self.deliveries(kind) if fits(one.activity())), None)
        return until(found, f"a delivery of {kind}")
