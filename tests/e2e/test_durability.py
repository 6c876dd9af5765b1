"""What was answered with success is there after the end that nobody can prepare for."""

import concurrent.futures
import os
import random

import requests

ROUNDS = 8 if os.environ.get("WEIR_TEST_LONG") else 2
POSTS_A_ROUND = 60


def test_posts_answered_with_200_survive_kill_9(serve):
    server = serve()
    token = server.person("alice")
    session = requests.Session()
    session.headers["Authorization"] = f"Bearer {token}"
    answered = {}

    def post(number):
        try:
            answer = session.post(f"{server.base}/api/v1/statuses", timeout=10,
                                  json={"status": f"number {number}"},
                                  headers={"Idempotency-Key": f"key {number}"})
        except requests.RequestException:
            return
        if answer.status_code == 200:
            answered[number] = answer.json()["id"]

    rng = random.Random(5)
    for round_number in range(ROUNDS):
        first = round_number * POSTS_A_ROUND
        kill_after = first + rng.randrange(10, POSTS_A_ROUND)
        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            for number in range(first, first + POSTS_A_ROUND):
                done = pool.submit(post, number)
                if number == kill_after:
                    done.result()
                    server.kill()
        server.start()

    assert len(answered) >= 10 * ROUNDS
    seen = {}
    url = f"{server.base}/api/v1/timelines/home?limit=40"
    while url:
        page = session.get(url, timeout=10)
        for status in page.json():
            text = status["content"].removeprefix("<p>").removesuffix("</p>")
            seen.setdefault(text, []).append(status["id"])
        url = page.links.get("next", {}).get("url")
    for number, status_id in answered.items():
        assert seen.get(f"number {number}") == [status_id]
    # A request that was cut off may be repeated with its key: it never makes a second post.
    for number in range(ROUNDS * POSTS_A_ROUND):
        post(number)
    assert all(len(ids) == 1 for ids in seen.values())


def test_a_second_server_on_the_same_data_is_refused_and_a_stop_is_clean(server):
    import subprocess
    second = subprocess.run(
        [os.environ["WEIR_BIN"], "serve", "--dev", "--data", str(server.data),
         "--domain", server.domain, "--listen", f"{server.host}:0"],
        env=server.environment(), capture_output=True, text=True, timeout=30, check=False)
    assert second.returncode == 1
    assert len(second.stderr.strip().splitlines()) >= 1
    server.process.terminate()
    assert server.process.wait(10) == 0
    server.start()
