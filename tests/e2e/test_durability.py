"""What was answered with success is there after the end that nobody can prepare for."""

import concurrent.futures
import itertools
import os
import random
import subprocess
import threading
import time

import requests

from waiting import until

LONG = bool(os.environ.get("WEIR_TEST_LONG"))
KILLS = 50 if LONG else 3
DELIVERIES = 5_000 if LONG else 150
POSTS = 500 if LONG else 60
SENDERS = 6
# For as long a sender goes on trying to hand over one thing.
PATIENCE_S = 120
# For all to be worked and sent after the last start.
SETTLED_S = 600 if LONG else 90
# How often a sender that was turned away tries again.
AGAIN_S = 0.02


class Killer:
    """Kills a server at random moments, counted in what it has answered."""

    def __init__(self, server, answers, kills, seed):
        rng = random.Random(seed)
        self.server = server
        self.at = sorted(rng.sample(range(answers // 20, answers), kills))
        self.answered = itertools.count(1)
        self.lock = threading.Lock()
        self.kills = 0

    def answer(self):
        """Counts an answer, and kills when its turn has come; others may be half-way then."""
        if next(self.answered) not in self.at:
            return
        with self.lock:
            self.server.kill()
            self.kills += 1
            self.server.start()


def handed_over(send):
    """Repeats a request, as senders do, until it is answered with success; the answer."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        try:
            answer = send()
        except requests.RequestException:
            answer = None
        if answer is not None and answer.ok:
            return answer
        assert answer is None or answer.status_code >= 500 or answer.status_code == 429, answer.text
        time.sleep(AGAIN_S)
    raise AssertionError(f"not handed over within {PATIENCE_S} s")


def every_post(person, account_id):
    """Each post of an account, as it is known to `person`."""
    posts, url = [], f"/api/v1/accounts/{account_id}/statuses?limit=40"
    while url:
        page = person.ask("GET", url)
        assert page.ok, page.text
        posts += page.json()
        url = page.links.get("next", {}).get("url")
    return posts


def posting(server, token, number):
    return requests.post(f"{server.base}/api/v1/statuses", timeout=10,
                         json={"status": f"number {number}"},
                         headers={"Authorization": f"Bearer {token}",
                                  "Idempotency-Key": f"key {number}"})


def test_posts_answered_with_200_survive_kill_9(serve):
    server = serve()
    alice = server.somebody("alice")
    token = alice.session.headers["Authorization"].removeprefix("Bearer ")
    killer = Killer(server, POSTS, KILLS, seed=5)

    def post(number):
        answer = handed_over(lambda: posting(server, token, number))
        killer.answer()
        return number, answer.json()["id"]

    with concurrent.futures.ThreadPoolExecutor(SENDERS) as pool:
        answered = dict(pool.map(post, range(POSTS)))
    assert killer.kills == KILLS
    seen = {}
    for status in every_post(alice, alice.id):
        seen.setdefault(status["content"], []).append(status["id"])
    # A request that was cut off was repeated with its key: it made no second post.
    expected = {f"<p>number {number}</p>": [status] for number, status in answered.items()}
    assert seen == expected


def test_deliveries_in_and_out_survive_kill_9(serve, elsewhere):
    server = serve()
    alice = server.somebody("alice")
    token = alice.session.headers["Authorization"].removeprefix("Bearer ")
    actors = [elsewhere.actor("author") for _ in range(5)]
    accounts = [actor.accept_follow_of(alice) for actor in actors]
    actors[0].follow(alice)
    killer = Killer(server, DELIVERIES + POSTS, KILLS, seed=7)

    def deliver(number):
        actor = actors[number % len(actors)]
        note = actor.note(f"<p>number {number}</p>")
        create = actor.create(note)
        handed_over(lambda: actor.deliver(server, create))
        killer.answer()
        return note["id"]

    def post(number):
        answer = handed_over(lambda: posting(server, token, number))
        killer.answer()
        return answer.json()["uri"]

    with concurrent.futures.ThreadPoolExecutor(SENDERS) as pool:
        posted = pool.map(post, range(POSTS))
        accepted = list(pool.map(deliver, range(DELIVERIES)))
        posted = list(posted)
    assert killer.kills == KILLS

    def arrived():
        return [post["uri"] for account in accounts for post in every_post(alice, account["id"])]
    until(lambda: len(arrived()) >= DELIVERIES, "what was accepted", SETTLED_S)
    assert sorted(arrived()) == sorted(accepted)

    def sent():
        return {one.activity()["object"]["id"] for one in elsewhere.deliveries("Create")}
    until(lambda: sent() >= set(posted), "each delivery out", SETTLED_S)
    # A delivery may be repeated, and then it says the same under the same id.
    ids = {}
    for one in elsewhere.deliveries("Create"):
        activity = one.activity()
        ids.setdefault(activity["object"]["id"], set()).add(activity["id"])
    assert all(len(activities) == 1 for activities in ids.values())


def test_a_second_server_on_the_same_data_is_refused_and_a_stop_is_clean(server):
    second = subprocess.run(
        [os.environ["WEIR_BIN"], "serve", "--dev", "--data", str(server.data),
         "--domain", server.domain, "--listen", f"{server.host}:0"],
        env=server.environment(), capture_output=True, text=True, timeout=30, check=False)
    assert second.returncode == 1
    assert len(second.stderr.strip().splitlines()) >= 1
    server.process.terminate()
    assert server.process.wait(10) == 0
    server.start()
