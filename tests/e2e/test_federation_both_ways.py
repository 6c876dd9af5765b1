"""Each activity between two servers, in both directions, and what needs a third."""

import re

import pytest
import requests

from elsewhere import actor_id
from waiting import until


@pytest.fixture(scope="module")
def servers(serve):
    return [serve(f"127.0.0.{number}") for number in (5, 6, 7)]


@pytest.fixture(scope="module", params=["there", "back"])
def way(request, servers):
    """Who acts is on the first server, or on the second."""
    return servers[:2] if request.param == "there" else servers[1::-1]


@pytest.fixture(scope="module")
def alice(way):
    return way[0].somebody("alice")


@pytest.fixture(scope="module")
def bob(way, alice):
    """Follows alice, who acts."""
    bob = way[1].somebody("bob")
    bob.follow(alice)
    return bob


@pytest.fixture
def post(alice, bob):
    """A post of alice, and what bob sees of it."""
    post = alice.say("a post")
    return post, bob.receives(post)


@pytest.fixture
def answered(alice, bob):
    """A post of bob, and what alice sees of it."""
    post = bob.say("a post to be answered")
    return post, alice.see(post["url"])


def relation(person, other):
    return person.relation(person.find(other))


def test_create_update_and_delete(alice, bob, post):
    post, seen = post
    alice.put(f"/api/v1/statuses/{post['id']}", status="an edited post")
    until(lambda: "an edited post" in bob.shown(seen)["content"], "the Update")
    alice.delete(f"/api/v1/statuses/{post['id']}")
    until(lambda: bob.shown(seen) is None, "the Delete")


def test_follow_accept_and_undo(way):
    carol, dave = way[0].somebody("carol"), way[1].somebody("dave")
    account = carol.follow(dave)
    dave.is_told("follow", carol)
    carol.post(f"/api/v1/accounts/{account['id']}/unfollow")
    until(lambda: not relation(dave, carol)["followed_by"], "the Undo of a Follow")


def test_follow_and_reject(way):
    carol, dave = way[0].somebody("carol"), way[1].somebody("dave")
    dave.patch("/api/v1/accounts/update_credentials", locked=True)
    account = carol.find(dave)
    carol.post(f"/api/v1/accounts/{account['id']}/follow")
    dave.is_told("follow_request", carol)
    asking = dave.get("/api/v1/follow_requests")[0]["id"]
    dave.post(f"/api/v1/follow_requests/{asking}/reject")
    until(lambda: not carol.relation(account)["requested"], "the Reject")
    assert not carol.relation(account)["following"]


def test_like_and_undo(alice, bob, answered):
    post, seen = answered
    alice.do("favourite", seen)
    until(lambda: bob.shown(post)["favourites_count"] == 1, "the Like")
    alice.do("unfavourite", seen)
    until(lambda: bob.shown(post)["favourites_count"] == 0, "the Undo of a Like")


def test_announce_and_undo(alice, bob, answered):
    post, seen = answered
    alice.do("reblog", seen)
    until(lambda: bob.shown(post)["reblogs_count"] == 1, "the Announce")
    alice.do("unreblog", seen)
    until(lambda: bob.shown(post)["reblogs_count"] == 0, "the Undo of an Announce")


def test_block_and_undo(way):
    carol, dave = way[0].somebody("carol"), way[1].somebody("dave")
    account, other = carol.find(dave), dave.find(carol)
    carol.post(f"/api/v1/accounts/{account['id']}/block")
    until(lambda: dave.relation(other)["blocked_by"], "the Block")
    carol.post(f"/api/v1/accounts/{account['id']}/unblock")
    until(lambda: not dave.relation(other)["blocked_by"], "the Undo of a Block")


def test_flag(way, alice, bob, answered):
    staff = way[1].somebody("staff", role="admin")
    _, seen = answered
    alice.post("/api/v1/reports", account_id=seen["account"]["id"], status_ids=[seen["id"]],
               comment="a report", forward=True)
    told = until(lambda: staff.notices("admin.report"), "the Flag")[0]["report"]
    assert told["comment"] == "a report"
    assert told["target_account"]["username"] == bob.name
    assert alice.name not in str(told)


def test_add_and_remove(alice, bob, post):
    post, seen = post
    path = f"/api/v1/accounts/{seen['account']['id']}/statuses"

    def pinned():
        return post["uri"] in [one["uri"] for one in bob.get(path, pinned="true")]
    alice.do("pin", post)
    until(pinned, "the Add")
    alice.do("unpin", post)
    until(lambda: not pinned(), "the Remove")


def test_vote_and_what_it_changes(way, alice, bob):
    carol = way[1].somebody("carol")
    question = bob.say("which?", poll={"options": ["left", "right"], "expires_in": 3600})
    seen = alice.see(question["url"])
    alice.post(f"/api/v1/polls/{seen['poll']['id']}/votes", choices=[1])

    def counts(person, status):
        return [one["votes_count"] for one in person.shown(status)["poll"]["options"]]
    until(lambda: counts(bob, question) == [0, 1], "the vote")
    at_carol = carol.see(question["uri"])
    carol.post(f"/api/v1/polls/{at_carol['poll']['id']}/votes", choices=[0])
    until(lambda: counts(alice, seen) == [1, 1], "the poll's numbers where somebody voted")


class Settings:
    """The page on which a person moves, as a browser uses it."""

    def __init__(self, person):
        self.base = person.server.base
        self.session = requests.Session()
        self.send("/auth/sign_in", login=person.name, password=f"password of {person.name}")

    def send(self, path, **fields):
        page = self.session.get(self.base + path, timeout=30).text
        token = re.search(r'name="form_token" value="([^"]*)"', page).group(1)
        answer = self.session.post(self.base + path, data={"form_token": token, **fields},
                                   headers={"Origin": self.base}, timeout=30)
        assert answer.status_code == 200, answer.text
        return answer.text


def test_move(way, servers):
    old, new = way[0].somebody("old"), way[1].somebody("new")
    followers = [server.somebody("fan") for server in servers]
    for fan in followers:
        fan.follow(old)
    Settings(new).send("/settings/migration", action="add", alias=old.handle)
    page = Settings(old).send("/settings/migration", action="move", target=new.handle,
                              password=f"password of {old.name}")
    assert "This account has moved" in page
    for fan in followers:
        until(lambda: relation(fan, new)["following"], f"the Move at {fan.server.domain}")
        until(lambda: not relation(fan, old)["following"], f"the end at {fan.server.domain}")
    known = until(lambda: followers[2].find(old).get("moved"), "where the account went")
    assert known["acct"] == new.handle


def test_what_answers_a_post_reaches_a_third_server_as_long_as_it_is_there(servers):
    alice, bob, carol = (server.somebody(name) for server, name in
                         zip(servers, ("alice", "bob", "carol")))
    carol.follow(alice)
    post = alice.say("what do you say?")
    seen = carol.receives(post)
    at_bob = bob.see(post["url"])
    answer = bob.say(f"@{alice.handle} this", in_reply_to_id=at_bob["id"])
    alice.is_told("mention", bob)

    def below():
        return carol.get(f"/api/v1/statuses/{seen['id']}/context")["descendants"]
    found = until(below, "an answer that was passed on")[0]
    assert found["uri"] == answer["uri"] and found["account"]["acct"] == bob.handle
    bob.put(f"/api/v1/statuses/{answer['id']}", status=f"@{alice.handle} rather that")
    until(lambda: "rather that" in carol.shown(found)["content"], "an edit that was passed on")
    bob.delete(f"/api/v1/statuses/{answer['id']}")
    until(lambda: carol.shown(found) is None, "a deletion that was passed on")


def test_a_thread_comes_with_the_answers_of_other_servers(servers):
    alice, bob, carol = (server.somebody(name) for server, name in
                         zip(servers, ("alice", "bob", "carol")))
    post = alice.say("an old thread")
    answer = bob.say(f"@{alice.handle} an old answer",
                     in_reply_to_id=bob.see(post["url"])["id"])
    alice.is_told("mention", bob)
    seen = carol.see(post["url"])

    def below():
        context = carol.get(f"/api/v1/statuses/{seen['id']}/context")
        return [one["uri"] for one in context["descendants"]]
    until(lambda: below() == [answer["uri"]], "the answers to a thread that was looked for")


def test_a_deletion_reaches_whom_a_boost_brought_the_post(servers):
    alice, bob, carol = (server.somebody(name) for server, name in
                         zip(servers, ("alice", "bob", "carol")))
    carol.follow(bob)
    post = alice.say("boost me")
    bob.do("reblog", bob.see(post["url"]))

    def boosted():
        return [one["reblog"] for one in carol.home() if one["reblog"]]
    seen = until(boosted, "the boost")[0]
    assert seen["uri"] == post["uri"] and actor_id(alice)
    alice.is_told("reblog", bob)
    alice.delete(f"/api/v1/statuses/{post['id']}")
    until(lambda: carol.shown(seen) is None, "the deletion")
