//! `chat.…`: contacts with who is here, messages with somebody, and rooms.

use serde::{Deserialize, Serialize};
use weir_base::Id;
use weir_community::Error;
use weir_community::accounts;
use weir_community::chat::address;
use weir_community::chat::{blocks, carrier, contacts, messages, rooms};
use weir_community::streams::{Event, Topic};

use super::{limit, person};
use crate::collections::{ChatContactDoc, ChatMessageDoc, ChatRoomDoc};
use crate::face::Face;
use crate::face::docs::Docs;
use crate::face::live::{Live, Query, Shown, in_one_unit};
use crate::face::shelf::is_chatting;
use crate::observer::Work;
use crate::server::Opening;
use crate::typed::typed;
use crate::wire::Failure;

/// Rooms that are shown.
const ROOMS_MAX: usize = 200;

typed! {
    /// Which messages.
    #[derive(Debug, Clone, Serialize, Deserialize)]
    pub struct ChatMessagesParams {
        /// With whom: an address; none: with everybody.
        #[serde(default)]
        pub with: Option<String>,
        /// Only those older than this one, for paging.
        #[serde(default)]
        pub before: Option<Id>,
        /// 40 unless said, at most 200.
        #[serde(default)]
        pub limit: Option<usize>,
    }
}

struct Contacts(Id);

/// `chat.contacts`
pub(crate) fn contacts(face: &Face, user: Option<Id>) -> Result<Opening, Failure> {
    let (face, query) = (face.clone(), Contacts(person(user)?));
    Ok(Opening::own(&(), move || Live::new(&face, query)))
}

impl Query for Contacts {
    fn topics(&self) -> Vec<Topic> {
        vec![Topic::Own(self.0)]
    }

    fn concerns(&self, event: &Event, _: &Shown) -> bool {
        matches!(event, Event::BondsChanged | Event::FollowersChanged(_) | Event::ContactsChanged)
    }

    fn reader(&self) -> Option<Id> {
        Some(self.0)
    }

    fn read(&self, face: &Face) -> Work<'static, Result<Docs, Error>> {
        let reader = self.0;
        in_one_unit(face, move |tx, env, docs| {
            let mut shown = contacts::list(tx, env, reader)?.contacts;
            shown.retain(|one| one.state.listed || one.state.asked);
            let people = address::people(tx, env, shown.iter().map(|one| &*one.jid))?;
            let of = |jid: &str| people.get(address::bare(jid)).copied();
            let all: Vec<_> = shown.into_iter().map(|one| (of(&one.jid), one)).collect();
            let ids: Vec<Id> = all.iter().filter_map(|(account, _)| *account).collect();
            let accounts = accounts::by_ids(tx, &ids)?;
            let subscribed = all.iter().filter(|(_, one)| one.state.to);
            let subscribed: Vec<Id> = subscribed.filter_map(|(account, _)| *account).collect();
            let own = address::of_account(tx, env, reader)?.ok_or(Error::NotFound("Account"))?;
            let blocked_by = blocks::who_blocks(tx, env, &subscribed, &own)?;
            let blocked = blocks::list(tx, env, reader)?;
            for (account, one) in all {
                let state = one.state;
                let may = state.to && !blocks::has(&blocked, &one.jid);
                let seen = account.filter(|account| may && !blocked_by.contains(account));
                // Of those with whom one follows each other the name is that of their account.
                if let Some(account) = account.filter(|_| one.groups == [contacts::MUTUALS]) {
                    docs.names.insert(account, one.name.as_str().into());
                }
                let document = ChatContactDoc {
                    name: one.name,
                    groups: one.groups,
                    subscription: state.subscription(),
                    asks: state.asked,
                    asked: state.asks,
                    // Whose presence one does not see is not told; of other servers apps know.
                    online: seen.map(|account| is_chatting(env, account)),
                    account_id: account,
                };
                docs.contact(&one.jid, &document, seen);
            }
            for account in &accounts {
                docs.account(env, account);
            }
            Ok(())
        })
    }
}

struct Messages {
    reader: Id,
    asked: messages::Query,
}

/// `chat.messages`
pub(crate) fn messages(
    face: &Face,
    user: Option<Id>,
    asked: ChatMessagesParams,
) -> Result<Opening, Failure> {
    let query = messages::Query {
        with: asked.with.clone().map(|jid| jid.trim().to_lowercase()),
        before: asked.before,
        backwards: true,
        limit: limit(asked.limit),
        ..messages::Query::default()
    };
    let query = Messages { reader: person(user)?, asked: query };
    let face = face.clone();
    Ok(Opening::own(&asked, move || Live::new(&face, query)))
}

impl Query for Messages {
    fn topics(&self) -> Vec<Topic> {
        vec![Topic::Own(self.reader)]
    }

    fn concerns(&self, event: &Event, _: &Shown) -> bool {
        matches!(event, Event::ChatChanged)
    }

    fn reader(&self) -> Option<Id> {
        Some(self.reader)
    }

    fn read(&self, face: &Face) -> Work<'static, Result<Docs, Error>> {
        let (reader, asked) = (self.reader, self.asked.clone());
        in_one_unit(face, move |tx, env, docs| {
            let own = address::of_account(tx, env, reader)?.ok_or(Error::NotFound("Account"))?;
            for one in messages::page(tx, env, reader, &asked)?.messages {
                let document = ChatMessageDoc {
                    sent_at: one.id.time().into(),
                    is_own: address::bare(&one.from_jid) == own,
                    text: carrier::text_of(&one.xml),
                    from: address::bare(&one.from_jid).to_owned(),
                    to: address::bare(&one.to_jid).to_owned(),
                };
                docs.put("chat_messages", &one.id.to_string(), &document);
            }
            Ok(())
        })
    }
}

struct Rooms;

/// `chat.rooms`
pub(crate) fn rooms(face: &Face, user: Option<Id>) -> Result<Opening, Failure> {
    person(user)?;
    let face = face.clone();
    Ok(Opening::shared(&(), move || Live::new(&face, Rooms)))
}

impl Query for Rooms {
    fn topics(&self) -> Vec<Topic> {
        vec![Topic::Rooms]
    }

    fn concerns(&self, event: &Event, _: &Shown) -> bool {
        matches!(event, Event::RoomsChanged)
    }

    fn reader(&self) -> Option<Id> {
        None
    }

    fn read(&self, face: &Face) -> Work<'static, Result<Docs, Error>> {
        in_one_unit(face, move |tx, env, docs| {
            let mut all = rooms::of_community(tx)?;
            all.extend(rooms::public(tx, "", ROOMS_MAX)?);
            for room in all {
                let document = ChatRoomDoc {
                    jid: format!("{}@conference.{}", room.name, address::domain(env)),
                    title: room.config.title,
                    description: room.config.description,
                    subject: room.subject.text,
                    of_community: room.of_community,
                };
                docs.put("chat_rooms", &room.name, &document);
            }
            Ok(())
        })
    }
}
