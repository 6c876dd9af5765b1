"""A person who uses the Mastodon API with plain requests."""

import requests

from waiting import until

TIMEOUT_S = 30


class Person:
    """Acts for an account of `server` by its token."""

    def __init__(self, server, name, token):
        self.server = server
        self.name = name
        self.handle = f"{name}@{server.domain}"
        self.session = requests.Session()
        self.session.headers["Authorization"] = f"Bearer {token}"
        self.account = self.get("/api/v1/accounts/verify_credentials")
        self.id = self.account["id"]

    def at(self, node):
        """The same person by another node of their server."""
        return Person(node, self.name, self.session.headers["Authorization"].split(" ")[1])

    def ask(self, method, path, **options):
        """The answer, whatever it is."""
        url = path if path.startswith("http") else self.server.base + path
        return self.session.request(method, url, timeout=TIMEOUT_S, **options)

    def call(self, method, path, **options):
        """The answer's JSON; it must be a success."""
        answer = self.ask(method, path, **options)
        assert answer.ok, f"{method} {path}: {answer.status_code} {answer.text[:500]}"
        return answer.json()

    def get(self, path, **query):
        return self.call("GET", path, params=query)

    def post(self, path, **body):
        return self.call("POST", path, json=body)

    def put(self, path, **body):
        return self.call("PUT", path, json=body)

    def patch(self, path, **body):
        return self.call("PATCH", path, json=body)

    def delete(self, path):
        return self.call("DELETE", path)

    def say(self, text, **fields):
        return self.post("/api/v1/statuses", status=text, **fields)

    def do(self, what, status):
        """`favourite`, `reblog`, `pin`, … of a post as this person knows it."""
        return self.post(f"/api/v1/statuses/{status['id']}/{what}")

    def look_for(self, query, kind="accounts"):
        found = self.get("/api/v2/search", q=query, resolve="true", type=kind)[kind]
        return found[0] if found else None

    def find(self, other):
        """Another person's account as it is known here; its server is asked."""
        handle = other if isinstance(other, str) else other.handle
        return until(lambda: self.look_for(f"@{handle}"), f"{self.handle} finds {handle}")

    def see(self, url):
        """Another server's post as it is known here; its server is asked."""
        return until(lambda: self.look_for(url, "statuses"), f"{self.handle} finds {url}")

    def relation(self, account):
        return self.get("/api/v1/accounts/relationships", **{"id[]": account["id"]})[0]

    def follow(self, other):
        """Follows, and waits until the other's server has agreed."""
        account = self.find(other)
        self.post(f"/api/v1/accounts/{account['id']}/follow")
        until(lambda: self.relation(account)["following"], f"{self.handle} follows")
        return account

    def home(self):
        return self.get("/api/v1/timelines/home", limit=40)

    def receives(self, post):
        """Waits until another's post is in the home timeline, and gives it as it is known here."""
        def found():
            return next((one for one in self.home() if one["uri"] == post["uri"]), None)
        return until(found, f"{post['uri']} in the home of {self.handle}")

    def notices(self, kind):
        return self.get("/api/v1/notifications", **{"types[]": kind, "limit": 40})

    def is_told(self, kind, by):
        """Waits for a notification of that kind by that person."""
        def found():
            return next((one for one in self.notices(kind)
                         if one["account"]["username"] == by.name), None)
        return until(found, f"{kind} by {by.handle} for {self.handle}")

    def shown(self, status):
        """A post as it is now; nothing where it cannot be seen."""
        answer = self.ask("GET", f"/api/v1/statuses/{status['id']}")
        assert answer.status_code in (200, 404), answer.text
        return answer.json() if answer.ok else None
