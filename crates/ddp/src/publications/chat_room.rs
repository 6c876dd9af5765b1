//! `chat.room`: the newest messages of one room and its people, for those who may read its archive.
//! Chat decides who that is, and tells when the room is another than before.

use serde::{Deserialize, Serialize};
use weir_base::Id;
use weir_community::Error;
use weir_community::chat::carrier::{RoomQuery, RoomView};
use weir_community::streams::{Event, Topic};

use super::{limit, person};
use crate::collections::{ChatRoomMessageDoc, ChatRoomPersonDoc};
use crate::face::Face;
use crate::face::docs::Docs;
use crate::face::live::{Live, Query, Shown};
use crate::observer::Work;
use crate::server::Opening;
use crate::typed::typed;
use crate::wire::Failure;

typed! {
    /// Which room, and which of its messages.
    #[derive(Debug, Clone, Serialize, Deserialize)]
    pub struct ChatRoomParams {
        /// The room: its address.
        pub room: String,
        /// Only those older than this one, for paging.
        #[serde(default)]
        pub before: Option<Id>,
        /// 40 unless said, at most 200.
        #[serde(default)]
        pub limit: Option<usize>,
    }
}

struct Room(RoomQuery);

/// `chat.room`
pub(crate) fn open(
    face: &Face,
    user: Option<Id>,
    asked: ChatRoomParams,
) -> Result<Opening, Failure> {
    let reader = person(user)?;
    if face.env().chat.get().is_none() {
        return Err(Failure::new(503, "Chat is not served here"));
    }
    let room = asked.room.trim().to_lowercase();
    let asked = ChatRoomParams { room: room.clone(), limit: Some(limit(asked.limit)), ..asked };
    let query = RoomQuery { reader, room, before: asked.before, limit: limit(asked.limit) };
    let face = face.clone();
    Ok(Opening::own(&asked, move || Live::new(&face, Room(query))))
}

impl Query for Room {
    fn topics(&self) -> Vec<Topic> {
        vec![Topic::Room(self.0.room.clone())]
    }

    fn concerns(&self, event: &Event, _: &Shown) -> bool {
        matches!(event, Event::RoomMoved)
    }

    fn reader(&self) -> Option<Id> {
        Some(self.0.reader)
    }

    fn read(&self, face: &Face) -> Work<'static, Result<Docs, Error>> {
        let (face, asked) = (face.clone(), self.0.clone());
        Box::pin(async move {
            let ended = || Error::Upstream("chat is not served here".into());
            let chat = face.env().chat.get().ok_or_else(ended)?;
            let view = (chat.room)(asked.clone()).await?;
            let mut docs = Docs::new(&face.documents);
            show(&mut docs, &asked.room, view);
            Ok(docs)
        })
    }
}

fn show(docs: &mut Docs, room: &str, view: RoomView) {
    for said in view.messages {
        let document = ChatRoomMessageDoc {
            room: room.to_owned(),
            nick: said.nick,
            sent_at: said.id.time().into(),
            is_own: said.is_own,
            text: said.text,
        };
        docs.put("chat_room_messages", &said.id.to_string(), &document);
    }
    for one in view.people {
        let id = format!("{room}/{}", one.nick);
        let document = ChatRoomPersonDoc {
            room: room.to_owned(),
            nick: one.nick,
            affiliation: one.affiliation,
            is_present: one.role.is_some(),
            role: one.role,
            jid: one.jid,
        };
        docs.put("chat_room_people", &id, &document);
    }
}
