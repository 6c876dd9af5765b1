//! Dialogues as people read them, played against the server.
//!
//! ```text
//! alice is here
//! bob/phone connects
//! alice sends
//!   <message to='bob@weir.test'><body>hi</body></message>
//! bob/phone receives
//!   <message from='alice@weir.test/home'><body>hi</body></message>
//! alice hears nothing
//! bob/phone leaves
//! ```
//!
//! `is here` connects and sends presence, and reads away what comes of that; without a resource
//! it is `home`. What is received has to have what is written, and may have more; `*` stands for
//! any value, and `(none)` for the absence of an attribute. Who `answers` answers the query
//! that came last among what was received in any order. Who `enters the room as` somebody sends
//! the presence to `tea` that does it, and no more. What people do outside of chat stands in
//! [`by_posts`].

use std::collections::BTreeMap;

use weir_xmpp::wire::{Element, Frame, Scope, parse, write};

use super::by_posts;
use super::place::{App, Place, places};

/// The wish for mutual followers in the roster.
const MUTUALS: &str = "<iq type='set' to='weir.test' id='m'>
    <command xmlns='http://jabber.org/protocol/commands' node='urn:weir:chat:mutual-followers'>
    <x xmlns='jabber:x:data' type='submit'><field var='show'><value>1</value></field></x>
    </command></iq>";

/// Plays a dialogue on each database.
pub async fn play(script: &str) {
    for mut place in places().await {
        play_at(&mut place, script).await;
    }
}

/// Plays a dialogue at one place.
pub async fn play_at(place: &mut Place, script: &str) {
    let mut stage = Stage { id: String::new(), asked: String::new(), apps: BTreeMap::new() };
    let mut lines = script.lines().enumerate().peekable();
    while let Some((number, line)) = lines.next() {
        let line = line.trim();
        if line.is_empty() || line.starts_with("--") {
            continue;
        }
        let mut xml = String::new();
        while let Some((_, next)) = lines.peek() {
            // A tag may go on in the next line.
            let is_open = xml.matches('<').count() > xml.matches('>').count();
            if !is_open && !next.trim_start().starts_with('<') {
                break;
            }
            if is_open {
                xml.push(' ');
            }
            xml.push_str(next.trim());
            lines.next();
        }
        let at = format!("{}: line {}: {line}", place.name, number + 1);
        stage.act(place, line, &xml, &at).await;
    }
}

struct Stage {
    asked: String,
    id: String,
    apps: BTreeMap<String, App>,
}

impl Stage {
    async fn act(&mut self, place: &mut Place, line: &str, xml: &str, at: &str) {
        let xml = &*xml.replace("THE-ID", &self.id);
        let (who, what) = line.split_once(' ').unwrap_or((line, ""));
        let who = if who.contains('/') { who.to_owned() } else { format!("{who}/home") };
        let (name, resource) = who.split_once('/').unwrap();
        match what {
            "has an account" => place.person(name).await,
            "connects" => {
                let app = place.logged_in(name, resource).await;
                self.apps.insert(who, app);
            }
            "is here" => {
                let mut app = place.logged_in(name, resource).await;
                app.send("<presence/>").await;
                self.apps.insert(who, app);
                self.calm(at).await;
            }
            "leaves" => {
                let mut app = self.apps.remove(&who).expect(at);
                app.send("</stream:stream>").await;
                while app.frame().await.is_some() {}
            }
            "sends" => self.app(&who, at).send(xml).await,
            "asks for the roster" => {
                let app = self.app(&who, at);
                app.send("<iq type='get' id='r'><query xmlns='jabber:iq:roster'/></iq>").await;
                check(&[app.receive().await], "<iq type='result' id='r'/>", at);
            }
            "wants mutual followers in the roster" => self.app(&who, at).send(MUTUALS).await,
            // `THE-ID` in what follows is the id that the archive gave it.
            "receives the id of" => {
                let found = self.app(&who, at).receive().await;
                let sid = found.child("stanza-id", weir_xmpp::wire::ns::STANZA_ID);
                self.id = sid.and_then(|sid| sid.attr("id")).expect(at).to_owned();
                check(&[found], xml, at);
            }
            "receives" => {
                let found = self.app(&who, at).receive().await;
                check(&[found], xml, at);
            }
            // To the last query of the server.
            "answers" => {
                let id = self.asked.clone();
                let to = "weir.test";
                let answer = format!("<iq type='result' id='{id}' to='{to}'>{xml}</iq>");
                self.app(&who, at).send(&answer).await;
            }
            "receives in any order" => {
                let count = elements(xml).len();
                let mut found = Vec::new();
                for _ in 0..count {
                    found.push(self.app(&who, at).receive().await);
                }
                let asks = |one: &&Element| one.attr("type") == Some("get");
                if let Some(id) = found.iter().find(asks).and_then(|one| one.attr("id")) {
                    self.asked = id.to_owned();
                }
                check(&found, xml, at);
            }
            "hears nothing" => {
                let heard = self.heard(&who).await;
                let heard: Vec<String> = heard.iter().map(write::to_string).collect();
                assert!(heard.is_empty(), "{at}: {heard:?}");
            }
            "listens no more" => {
                self.heard(&who).await;
            }
            "is sent away" => {
                let end = self.app(&who, at).frame().await;
                assert!(matches!(end, Some(Frame::Close) | None), "{at}: {end:?}");
                self.apps.remove(&who);
            }
            _ if what.starts_with("enters the room as ") => {
                let nick = what.rsplit(' ').next().unwrap();
                let enter = format!(
                    "<presence to='tea@conference.weir.test/{nick}'>\
                     <x xmlns='http://jabber.org/protocol/muc'/></presence>"
                );
                self.app(&who, at).send(&enter).await;
            }
            _ if by_posts::act(place, name, what).await => {}
            _ => panic!("{at}: nobody knows how to do that"),
        }
    }

    fn app(&mut self, who: &str, at: &str) -> &mut App {
        self.apps.get_mut(who).unwrap_or_else(|| panic!("{at}: {who} is not here"))
    }

    /// What `who` heard, once everything that anybody said so far has gone its way.
    async fn heard(&mut self, who: &str) -> Vec<Element> {
        let others: Vec<String> = self.apps.keys().filter(|name| *name != who).cloned().collect();
        for other in &others {
            // What they hear meanwhile is for a later line.
            self.apps.get_mut(other).unwrap().sync().await;
        }
        self.apps.get_mut(who).unwrap().until_ping().await
    }

    /// Everybody reads away what there is.
    async fn calm(&mut self, _: &str) {
        for app in self.apps.values_mut() {
            app.until_ping().await;
        }
        for app in self.apps.values_mut() {
            app.until_ping().await;
        }
    }
}

fn elements(xml: &str) -> Vec<Element> {
    let around = format!("<all>{xml}</all>");
    let all = parse::element_in(&around, &Scope::client()).unwrap_or_else(|error| {
        panic!("the dialogue itself is wrong: {error}: {xml}");
    });
    all.into_children().collect()
}

fn check(found: &[Element], xml: &str, at: &str) {
    let mut left: Vec<&Element> = found.iter().collect();
    for wanted in elements(xml) {
        let place = left.iter().position(|one| fits(one, &wanted));
        match place {
            Some(place) => {
                left.remove(place);
            }
            None => {
                let got: Vec<String> = left.iter().map(|one| write::to_string(one)).collect();
                panic!("{at}\nwanted {}\ngot    {got:#?}", write::to_string(&wanted));
            }
        }
    }
}

/// Whether `found` has what `wanted` has.
fn fits(found: &Element, wanted: &Element) -> bool {
    let attrs = wanted.attrs.iter().all(|(name, value)| match value.as_str() {
        "*" => found.attr(name).is_some(),
        "(none)" => found.attr(name).is_none(),
        value => found.attr(name) == Some(value),
    });
    let text = wanted.text();
    let text = text.trim();
    attrs
        && found.is(&wanted.name, &wanted.ns)
        && (text.is_empty() || found.text().trim() == text)
        && wanted.children().all(|child| found.children().any(|one| fits(one, child)))
}
