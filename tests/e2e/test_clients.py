"""Clients that nobody here wrote, unmodified: Mastodon.py and toot."""

import os
import subprocess
import threading

from mastodon import Mastodon, StreamListener
from PIL import Image

from browser import authorize
from waiting import until

SCOPES = ["read", "write", "follow", "push"]


def log_in(server, name):
    """As people do: the app is registered, the page in a browser asks, the code is exchanged."""
    client_id, secret = Mastodon.create_app("e2e", api_base_url=server.base, scopes=SCOPES)
    app = Mastodon(client_id, secret, api_base_url=server.base, version_check_mode="none")
    url = app.auth_request_url(scopes=SCOPES, allow_http=True)
    code = authorize(url, f"{name}@mail.test", f"password of {name}")
    app.log_in(code=code, scopes=SCOPES, allow_http=True)
    return app


def client(server, name):
    """The same with a token from the command line, where the log-in is not the point."""
    return Mastodon(access_token=server.person(name), api_base_url=server.base,
                    version_check_mode="none")


def test_mastodon_py_does_what_apps_do(server, tmp_path):
    server.person("alice")
    alice = log_in(server, "alice")
    bob = client(server, "bob")
    assert alice.me()["username"] == "alice"

    picture = tmp_path / "picture.png"
    Image.new("RGB", (640, 480), (20, 120, 200)).save(picture)
    media = alice.media_post(str(picture), description="a blue picture")
    media = until(lambda: (lambda m: m if m["url"] else None)(alice.media(media)), "the picture")
    post = alice.status_post("hello #weir", media_ids=[media], idempotency_key="once")
    again = alice.status_post("hello #weir", media_ids=[media], idempotency_key="once")
    assert again["id"] == post["id"]
    assert post["media_attachments"][0]["description"] == "a blue picture"
    assert post["tags"][0]["name"] == "weir"

    poll = alice.make_poll(["yes", "no"], 3600)
    asked = alice.status_post("well?", poll=poll)
    voted = bob.poll_vote(asked["poll"], [0])
    assert voted["voted"] and voted["votes_count"] == 1

    bob.account_follow(post["account"])
    reply = bob.status_post("@alice hi", in_reply_to_id=post)
    bob.status_favourite(post)
    bob.status_reblog(post)
    bob.status_bookmark(post)
    context = alice.status_context(post)
    assert [one["id"] for one in context["descendants"]] == [reply["id"]]
    kinds = {one["type"] for one in alice.notifications()}
    assert {"mention", "favourite", "reblog", "follow"} <= kinds
    assert bob.bookmarks()[0]["id"] == post["id"]
    home = [(one["reblog"] or one)["id"] for one in bob.timeline_home()]
    assert post["id"] in home and asked["id"] in home

    found = until(lambda: alice.search_v2("alice")["accounts"], "a person by search")
    assert found[0]["username"] == "alice"
    assert alice.search_v2("#weir")["hashtags"][0]["name"] == "weir"
    until(lambda: alice.search_v2("hello", result_type="statuses")["statuses"], "own post")

    friends = bob.list_create("friends")
    bob.list_accounts_add(friends, [post["account"]])
    assert post["id"] in [one["id"] for one in bob.timeline_list(friends)]

    hidden = bob.create_filter_v2("no polls", ["home"], "warn", keywords_attributes=[
        {"keyword": "well", "whole_word": False}])
    filtered = [one for one in bob.timeline_home() if one["id"] == asked["id"]][0]
    assert filtered["filtered"][0]["filter"]["id"] == hidden["id"]

    edited = alice.status_update(post, "hello again #weir")
    assert edited["edited_at"] and len(alice.status_history(post)) == 2
    alice.status_delete(asked)
    assert asked["id"] not in [one["id"] for one in bob.timeline_home()]


def test_home_timeline_pages_by_link_header(server):
    erin = client(server, "erin")
    made = [erin.status_post(f"post {n}")["id"] for n in range(45)]
    page = erin.timeline_home(limit=20)
    seen = [one["id"] for one in erin.fetch_remaining(page)]
    assert seen == made[::-1]
    newer = erin.fetch_previous(erin.timeline_home(limit=20, max_id=made[20]))
    assert newer and min(one["id"] for one in newer) >= made[20]


class Heard(StreamListener):
    def __init__(self):
        self.updates, self.notifications, self.deleted = [], [], []

    def on_update(self, status):
        self.updates.append(status["id"])

    def on_notification(self, notification):
        self.notifications.append(notification["type"])

    def on_delete(self, status_id):
        self.deleted.append(int(status_id))


def test_a_stream_tells_of_posts_notifications_and_deletions(server):
    carol, dave = client(server, "carol"), client(server, "dave")
    dave.account_follow(carol.me())
    heard = Heard()
    stream = dave.stream_user(heard, run_async=True, reconnect_async=False)
    assert carol.stream_healthy()
    ready = carol.status_post("is anybody there?")
    until(lambda: heard.updates or carol.status_post("?") and heard.updates, "the stream")
    post = carol.status_post("@dave live")
    until(lambda: post["id"] in heard.updates, "a post on the stream")
    until(lambda: "mention" in heard.notifications, "a notification on the stream")
    carol.status_delete(ready)
    until(lambda: int(ready["id"]) in heard.deleted, "a deletion on the stream")
    # close() would wait for the next sign of life; the thread ends with the server.
    stream.closed = True


def toot(home, *words, answer=None):
    environment = {**os.environ, "XDG_CONFIG_HOME": str(home), "NO_COLOR": "1"}
    done = subprocess.run(["toot", *words], env=environment, input=answer, text=True,
                          capture_output=True, timeout=120, check=False)
    assert done.returncode == 0, f"toot {' '.join(words)}: {done.stdout}{done.stderr}"
    return done.stdout


def test_toot_logs_in_and_posts(server, tmp_path):
    server.person("frank")
    shown = []

    def answer(process):
        # toot prints the address, then waits for the code.
        for line in process.stdout:
            shown.append(line)
            address = next((word for word in line.split() if word.startswith(server.base)), None)
            if address and "authorize" in address:
                code = authorize(address, "frank@mail.test", "password of frank")
                process.stdin.write(code + "\n")
                process.stdin.flush()
                return

    environment = {**os.environ, "XDG_CONFIG_HOME": str(tmp_path), "NO_COLOR": "1",
                   "BROWSER": "true", "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(["toot", "login", "--instance", server.base], env=environment,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True)
    process.stdin.write("\n")
    process.stdin.flush()
    asking = threading.Thread(target=answer, args=(process,))
    asking.start()
    asking.join(60)
    rest, _ = process.communicate(timeout=60)
    assert process.returncode == 0, "".join(shown) + rest
    toot(tmp_path, "post", "hello from a terminal")
    assert "hello from a terminal" in toot(tmp_path, "timelines", "home", "--json")
    assert "frank" in toot(tmp_path, "whoami")
