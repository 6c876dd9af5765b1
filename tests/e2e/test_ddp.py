"""DDP clients that nobody here wrote, unmodified, against the real program."""

import json
import os
import shutil
import subprocess
import threading
from pathlib import Path

import requests
from MeteorClient import MeteorClient

from waiting import until

CLIENTS = ["simpleddp", "ddp", "ddp.js", "asteroid",
           "sockjs websocket", "sockjs xhr-streaming", "sockjs xhr-polling"]
FOLDER = Path(__file__).parent / "ddp"
PATIENCE_S = 120


def post(server, token, text):
    answer = requests.post(f"{server.base}/api/v1/statuses", json={"status": text},
                           headers={"Authorization": f"Bearer {token}"}, timeout=30)
    answer.raise_for_status()
    return answer.json()["id"]


def who(server, token):
    answer = requests.get(f"{server.base}/api/v1/accounts/verify_credentials",
                          headers={"Authorization": f"Bearer {token}"}, timeout=30)
    return answer.json()["id"]


def shown(server):
    """Posts of the public timeline."""
    return len(requests.get(f"{server.base}/api/v1/timelines/public?limit=40", timeout=30).json())


def run(words, **more):
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_S, **more)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_clients_log_in_subscribe_call_and_are_told(server):
    token = server.person("arno")
    arno = who(server, token)
    post(server, token, "there before")
    known = shown(server)
    node = os.environ["WEIR_TEST_NODE_MODULES"]
    for number, client in enumerate(CLIENTS):
        found = run(["node", str(FOLDER / "clients.js"), client, server.base, token],
                    env={**os.environ, "NODE_PATH": node})
        assert found["login"] == arno, client
        assert found["before"] == known + number, client
        assert found["content"] == f"<p>by {client}</p>", client
        if client.startswith("sockjs"):
            assert found["transport"] == client.split(" ")[1]


def test_python_meteor_logs_in_by_the_digest_of_a_password(server):
    token = server.person("berta")
    post(server, token, "hello")
    client = MeteorClient(server.base.replace("http", "ws") + "/websocket", auto_reconnect=False)
    connected, ready, problems = threading.Event(), threading.Event(), []
    logged_in = threading.Event()
    client.on("connected", connected.set)
    client.connect()
    assert connected.wait(30)

    def login(error, _):
        problems.extend([error] if error else [])
        logged_in.set()

    # It hashes what it is given, which has to be bytes.
    client.login("berta", b"password of berta", callback=login)
    assert logged_in.wait(30) and not problems

    def subscribed(error):
        problems.extend([error] if error else [])
        ready.set()

    client.subscribe("timelines.home", [{}], subscribed)
    assert ready.wait(30) and not problems
    until(lambda: client.find("statuses"), "the post")
    id = post(server, token, "again")
    until(lambda: client.find_one("statuses", {"_id": id}), "the new post")
    assert client.find_one("users")["username"] == "berta"
    client.close()


def test_gopackage_ddp(server, tmp_path):
    token = server.person("carl")
    post(server, token, "there before")
    known = shown(server)
    folder = tmp_path / "client"
    shutil.copytree(FOLDER, folder, ignore=shutil.ignore_patterns("node_modules"))
    subprocess.run(["go", "mod", "tidy"], cwd=folder, check=True, capture_output=True)
    found = run(["go", "run", ".", server.base, token], cwd=folder)
    assert found["login"] == who(server, token)
    assert (found["before"], found["content"]) == (known, "<p>by gopackage/ddp</p>")
