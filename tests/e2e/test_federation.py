"""Servers that talk to each other: what people do on one is seen on the others, and only by those
who may."""

import html
import io
import re

import pytest
import requests
from PIL import Image

from elsewhere import FORM, actor_id
from waiting import until


@pytest.fixture(scope="module")
def servers(serve):
    return [serve(f"127.0.0.{number}") for number in (2, 3, 4)]


@pytest.fixture
def alice(servers):
    return servers[0].somebody("alice")


@pytest.fixture
def bob(servers):
    return servers[1].somebody("bob")


@pytest.fixture
def carol(servers):
    return servers[2].somebody("carol")


def text(status):
    """What a post says, without its marks; what follows links elsewhere is for each server."""
    return html.unescape(re.sub("<[^>]*>", "", status["content"]))


def followers(person):
    return {one["acct"] for one in person.get(f"/api/v1/accounts/{person.id}/followers")}


def test_people_and_posts_are_found_by_handle_and_by_address(alice, bob):
    post = alice.say("to be found")
    account = bob.find(alice)
    assert account["acct"] == alice.handle
    assert account["username"] == alice.name
    assert bob.look_for(alice.account["url"])["id"] == account["id"]
    assert bob.look_for(actor_id(alice))["id"] == account["id"]
    found = bob.see(post["url"])
    assert found["content"] == post["content"]
    assert found["account"]["id"] == account["id"]
    assert found["created_at"] == post["created_at"]
    assert bob.see(post["uri"])["id"] == found["id"]
    assert bob.look_for(f"@nobody@{alice.server.domain}") is None


def test_a_follow_brings_posts_until_it_ends(alice, bob):
    account = bob.follow(alice)
    alice.is_told("follow", bob)
    assert followers(alice) == {bob.handle}
    post = alice.say("hello <b>&</b> ünïcödé 🌊 #weir")
    seen = bob.receives(post)
    assert text(seen) == text(post) == "hello <b>&</b> ünïcödé 🌊 #weir"
    assert [one["name"] for one in seen["tags"]] == ["weir"]
    assert seen["url"] == post["url"]
    # And the other way.
    alice.follow(bob)
    alice.receives(bob.say("hello back"))
    bob.post(f"/api/v1/accounts/{account['id']}/unfollow")
    until(lambda: not followers(alice), "the end of a follow")
    assert not bob.relation(account)["following"]


def test_a_locked_account_accepts_and_rejects(alice, bob, carol):
    alice.patch("/api/v1/accounts/update_credentials", locked=True)
    for asking in (bob, carol):
        account = asking.find(alice)
        asking.post(f"/api/v1/accounts/{account['id']}/follow")
        assert asking.relation(account)["requested"]
        assert not asking.relation(account)["following"]
    alice.is_told("follow_request", bob)
    alice.is_told("follow_request", carol)
    waiting = {one["username"]: one["id"] for one in alice.get("/api/v1/follow_requests")}
    alice.post(f"/api/v1/follow_requests/{waiting[bob.name]}/authorize")
    alice.post(f"/api/v1/follow_requests/{waiting[carol.name]}/reject")
    at_bob, at_carol = bob.find(alice), carol.find(alice)
    until(lambda: bob.relation(at_bob)["following"], "the acceptance")
    until(lambda: not carol.relation(at_carol)["requested"], "the rejection")
    assert not carol.relation(at_carol)["following"]
    assert followers(alice) == {bob.handle}


def test_replies_and_mentions_go_both_ways(alice, bob, carol):
    bob.follow(alice)
    post = alice.say("who is there?")
    seen = bob.receives(post)
    answer = bob.say(f"@{alice.handle} me", in_reply_to_id=seen["id"])
    told = alice.is_told("mention", bob)["status"]
    assert told["in_reply_to_id"] == post["id"]
    assert told["uri"] == answer["uri"]
    back = alice.say(f"@{bob.handle} and who are you?", in_reply_to_id=told["id"])
    heard = bob.is_told("mention", alice)["status"]
    assert heard["uri"] == back["uri"] and heard["in_reply_to_id"] == answer["id"]
    below = bob.get(f"/api/v1/statuses/{seen['id']}/context")["descendants"]
    assert [one["uri"] for one in below] == [answer["uri"], back["uri"]]
    # Somebody who follows nobody.
    alice.say(f"@{carol.handle} come in")
    mention = carol.is_told("mention", alice)["status"]["mentions"][0]
    assert mention["username"] == carol.name and mention["id"] == carol.id


def test_a_thread_is_fetched_when_a_parent_is_unknown(alice, bob, carol):
    root = carol.say("the root that bob's server never got")
    bob.follow(alice)
    seen = alice.see(root["url"])
    reply = alice.say("a reply to it", in_reply_to_id=seen["id"])
    at_bob = bob.receives(reply) if reply["in_reply_to_account_id"] == alice.id else None
    at_bob = at_bob or bob.see(reply["url"])

    def above():
        return bob.get(f"/api/v1/statuses/{at_bob['id']}/context")["ancestors"]
    assert until(above, "the parent")[0]["uri"] == root["uri"]


def test_favourites_and_boosts_are_given_and_taken_back(alice, bob, carol):
    bob.follow(alice)
    carol.follow(bob)
    post = alice.say("praise me")
    seen = bob.receives(post)
    bob.do("favourite", seen)
    bob.do("reblog", seen)
    alice.is_told("favourite", bob)
    alice.is_told("reblog", bob)
    assert alice.shown(post)["favourites_count"] == 1
    assert alice.shown(post)["reblogs_count"] == 1

    def boosted():
        return [one for one in carol.home()
                if one["reblog"] and one["reblog"]["uri"] == post["uri"]]
    boost = until(boosted, "a boost of a post that was unknown")[0]
    assert boost["account"]["acct"] == bob.handle
    assert boost["reblog"]["account"]["acct"] == alice.handle
    bob.do("unfavourite", seen)
    bob.do("unreblog", seen)
    until(lambda: alice.shown(post)["favourites_count"] == 0, "a favourite taken back")
    until(lambda: alice.shown(post)["reblogs_count"] == 0, "a boost taken back")
    until(lambda: not boosted(), "the end of a boost")


def test_edits_and_deletions_follow_a_post(alice, bob):
    bob.follow(alice)
    post = alice.say("first words", spoiler_text="careful")
    seen = bob.receives(post)
    assert seen["spoiler_text"] == "careful"
    alice.put(f"/api/v1/statuses/{post['id']}", status="second words", spoiler_text="")
    edited = until(lambda: (lambda one: one["edited_at"] and one)(bob.shown(seen)), "the edit")
    assert "second words" in edited["content"] and edited["spoiler_text"] == ""
    history = bob.get(f"/api/v1/statuses/{seen['id']}/history")
    assert "first words" in history[0]["content"] and "second words" in history[-1]["content"]
    alice.delete(f"/api/v1/statuses/{post['id']}")
    until(lambda: bob.shown(seen) is None, "the deletion")
    assert post["uri"] not in [one["uri"] for one in bob.home()]
    gone = requests.get(post["uri"], headers={"Accept": FORM}, timeout=30)
    assert gone.status_code in (404, 410)


def test_a_poll_takes_votes_from_other_servers(alice, bob, carol):
    bob.follow(alice)
    carol.follow(alice)
    post = alice.say("which?", poll={"options": ["left", "right"], "expires_in": 3600})
    at_bob, at_carol = bob.receives(post), carol.receives(post)
    assert [one["title"] for one in at_bob["poll"]["options"]] == ["left", "right"]
    voted = bob.post(f"/api/v1/polls/{at_bob['poll']['id']}/votes", choices=[1])
    assert voted["voted"] and voted["own_votes"] == [1]

    def counts(person, status):
        poll = person.shown(status)["poll"]
        return [one["votes_count"] for one in poll["options"]]
    until(lambda: counts(alice, post) == [0, 1], "a vote at its poll")
    carol.post(f"/api/v1/polls/{at_carol['poll']['id']}/votes", choices=[0])
    until(lambda: counts(alice, post) == [1, 1], "a second vote at its poll")
    # The votes are no posts.
    assert not alice.notices("mention")


def test_pictures_travel(alice, bob):
    bob.follow(alice)
    picture = io.BytesIO()
    Image.new("RGB", (320, 200), (200, 40, 90)).save(picture, "PNG")
    media = alice.call("POST", "/api/v2/media", data={"description": "a red picture"},
                       files={"file": ("picture.png", picture.getvalue(), "image/png")})
    until(lambda: alice.ask("GET", f"/api/v1/media/{media['id']}").status_code == 200,
          "the picture's work")
    post = alice.say("look", media_ids=[media["id"]])
    seen = bob.receives(post)["media_attachments"][0]
    assert seen["type"] == "image" and seen["description"] == "a red picture"
    assert seen["blurhash"] and seen["meta"]["original"]["width"] == 320
    until(lambda: requests.get(seen["url"], timeout=30).ok, "the picture through bob's server")


def test_a_block_ends_what_was_between_two_people(alice, bob):
    account = bob.follow(alice)
    other = alice.follow(bob)
    seen = bob.receives(alice.say("before the block"))
    alice.post(f"/api/v1/accounts/{other['id']}/block")
    until(lambda: bob.relation(account)["blocked_by"], "the block")
    assert not bob.relation(account)["following"]
    assert not bob.relation(account)["followed_by"]
    assert followers(alice) == set() and followers(bob) == set()
    assert bob.shown(seen) is None
    assert seen["uri"] not in [one["uri"] for one in bob.home()]
    alice.post(f"/api/v1/accounts/{other['id']}/unblock")
    until(lambda: not bob.relation(account)["blocked_by"], "the end of a block")
    assert bob.shown(seen)


def test_followers_only_and_direct_posts_reach_nobody_else(alice, bob, carol, servers):
    dave = servers[1].somebody("dave")
    bob.follow(alice)
    private = alice.say("for followers", visibility="private")
    direct = alice.say(f"@{bob.handle} for you alone", visibility="direct")
    seen = bob.receives(private)
    assert seen["visibility"] == "private"
    heard = bob.is_told("mention", alice)["status"]
    assert heard["visibility"] == "direct" and heard["uri"] == direct["uri"]
    conversations = bob.get("/api/v1/conversations")
    assert conversations[0]["last_status"]["uri"] == direct["uri"]
    # A public post is the proof that what went before would have come.
    open_post = carol.see(alice.say("for all")["url"])
    assert open_post
    for post in (private, direct):
        for other in (carol, dave):
            assert other.look_for(post["url"], "statuses") is None
            assert other.look_for(post["uri"], "statuses") is None
        answer = requests.get(post["uri"], headers={"Accept": FORM}, timeout=30)
        assert answer.status_code in (401, 403, 404)
    for status in (seen, heard):
        assert dave.shown(status) is None
    known = {one["uri"] for one in carol.get("/api/v1/timelines/public", limit=40)}
    assert not known & {private["uri"], direct["uri"]}
    account = carol.find(alice)
    listed = {one["uri"] for one in carol.get(f"/api/v1/accounts/{account['id']}/statuses")}
    assert not listed & {private["uri"], direct["uri"]}


def test_a_reply_to_a_followers_only_post_comes_back(alice, bob):
    bob.follow(alice)
    seen = bob.receives(alice.say("between us", visibility="private"))
    answer = bob.say(f"@{alice.handle} yes", in_reply_to_id=seen["id"], visibility="direct")
    assert alice.is_told("mention", bob)["status"]["uri"] == answer["uri"]


def test_a_changed_profile_is_told(alice, bob):
    account = bob.follow(alice)
    alice.patch("/api/v1/accounts/update_credentials", display_name="Alice of Weir",
                note="new words", bot=True,
                fields_attributes=[{"name": "place", "value": "by the river"}])

    def known():
        return bob.get(f"/api/v1/accounts/{account['id']}")
    until(lambda: known()["display_name"] == "Alice of Weir", "the new name")
    assert "new words" in known()["note"] and known()["bot"]
    assert [(one["name"], one["value"]) for one in known()["fields"]] == [
        ("place", "by the river")]


def test_pins_are_told(alice, bob):
    account = bob.follow(alice)
    post = alice.say("keep this")
    bob.receives(post)
    path = f"/api/v1/accounts/{account['id']}/statuses"

    def pinned():
        return [one["uri"] for one in bob.get(path, pinned="true")]
    alice.do("pin", post)
    until(lambda: pinned() == [post["uri"]], "a pin")
    alice.do("unpin", post)
    until(lambda: pinned() == [], "the end of a pin")


def test_followers_move_with_an_account(elsewhere, bob):
    old, new = elsewhere.actor("old"), elsewhere.actor("new")
    new.more["alsoKnownAs"] = [old.id]
    old.accept_follow_of(bob)
    old.more["movedTo"] = new.id
    move = old.activity("Move", old.id, target=new.id)
    assert old.deliver(bob.server, move).status_code == 202
    asked = elsewhere.received("Follow", lambda one: one["object"] == new.id)
    accept = new.activity("Accept", asked.activity())
    assert new.deliver(bob.server, accept).status_code == 202
    followed = f"/api/v1/accounts/{bob.id}/following"
    until(lambda: [one["acct"] for one in bob.get(followed)] == [new.handle], "the move")


def test_a_move_that_the_new_account_does_not_confirm_has_no_effect(elsewhere, bob):
    old, new = elsewhere.actor("old"), elsewhere.actor("new")
    account = old.accept_follow_of(bob)
    old.more["movedTo"] = new.id
    assert old.deliver(bob.server, old.activity("Move", old.id, target=new.id)).status_code == 202
    note = old.note("<p>after the move</p>")
    assert old.deliver(bob.server, old.create(note)).status_code == 202
    bob.receives({"uri": note["id"]})
    assert bob.relation(account)["following"]
    assert not [one for one in elsewhere.deliveries("Follow")
                if one.activity()["object"] == new.id]


def test_a_report_is_forwarded(alice, bob, servers):
    staff = servers[0].somebody("staff", role="admin")
    account = bob.follow(alice)
    seen = bob.receives(alice.say("something bad"))
    bob.post("/api/v1/reports", account_id=account["id"], status_ids=[seen["id"]],
             comment="look at this", forward=True, category="spam")
    told = until(lambda: staff.notices("admin.report"), "the report")[0]
    assert told["report"]["target_account"]["username"] == alice.name
    assert told["report"]["comment"] == "look at this"
    # Who reported is not told.
    assert bob.name not in str(told["report"])


def test_a_deleted_account_is_gone_everywhere(alice, bob):
    account = bob.follow(alice)
    seen = bob.receives(alice.say("last words"))
    actor = actor_id(alice)
    alice.server.command("account", "delete", alice.name)
    until(lambda: bob.shown(seen) is None, "the deletion of an account")
    assert account["id"] not in [one["id"] for one in
                                 bob.get(f"/api/v1/accounts/{bob.id}/following")]
    answer = requests.get(actor, headers={"Accept": FORM}, timeout=30)
    assert answer.status_code in (404, 410)


def test_a_server_is_blocked_by_its_name_however_it_is_written(servers):
    shown = servers[0].command("federation", "block", "Müller.Example")
    assert shown["host"] == "xn--mller-kva.example"
    servers[0].command("federation", "unblock", "xn--mller-kva.example")


def test_a_blocked_server_is_not_spoken_with(alice, elsewhere, servers):
    mallory = elsewhere.actor("mallory")
    mallory.accept_follow_of(alice)
    servers[0].command("federation", "block", elsewhere.domain)
    note = mallory.note("<p>spam</p>")
    answer = mallory.deliver(alice.server, mallory.create(note))
    servers[0].command("federation", "unblock", elsewhere.domain)
    assert answer.status_code == 403
    assert note["id"] not in [one["uri"] for one in alice.home()]
