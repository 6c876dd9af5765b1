//! Places for files that people send (XEP-0363); the files come by [`crate::upload`].

use weir_community::Error;
use weir_community::chat::uploads::{self, FILE_BYTES_MAX, New};

use super::{Answer, Asked};
use crate::upload::address;
use crate::wire::form::{Field, Form};
use crate::wire::{Condition, Element, StanzaError, ns};

/// `<request/>`
pub async fn request(asked: Asked) -> Answer {
    let account = asked.own_account()?;
    let bad = |text: &str| StanzaError::new(Condition::BadRequest).text(text);
    let name = asked.payload.attr("filename").ok_or_else(|| bad("name the file in `filename`"))?;
    let bytes = asked.payload.attr("size").and_then(|size| size.parse().ok());
    let bytes: u64 = bytes.ok_or_else(|| bad("give the size in bytes in `size`"))?;
    if bytes > FILE_BYTES_MAX {
        let most = Element::new("max-file-size", ns::UPLOAD).with_text(FILE_BYTES_MAX.to_string());
        let text = format!("a file has at most {FILE_BYTES_MAX} bytes");
        let error = StanzaError::new(Condition::NotAcceptable).text(text);
        let specific = Element::new("file-too-large", ns::UPLOAD).with_child(most);
        return Err(error.specific(specific));
    }
    let content_type = asked.payload.attr("content-type").unwrap_or_default().to_owned();
    let new = New { name: name.to_owned(), bytes, content_type };
    let upload = asked
        .xmpp
        .community
        .write(weir_db::Class::Interactive, move |tx, env| uploads::ask(tx, env, account, &new))
        .await;
    let upload = match upload {
        Err(Error::TooMany { retry_after_s }) => {
            let at = asked.xmpp.env().clock.now().plus_ms(retry_after_s as i64 * 1_000);
            let retry = Element::new("retry", ns::UPLOAD).with_attr("stamp", at.to_string());
            let text = "too many files at once: send those you asked for first";
            let error = StanzaError::new(Condition::ResourceConstraint).text(text);
            return Err(error.specific(retry));
        }
        upload => upload.map_err(crate::fault)?,
    };
    let url = address(asked.xmpp.env(), &upload);
    let link = |name: &'static str| Element::new(name, ns::UPLOAD).with_attr("url", url.as_str());
    Ok(Some(Element::new("slot", ns::UPLOAD).with_child(link("put")).with_child(link("get"))))
}

/// What the domain tells of it in `disco#info`.
pub fn form() -> Form {
    let most = FILE_BYTES_MAX.to_string();
    Form::result(ns::UPLOAD).with(Field::new("", "max-file-size", "", most))
}
