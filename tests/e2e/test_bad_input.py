"""What is wrong, hostile or strange: refused in the protocol's form, or taken as it is."""

import email.utils
import json
import time

import pytest
import requests

from elsewhere import FORM, actor_document
from waiting import until

TIMEOUT_S = 30
MIB = 1024 * 1024
STRANGE = [
    "Robert'); DROP TABLE statuses;--",
    "' OR 1=1 -- \" ; ` \\ %s %d ?1 $1 :a",
    "<script>alert(1)</script> <b>not bold</b> &amp; &lt;",
    "\u202eright to left\u202c zero\u200bwidth e\u0301\u0323 \ufeff",
    "日本語 العربية עברית हिन्दी 🏳️‍🌈👩‍👩‍👧‍👦 𝕬𝖇𝖈",
    "раураl looks like paypal",
    "{{ 7*7 }} ${jndi:ldap://127.0.0.1/a} ../../etc/passwd",
]


@pytest.fixture(scope="module")
def alice(server):
    return server.somebody("alice")


@pytest.fixture(scope="module")
def bob(elsewhere, alice):
    """Of another server, and known here with his key."""
    bob = elsewhere.actor("bob")
    bob.accept_follow_of(alice)
    return bob


def refused(answer, *statuses):
    """An error in Mastodon's form."""
    assert answer.status_code in statuses, f"{answer.status_code} {answer.text[:300]}"
    if answer.status_code != 413:
        assert answer.json()["error"]
    return answer.json() if "json" in answer.headers.get("Content-Type", "") else {}


def raw(alice, body, form="application/json", path="/api/v1/statuses"):
    return alice.ask("POST", path, data=body, headers={"Content-Type": form})


def is_well(server):
    return requests.get(f"{server.base}/health", timeout=TIMEOUT_S).status_code == 200


@pytest.mark.parametrize("body", [
    b"", b"{", b"[1, 2", b'{"status": "a"', b"\xff\xfe\x00", b'{"status": "\\ud800"}', b"null",
    b"[" * 100_000, b'{"poll":' * 20_000, b'{"status": ' + b"9" * 10_000 + b"}",
], ids=["empty", "open", "list", "cut", "bytes", "surrogate", "null", "deep list",
        "deep objects", "long number"])
def test_broken_json_is_a_4xx(server, alice, body):
    answer = raw(alice, body)
    assert 400 <= answer.status_code < 500, answer.text
    assert is_well(server)


def test_an_oversized_body_is_413(server, alice):
    body = json.dumps({"status": "x" * (64 * MIB)})
    try:
        answer = raw(alice, body)
        assert answer.status_code == 413
    except requests.ConnectionError:
        # The server may hang up on one who goes on sending.
        pass
    assert is_well(server)


def test_wrong_tokens_are_401(server, alice):
    path = f"{server.base}/api/v1/accounts/verify_credentials"
    for token in ["", "nonsense", "' OR 1=1 --", "x" * 5_000]:
        answer = requests.get(path, timeout=TIMEOUT_S,
                              headers={"Authorization": f"Bearer {token}"})
        refused(answer, 401)
    refused(requests.get(path, timeout=TIMEOUT_S), 401)
    refused(requests.post(f"{server.base}/api/v1/statuses", json={"status": "a"},
                          timeout=TIMEOUT_S), 401)


def test_a_missing_scope_is_403(server, alice):
    token = server.command("account", "token", alice.name, "--scopes", "read")["token"]
    answer = requests.post(f"{server.base}/api/v1/statuses", json={"status": "a"},
                           headers={"Authorization": f"Bearer {token}"}, timeout=TIMEOUT_S)
    refused(answer, 403)
    assert alice.get(f"/api/v1/accounts/{alice.id}/statuses") == [] or all(
        one["content"] != "<p>a</p>"
        for one in alice.get(f"/api/v1/accounts/{alice.id}/statuses"))


@pytest.mark.parametrize("path", [
    "statuses/{}", "accounts/{}", "statuses/{}/context", "accounts/{}/statuses", "media/{}",
    "polls/{}", "notifications/{}", "statuses/{}/history",
])
@pytest.mark.parametrize("bad", ["1", "999999999999999999", "99999999999999999999999", "-1",
                                 "abc", "%27%20OR%201%3D1", "%00", "1%2F2"])
def test_unknown_and_impossible_ids_are_404(alice, path, bad):
    refused(alice.ask("GET", f"/api/v1/{path.format(bad)}"), 404)


def test_what_is_not_there_is_404_in_the_same_form(alice):
    refused(alice.ask("GET", "/api/v1/nothing/of/this"), 404)
    refused(alice.ask("POST", "/api/v1/statuses/1/favourite"), 404)


def test_a_deleted_post_is_gone(server, alice):
    post = alice.say("soon gone")
    alice.delete(f"/api/v1/statuses/{post['id']}")
    refused(alice.ask("GET", f"/api/v1/statuses/{post['id']}"), 404)
    answer = requests.get(post["uri"], headers={"Accept": FORM}, timeout=TIMEOUT_S)
    assert answer.status_code in (404, 410)


def test_invalid_fields_are_422_and_say_what_is_wrong(alice):
    soon = email.utils.formatdate(time.time() + 60)
    soon = email.utils.parsedate_to_datetime(soon).isoformat()
    wrong = [
        {"status": ""}, {"status": " \n "}, {"status": "x" * 50_000},
        {"status": "a", "visibility": "nobody"}, {"status": "a", "media_ids": ["1"]},
        {"status": "a", "poll": {"options": ["only one"], "expires_in": 3600}},
        {"status": "a", "poll": {"options": ["a", "a"], "expires_in": 3600}},
        {"status": "a", "poll": {"options": ["a", "b"], "expires_in": 1}},
        {"status": "a", "scheduled_at": soon},
    ]
    for body in wrong:
        answer = alice.ask("POST", "/api/v1/statuses", json=body)
        assert answer.status_code == 422, f"{body}: {answer.status_code}"
        refused(answer, 422)


def test_an_account_that_cannot_be_made_is_422_with_details(server):
    app = requests.post(f"{server.base}/api/v1/apps", timeout=TIMEOUT_S, json={
        "client_name": "e2e", "redirect_uris": "urn:ietf:wg:oauth:2.0:oob",
        "scopes": "read write"}).json()
    token = requests.post(f"{server.base}/oauth/token", timeout=TIMEOUT_S, json={
        "client_id": app["client_id"], "client_secret": app["client_secret"],
        "grant_type": "client_credentials", "scope": "read write"}).json()["access_token"]
    answer = requests.post(
        f"{server.base}/api/v1/accounts", timeout=TIMEOUT_S,
        headers={"Authorization": f"Bearer {token}"},
        json={"username": "no spaces here", "email": "nowhere", "password": "x",
              "agreement": False, "locale": "en"})
    details = refused(answer, 422)["details"]
    assert {"username", "email"} <= set(details)
    assert all(one["error"].startswith("ERR_") and one["description"]
               for errors in details.values() for one in errors)


@pytest.mark.parametrize("text", STRANGE)
def test_strange_text_is_taken_as_it_is(alice, text):
    post = alice.say(text)
    assert alice.get(f"/api/v1/statuses/{post['id']}/source")["text"] == text
    assert "<script" not in post["content"] and "<b>" not in post["content"]
    page = requests.get(post["url"], headers={"Accept": "text/html"}, timeout=TIMEOUT_S)
    assert page.status_code == 200 and "<script>alert" not in page.text


def test_a_strange_profile_is_never_shown_unsafely(server, alice):
    name = "<img src=x onerror=alert(1)>\u202e"
    account = alice.patch("/api/v1/accounts/update_credentials", display_name=name,
                          note="<script>alert(1)</script> javascript:alert(1)")
    assert "<script" not in account["note"]
    page = requests.get(f"{server.base}/@{alice.name}", timeout=TIMEOUT_S).text
    assert "<img src=x" not in page and "<script>alert" not in page


HOSTILE = """<p>before</p><script>alert(1)</script><style>*{display:none}</style>
<img src=x onerror=alert(1)><a href="javascript:alert(1)" onclick="alert(1)">link</a>
<iframe src="http://127.0.0.1/"></iframe><p style="position:fixed" onload=alert(1)>after</p>
<svg><script>alert(1)</script></svg>
<math><mi xlink:href="data:x,<script>alert(1)</script>"></mi></math>
<a href="https://example.test/">good</a><p>unclosed"""


def test_hostile_html_of_another_server_is_cleaned(server, alice, bob):
    note = bob.note(HOSTILE, summary="<script>alert(2)</script>careful", name="<b>")
    assert bob.deliver(server, bob.create(note)).status_code == 202
    post = alice.receives({"uri": note["id"]})
    for bad in ("<script", "<style", "<img", "<iframe", "<svg", "<math", "onerror", "onclick",
                "onload", "javascript:", "style="):
        assert bad not in post["content"].lower(), post["content"]
    for good in ("before", "after", "unclosed", 'href="https://example.test/"'):
        assert good in post["content"], post["content"]
    assert "<script" not in post["spoiler_text"]


def test_unknown_types_and_fields_are_borne(server, alice, bob):
    activities = [
        bob.activity("Teleport", bob.id), bob.activity("Create", {"type": "Unicorn"}),
        bob.activity("Like", "http://127.0.0.9:1/nowhere"), bob.activity("Undo", {"type": "?"}),
        bob.activity("Announce", {"id": 7}), bob.activity("Update", [[[[]]]]),
        bob.activity("Delete", None),
    ]
    for activity in activities:
        answer = bob.deliver(server, activity)
        assert answer.status_code < 500, f"{activity['type']}: {answer.status_code}"
    note = bob.note("<p>with more</p>", unknown={"deep": [1, {"a": None}]}, replies=7,
                    sensitive="?", tag=[7, None, {"type": "Hashtag"}], attachment={"type": 1})
    assert bob.deliver(server, bob.create(note)).status_code == 202
    assert alice.receives({"uri": note["id"]})["content"] == "<p>with more</p>"


@pytest.mark.parametrize("body", [b"", b"{", b"null", b"[]", b"\xff", b"[" * 100_000,
                                  b'{"object":' * 50_000, b'"text"', b'{"type": "Create"}'])
def test_a_broken_delivery_is_a_4xx(server, bob, body):
    answer = bob.deliver(server, body)
    assert 400 <= answer.status_code < 500, answer.status_code
    assert is_well(server)


def test_an_oversized_delivery_is_413(server, bob):
    note = bob.note("x")
    del bob.server.documents[note["id"].removeprefix(bob.server.base)]
    try:
        answer = bob.deliver(server, bob.create({**note, "content": "x" * (3 * MIB)}))
        assert answer.status_code == 413
    except requests.ConnectionError:
        pass
    assert is_well(server)


def test_unsigned_stale_and_altered_deliveries_are_401_without_effect(server, alice, bob):
    inbox = f"{server.base}/inbox"
    note = bob.note("<p>never</p>")
    body = json.dumps(bob.create(note)).encode()

    def sent(headers, what=body):
        return requests.post(inbox, data=what, headers=headers, timeout=TIMEOUT_S).status_code
    signed = bob.signed(inbox, body)
    assert sent({"Content-Type": FORM}) == 401
    assert sent({**signed, "Signature": "nonsense"}) in (400, 401)
    assert sent(signed, body.replace(b"never", b"ever!")) in (400, 401)
    assert sent({**signed, "digest": "SHA-256=" + "A" * 43 + "="}) in (400, 401)
    for far_s in (-14 * 86_400, 14 * 86_400):
        date = email.utils.formatdate(time.time() + far_s, usegmt=True)
        assert sent(bob.signed(inbox, body, headers={"Date": date})) in (400, 401)
    right = bob.note("<p>right</p>")
    assert bob.deliver(server, bob.create(right)).status_code == 202
    alice.receives({"uri": right["id"]})
    assert note["id"] not in [one["uri"] for one in alice.home()]


def test_nobody_speaks_for_another_host_or_person(server, alice, bob, elsewhere):
    mallory = elsewhere.actor("mallory")
    stolen = bob.note("<p>stolen words</p>")
    foreign = {**bob.note("x"), "id": "http://127.0.0.8:1/notes/1"}
    own = alice.say("alice's own")
    document = actor_document(alice)
    for activity in [
        mallory.create(stolen), bob.create(foreign),
        bob.activity("Delete", own["uri"]), bob.activity("Update", {**document, "name": "Owned"}),
        bob.activity("Undo", {"type": "Follow", "actor": document["id"], "object": bob.id}),
        bob.activity("Delete", document["id"]),
    ]:
        assert bob.deliver(server, activity).status_code < 500
    fence = bob.note("<p>fence</p>")
    assert bob.deliver(server, bob.create(fence)).status_code == 202
    alice.receives({"uri": fence["id"]})
    assert alice.shown(own)
    assert alice.get("/api/v1/accounts/verify_credentials")["display_name"] != "Owned"
    assert foreign["id"] not in [one["uri"] for one in alice.home()]
    assert alice.relation(alice.find(bob.handle))["following"]


def test_a_duplicate_delivery_is_a_2xx_without_effect(server, alice, bob):
    note = bob.note(f'<p>@{alice.name} once</p>', cc=[actor_document(alice)["id"]],
                    tag=[{"type": "Mention", "href": actor_document(alice)["id"],
                          "name": f"@{alice.handle}"}])
    create = bob.create(note)
    for _ in range(3):
        assert bob.deliver(server, create).status_code in (200, 202)
    post = alice.receives({"uri": note["id"]})
    like = bob.activity("Like", alice.say("like me")["uri"])
    for _ in range(3):
        assert bob.deliver(server, like).status_code in (200, 202)
    until(lambda: alice.notices("favourite"), "the favourite")
    fence = bob.note("<p>fence</p>")
    assert bob.deliver(server, bob.create(fence)).status_code == 202
    alice.receives({"uri": fence["id"]})
    assert [one["id"] for one in alice.home()].count(post["id"]) == 1
    assert len(alice.notices("favourite")) == 1
    mentions = [one for one in alice.notices("mention") if one["status"]["id"] == post["id"]]
    assert len(mentions) == 1


def test_loops_of_replies_and_boosts_end(server, alice, bob):
    first, second = bob.note("<p>first</p>"), bob.note("<p>second</p>")
    first["inReplyTo"], second["inReplyTo"] = second["id"], first["id"]
    assert bob.deliver(server, bob.create(first)).status_code == 202
    announce = bob.activity("Announce", first["id"])
    loop = bob.activity("Announce", announce["id"])
    bob.server.documents[announce["id"].removeprefix(bob.server.base)] = announce
    bob.server.documents[loop["id"].removeprefix(bob.server.base)] = loop
    assert bob.deliver(server, loop).status_code < 500
    fence = bob.note("<p>after the loops</p>")
    assert bob.deliver(server, bob.create(fence)).status_code == 202
    alice.receives({"uri": fence["id"]})
    assert is_well(server)
