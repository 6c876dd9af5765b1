"""The flood after an outage, by `weir storm inbox`: what is accepted has its effect, once, whatever
order it came in, and whatever came between, even when the server is killed in the middle."""

import json
import os
import subprocess

import pytest

from conftest import WEIR

LONG = bool(os.environ.get("WEIR_TEST_LONG"))
ACTIVITIES = 20_000 if LONG else 2_000
ACTORS = 200 if LONG else 40
# Parts of all that are accepted when the server is killed.
KILLS = [0.15, 0.3, 0.45, 0.6, 0.75] if LONG else [0.4]
# What has no effect by then has none.
PATIENCE_S = 120 if LONG else 45


def storm(server, report, *words, kills=()):
    """Runs the load against a server, and kills and starts it when so much is accepted."""
    command = [WEIR, "storm", "inbox", "--target", server.base, "--json", str(report),
               "--patience", str(PATIENCE_S), *words]
    kills = [int(part * ACTIVITIES) for part in kills]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL,
                          text=True) as load:
        said = []
        for line in load.stderr:
            said.append(line)
            words = line.split()
            if kills and "accepted" in words:
                accepted = int(words[words.index("accepted") + 1])
                if accepted >= kills[0]:
                    del kills[0]
                    server.kill()
                    server.start()
    assert load.returncode == 0, "".join(said)
    assert not kills, "it was over before the server could be killed"
    measured = json.loads(report.read_text())
    measured["said"] = "".join(said)
    return measured


@pytest.fixture(scope="module")
def flood(serve, tmp_path_factory):
    """One flood for all tests of this file."""
    report = tmp_path_factory.mktemp("flood") / "flood.json"
    return storm(serve(), report, "--activities", str(ACTIVITIES), "--actors", str(ACTORS),
                 "--hosts", "8", "--people", "5", "--follows", "20", "--unknown", "5",
                 "--guests", "4", "--seconds", "1", kills=KILLS)


def test_everything_accepted_has_its_effect_once_and_nothing_else_has(flood):
    assert flood["results"]["missing"] == 0, flood["said"]


def test_what_is_no_use_is_refused_and_what_is_good_is_not(flood):
    refused = [answer for answer in flood["answers"]
               if answer.split()[0] in ("broken", "oversized")]
    assert refused and not any(answer.endswith(" 202") for answer in refused), flood["answers"]
    good = ("create", "update", "delete", "announce", "like", "follow", "undo")
    others = [answer for answer in flood["answers"]
              if answer.split()[0] in good and not answer.endswith(" 202")]
    assert not others, flood["answers"]


def test_what_is_posted_meanwhile_is_shown_meanwhile(flood):
    assert flood["results"]["fresh_count"] > 0, flood["said"]
    assert flood["results"]["fresh_never_seen"] == 0, flood["said"]
