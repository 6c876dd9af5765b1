//! The archive (XEP-0313), and what people want to have in it.

use weir_db::{Class, Dialect, params};

use super::dialogue::{play, play_at};
use super::place::{App, Place, places};

const SAID: &str = "
    alice is here
    bob is here
    alice sends
      <message to='bob@weir.test' type='chat'><body>one</body></message>
    bob receives
      <message><body>one</body></message>
    bob sends
      <message to='alice@weir.test' type='chat'><body>two</body></message>
    alice receives
      <message><body>two</body></message>";

#[tokio::test]
async fn both_sides_find_what_was_said_in_their_archives() {
    play(
        &format!(
            "{SAID}
         alice sends
           <iq type='set' id='m'><query xmlns='urn:xmpp:mam:2' queryid='q'/></iq>
         alice receives
           <message from='alice@weir.test' to='alice@weir.test/home'>
           <result xmlns='urn:xmpp:mam:2' queryid='q' id='*'>
           <forwarded xmlns='urn:xmpp:forward:0'>
           <delay xmlns='urn:xmpp:delay' stamp='*'/>
           <message xmlns='jabber:client' from='alice@weir.test/home' to='bob@weir.test'>
           <body>one</body></message></forwarded></result></message>
         alice receives
           <message><result xmlns='urn:xmpp:mam:2' queryid='q'>
           <forwarded xmlns='urn:xmpp:forward:0'>
           <message xmlns='jabber:client' from='bob@weir.test/home'>
           <body>two</body></message></forwarded></result></message>
         alice receives
           <iq type='result' id='m'><fin xmlns='urn:xmpp:mam:2' complete='true'>
           <set xmlns='http://jabber.org/protocol/rsm'>
           <first>*</first><last/><count>2</count></set></fin></iq>
         bob sends
           <iq type='set' id='m'><query xmlns='urn:xmpp:mam:2'>
           <set xmlns='http://jabber.org/protocol/rsm'><max>1</max><before/></set></query></iq>
         bob receives
           <message><result xmlns='urn:xmpp:mam:2'><forwarded xmlns='urn:xmpp:forward:0'>
           <message xmlns='jabber:client'><body>two</body></message></forwarded></result></message>
         bob receives
           <iq type='result' id='m'><fin xmlns='urn:xmpp:mam:2' complete='(none)'/></iq>"
        )
        .replace("<first>*</first>", "<first/>"),
    )
    .await;
}

#[tokio::test]
async fn who_wants_nothing_archived_finds_nothing() {
    play(
        "bob is here
         alice is here
         alice sends
           <iq type='set' id='p'><prefs xmlns='urn:xmpp:mam:2' default='never'>
           <always><jid>carol@weir.test</jid></always></prefs></iq>
         alice receives
           <iq type='result' id='p'><prefs xmlns='urn:xmpp:mam:2' default='never'>
           <always><jid>carol@weir.test</jid></always></prefs></iq>
         alice sends
           <message to='bob@weir.test' type='chat'><body>one</body></message>
         bob receives
           <message><body>one</body></message>
         alice sends
           <iq type='set' id='m'><query xmlns='urn:xmpp:mam:2'/></iq>
         alice receives
           <iq type='result' id='m'><fin xmlns='urn:xmpp:mam:2' complete='true'>
           <set xmlns='http://jabber.org/protocol/rsm'><count>0</count></set></fin></iq>
         alice sends
           <iq type='get' id='g'><metadata xmlns='urn:xmpp:mam:2'/></iq>
         alice receives
           <iq type='result' id='g'><metadata xmlns='urn:xmpp:mam:2'/></iq>
         bob sends
           <iq type='get' id='g'><metadata xmlns='urn:xmpp:mam:2'/></iq>
         bob receives
           <iq type='result' id='g'><metadata xmlns='urn:xmpp:mam:2'>
           <start id='*' timestamp='*'/><end id='*'/></metadata></iq>",
    )
    .await;
}

#[tokio::test]
async fn what_cannot_be_asked_is_refused_with_the_right_condition() {
    play(
        "alice is here
         alice sends
           <iq type='set' id='1'><query xmlns='urn:xmpp:mam:2'>
           <set xmlns='http://jabber.org/protocol/rsm'><after>77</after></set></query></iq>
         alice receives
           <iq type='error' id='1'><error><item-not-found
           xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>
         alice sends
           <iq type='set' id='2'><query xmlns='urn:xmpp:mam:2'>
           <x xmlns='jabber:x:data' type='submit'><field var='start'><value>soon</value></field>
           </x></query></iq>
         alice receives
           <iq type='error' id='2'><error><bad-request
           xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>
         bob has an account
         alice sends
           <iq type='set' id='3' to='bob@weir.test'><query xmlns='urn:xmpp:mam:2'/></iq>
         alice receives
           <iq type='error' id='3'><error><service-unavailable
           xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>",
    )
    .await;
}

/// The disk is full, or has room again: SQLite's file may not grow, PostgreSQL says so itself.
async fn fill(place: &Place, is_full: bool) {
    let done = place.community.write(Class::Interactive, move |tx, _| {
        if tx.dialect() == Dialect::Sqlite {
            let pages = tx.value::<i64>("PRAGMA page_count", &[])?.unwrap_or_default();
            let most = if is_full { pages } else { 1_000_000 };
            tx.value::<i64>(&format!("PRAGMA max_page_count = {most}"), &[])?;
        } else if is_full {
            let told = "BEGIN RAISE EXCEPTION 'full' USING ERRCODE = 'disk_full'; END";
            tx.execute(
                &format!(
                    "CREATE FUNCTION no_room() RETURNS trigger LANGUAGE plpgsql AS '{}'",
                    told.replace('\'', "''")
                ),
                params![],
            )?;
            tx.execute(
                "CREATE TRIGGER no_room BEFORE INSERT ON chat_messages EXECUTE FUNCTION no_room()",
                params![],
            )?;
        } else {
            tx.execute("DROP TRIGGER no_room ON chat_messages", params![])?;
        }
        Ok(())
    });
    done.await.unwrap();
}

#[tokio::test]
async fn where_the_disk_is_full_the_sender_is_told_and_nobody_sees_what_is_not_kept() {
    // More than fits into pages that are there already.
    let body = "a".repeat(100_000);
    for mut place in places().await {
        play_at(&mut place, "alice has an account\n bob has an account").await;
        fill(&place, true).await;
        let script = format!(
            "alice is here
             bob is here
             alice sends
               <message to='bob@weir.test' type='chat' id='1'><body>{body}</body></message>
             alice receives
               <message type='error' id='1' from='bob@weir.test'><error type='wait'>
               <resource-constraint xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></message>
             bob hears nothing"
        );
        play_at(&mut place, &script).await;
        fill(&place, false).await;
        let script = format!(
            "alice is here
             bob is here
             alice sends
               <message to='bob@weir.test' type='chat' id='2'><body>{body}</body></message>
             bob receives
               <message id='2'/>
             alice sends
               <iq type='set' id='m'><query xmlns='urn:xmpp:mam:2'/></iq>
             alice receives
               <message><result xmlns='urn:xmpp:mam:2'><forwarded xmlns='urn:xmpp:forward:0'>
               <message xmlns='jabber:client' id='2'/></forwarded></result></message>
             alice receives
               <iq type='result' id='m'><fin xmlns='urn:xmpp:mam:2' complete='true'/></iq>"
        );
        play_at(&mut place, &script).await;
    }
}

/// How many messages the archive shows.
async fn archived(app: &mut App) -> usize {
    app.send("<iq type='set' id='m'><query xmlns='urn:xmpp:mam:2'/></iq>").await;
    let heard = app.until_ping().await;
    heard.iter().filter(|one| one.has("result", "urn:xmpp:mam:2")).count()
}

#[tokio::test]
async fn a_page_ends_before_a_message_that_is_still_on_its_way() {
    for mut place in places().await {
        let mut alice = place.logged_in("alice", "home").await;
        let mut bob = place.logged_in("bob", "home").await;
        bob.send("<presence/>").await;
        bob.until_ping().await;
        let community = place.community.clone();
        let env = community.env();
        // As if another message got its id, and took longer to be stored.
        let other = env.chat_writing.begin(&env.ids);
        alice.send("<message to='bob@weir.test' type='chat'><body>hi</body></message>").await;
        bob.receive().await;
        assert_eq!(archived(&mut bob).await, 0);
        drop(other);
        assert_eq!(archived(&mut bob).await, 1);
    }
}

/// The ids on the page for which the form has these fields, beside `more`.
async fn page(app: &mut App, fields: &[(&str, &[&str])], more: &str) -> Vec<String> {
    let mut form = String::from("<field var='FORM_TYPE'><value>urn:xmpp:mam:2</value></field>");
    for (var, values) in fields {
        let values: String = values.iter().map(|value| format!("<value>{value}</value>")).collect();
        form += &format!("<field var='{var}'>{values}</field>");
    }
    app.send(&format!(
        "<iq type='set' id='m'><query xmlns='urn:xmpp:mam:2'>\
         <x xmlns='jabber:x:data' type='submit'>{form}</x>{more}</query></iq>"
    ))
    .await;
    let heard = app.until_ping().await;
    let answer = heard.last().expect("an answer");
    assert_eq!(answer.attr("type"), Some("result"), "{answer:?}");
    let results = heard.iter().filter_map(|one| one.child("result", "urn:xmpp:mam:2"));
    results.map(|result| result.attr("id").unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_part_of_the_archive_is_found_by_the_ids_of_messages() {
    for mut place in places().await {
        place.person("bob").await;
        let mut alice = place.logged_in("alice", "home").await;
        for number in 0..5 {
            alice
                .send(&format!(
                    "<message to='bob@weir.test' type='chat'><body>{number}</body></message>"
                ))
                .await;
        }
        let all = page(&mut alice, &[], "").await;
        assert_eq!(all.len(), 5, "{}", place.name);
        let mut newest_first = all.clone();
        newest_first.reverse();
        assert_eq!(page(&mut alice, &[], "<flip-page/>").await, newest_first);
        assert_eq!(page(&mut alice, &[("after-id", &[&all[1]])], "").await, all[2..]);
        assert_eq!(page(&mut alice, &[("before-id", &[&all[1]])], "").await, all[..1]);
        let between: &[(&str, &[&str])] = &[("after-id", &[&all[0]]), ("before-id", &[&all[4]])];
        assert_eq!(page(&mut alice, between, "").await, all[1..4]);
        let two: &[(&str, &[&str])] = &[("ids", &[&all[3], &all[0]])];
        assert_eq!(page(&mut alice, two, "").await, [all[0].clone(), all[3].clone()]);
        // A page of a part: the newest of what is before.
        let last = "<set xmlns='http://jabber.org/protocol/rsm'><max>2</max><before/></set>";
        assert_eq!(page(&mut alice, &[("before-id", &[&all[4]])], last).await, all[2..4]);
    }
}

#[tokio::test]
async fn an_app_asks_what_it_may_ask_the_archive_for() {
    play(
        "alice is here
         alice sends
           <iq type='get' id='f'><query xmlns='urn:xmpp:mam:2'/></iq>
         alice receives
           <iq type='result' id='f'><query xmlns='urn:xmpp:mam:2'>
           <x xmlns='jabber:x:data' type='form'>
           <field var='FORM_TYPE' type='hidden'><value>urn:xmpp:mam:2</value></field>
           <field var='with' type='jid-single'/><field var='start' type='text-single'/>
           <field var='end' type='text-single'/><field var='before-id'/><field var='after-id'/>
           <field var='ids' type='list-multi'/></x></query></iq>
         alice sends
           <iq type='set' id='i'><query xmlns='urn:xmpp:mam:2'><x xmlns='jabber:x:data'
           type='submit'><field var='ids'><value>12345</value></field></x></query></iq>
         alice receives
           <iq type='error' id='i'><error><item-not-found
           xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>",
    )
    .await;
}
