//! `/about`, `/about/privacy`, `/about/terms`

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use weir_community::chat::{address, rooms};
use weir_community::instance::{self, Rule};
use weir_community::{Env, Error, accounts, users};
use weir_db::{Class, Tx};

use crate::Pages;
use crate::face::Face;
use crate::fault::Fault;
use crate::frame::{Frame, show};
use crate::visitor::Visitor;

#[derive(Template)]
#[template(path = "public/about.html")]
struct AboutPage {
    frame: Frame,
    short: String,
    /// Safe HTML.
    long: String,
    rules: Vec<Rule>,
    contact: Option<Face>,
    contact_email: String,
    has_terms: bool,
    /// What addresses of chat end in; empty where there is no chat.
    chat_domain: String,
    rooms: Vec<RoomLine>,
}

/// A room of the community, for those who chat.
struct RoomLine {
    /// By which chat apps enter it (RFC 5122, XEP-0147).
    link: String,
    /// Its address.
    jid: String,
    title: String,
    description: String,
}

/// Rooms that are listed.
const ROOMS_MAX: usize = 50;

fn rooms_shown(tx: &mut Tx, env: &Env) -> Result<Vec<RoomLine>, Error> {
    let rooms = rooms::of_community(tx)?.into_iter().filter(|room| room.config.public);
    let line = |room: rooms::Room| {
        let service = format!("conference.{}", address::domain(env));
        let name = utf8_percent_encode(&room.name, NON_ALPHANUMERIC);
        RoomLine {
            link: format!("xmpp:{name}@{service}?join"),
            jid: format!("{}@{service}", room.name),
            title: if room.config.title.is_empty() { room.name } else { room.config.title },
            description: room.config.description,
        }
    };
    Ok(rooms.take(ROOMS_MAX).map(line).collect())
}

/// `GET /about`
pub async fn page(State(pages): State<Pages>, visitor: Visitor) -> Result<Response, Fault> {
    let env = pages.community.env().clone();
    let settings = env.instance.settings();
    let named = settings.contact_account;
    let (rules, contact, rooms) = pages
        .community
        .read(Class::Interactive, move |tx, env| {
            let contact = match named {
                Some(id) => accounts::by_ids(tx, &[id])?.pop(),
                None => match users::first_admin(tx)? {
                    Some(id) => accounts::by_ids(tx, &[id])?.pop(),
                    None => None,
                },
            };
            let contact = contact.filter(accounts::Account::is_available);
            Ok((instance::rules(tx)?, contact, rooms_shown(tx, env)?))
        })
        .await?;
    let mut frame = pages.frame(&visitor, "About");
    frame.noindex = false;
    frame.canonical = format!("{}/about", env.site.base);
    frame.description = settings.short_description.clone();
    show(&AboutPage {
        frame,
        short: settings.short_description.clone(),
        long: settings.extended_description.clone(),
        rules,
        contact: contact.map(|account| Face::new(&env, &account)),
        contact_email: settings.contact_email.clone(),
        has_terms: !settings.terms_of_service.is_empty(),
        chat_domain: env.chat.get().map_or_else(String::new, |_| address::domain(&env).to_owned()),
        rooms,
    })
}

#[derive(Template)]
#[template(path = "public/text.html")]
struct TextPage<'a> {
    frame: Frame,
    title: &'a str,
    /// Safe HTML.
    text: String,
    /// Shown where there is no text.
    instead: &'a str,
}

/// `GET /about/privacy`
pub async fn privacy(State(pages): State<Pages>, visitor: Visitor) -> Result<Response, Fault> {
    let title = "Privacy";
    show(&TextPage {
        frame: pages.frame(&visitor, title),
        title,
        text: pages.community.env().instance.settings().privacy_policy.clone(),
        instead: "The people who run this server have not written a privacy policy yet. In \
                  short, what the program keeps: what you post and upload, your profile, your \
                  mail address and a hash of your password, from where and when you logged in. \
                  Public posts go to other servers, which keep their own copies. Nothing is \
                  measured, sold or shown to advertisers by this program.",
    })
}

/// `GET /about/terms`
pub async fn terms(State(pages): State<Pages>, visitor: Visitor) -> Result<Response, Fault> {
    let text = pages.community.env().instance.settings().terms_of_service.clone();
    if text.is_empty() {
        return Err(Fault::not_found());
    }
    let title = "Terms";
    show(&TextPage { frame: pages.frame(&visitor, title), title, text, instead: "" })
}
