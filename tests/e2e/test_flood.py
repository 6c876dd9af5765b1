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


def storm(server, report, *words, strikes=None, relief=None):
    """Runs the load against a server. `strikes` are done when these parts of all are accepted;
    `relief` when the load has told three times after the last of them where it stands."""
    command = [WEIR, "storm", "inbox", "--target", server.base, "--json", str(report),
               "--patience", str(PATIENCE_S), *words]
    strikes = sorted((strikes or {}).items())
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL,
                          text=True) as load:
        said, told = [], 0
        for line in load.stderr:
            said.append(line)
            words = line.split()
            if "accepted" not in words:
                continue
            accepted = int(words[words.index("accepted") + 1])
            if strikes and accepted >= strikes[0][0] * ACTIVITIES:
                strikes.pop(0)[1]()
            elif not strikes and relief:
                told += 1
                if told == 3:
                    relief()
    assert load.returncode == 0, "".join(said)
    assert not strikes, "it was over before anything could go wrong"
    measured = json.loads(report.read_text())
    measured["said"] = "".join(said)
    return measured


@pytest.fixture(scope="module")
def flood(serve, tmp_path_factory):
    """One flood for all tests of this file."""
    report = tmp_path_factory.mktemp("flood") / "flood.json"
    server = serve()

    def killed():
        server.kill()
        server.start()

    return storm(server, report, "--activities", str(ACTIVITIES), "--actors", str(ACTORS),
                 "--hosts", "8", "--people", "5", "--follows", "20", "--unknown", "5",
                 "--guests", "4", "--seconds", "1",
                 strikes=dict.fromkeys(KILLS, killed))


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
