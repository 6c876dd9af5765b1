"""Signatures, against `apsig`, which nobody here wrote (draft-cavage-http-signatures-12)."""

import requests

from elsewhere import FORM, actor_document, new_key
from waiting import until


def follower(person, actor):
    """Whether an actor of the other server follows somebody here."""
    followers = person.get(f"/api/v1/accounts/{person.id}/followers")
    return any(one["acct"] == actor.handle for one in followers)


def test_what_weir_delivers_verifies_with_apsig(server, elsewhere):
    alice = server.somebody("alice")
    bob = elsewhere.actor("bob")
    bob.follow(alice)
    post = alice.say("signed by alice")
    document = actor_document(alice)
    key = document["publicKey"]
    for kind in ["Accept", "Create"]:
        request = elsewhere.received(kind, lambda one: one["actor"] == document["id"])
        assert request.signer(key["publicKeyPem"]) == key["id"]
        assert request.headers["content-type"].startswith((FORM, "application/ld+json"))
    create = elsewhere.received("Create", lambda one: one["actor"] == document["id"]).activity()
    assert create["object"]["id"] == post["uri"]


def test_what_weir_fetches_is_signed_by_its_own_account(server, elsewhere):
    alice = server.somebody("alice")
    bob = elsewhere.actor("bob")
    alice.find(bob.handle)
    asked = until(lambda: [one for one in elsewhere.requests
                           if one.method == "GET" and one.path == f"/users/{bob.name}"],
                  "the fetch of an actor")[0]
    own = requests.get(f"{server.base}/actor", headers={"Accept": FORM}, timeout=30).json()
    assert asked.signer(own["publicKey"]["publicKeyPem"]) == own["publicKey"]["id"]


def test_what_apsig_signs_is_accepted_and_takes_effect(server, elsewhere):
    alice = server.somebody("alice")
    bob = elsewhere.actor("bob")
    bob.accept_follow_of(alice)
    note = bob.note("<p>signed by apsig</p>")
    assert bob.deliver(server, bob.create(note)).status_code == 202
    assert alice.receives({"uri": note["id"]})["content"] == "<p>signed by apsig</p>"


def test_a_wrong_signature_of_a_known_key_has_no_effect_and_soon_is_401(server, elsewhere):
    alice = server.somebody("alice")
    bob = elsewhere.actor("bob")
    account = bob.accept_follow_of(alice)
    forged, right = bob.note("<p>forged</p>"), bob.note("<p>right</p>")
    # It could be of a new key; that is looked at once.
    assert bob.deliver(server, bob.create(forged), key=new_key()).status_code == 202
    until(lambda: bob.deliver(server, bob.create(forged), key=new_key()).status_code == 401,
          "the key to be looked at")
    assert bob.deliver(server, bob.create(right)).status_code == 202
    alice.receives({"uri": right["id"]})
    posts = alice.get(f"/api/v1/accounts/{account['id']}/statuses")
    assert [one["content"] for one in posts] == ["<p>right</p>"]


def test_a_forged_signature_of_an_unknown_key_has_no_effect(server, elsewhere):
    alice = server.somebody("alice")
    mallory, bob = elsewhere.actor("mallory"), elsewhere.actor("bob")
    document = actor_document(alice)
    follow = mallory.activity("Follow", document["id"])
    assert mallory.deliver(server, follow, key=new_key()).status_code == 202
    # Its key was looked at, and says no.
    until(lambda: any(one.path == f"/users/{mallory.name}" for one in elsewhere.requests),
          "the fetch of a key")
    bob.follow(alice)
    assert follower(alice, bob) and not follower(alice, mallory)


def test_a_new_key_is_learnt_after_the_old_one_fails(server, elsewhere):
    alice = server.somebody("alice")
    bob = elsewhere.actor("bob")
    bob.accept_follow_of(alice)
    bob.key = new_key()
    note = bob.note("<p>with a new key</p>")
    create = bob.create(note)
    until(lambda: bob.deliver(server, create).status_code == 202, "the new key")
    assert alice.receives({"uri": note["id"]})["content"] == "<p>with a new key</p>"


def test_another_ones_key_does_not_speak_for_an_actor(server, elsewhere):
    alice = server.somebody("alice")
    bob, mallory = elsewhere.actor("bob"), elsewhere.actor("mallory")
    mallory.follow(alice)
    claimed = {**mallory.activity("Follow", actor_document(alice)["id"]), "actor": bob.id}
    assert mallory.deliver(server, claimed).status_code in (401, 403)
    assert not follower(alice, bob)
