//! Under which address each file is reached. What lies on other servers is reached through ours,
//! so that readers' addresses are not given to others.

use aws_lc_rs::hmac;
use weir_base::Id;

use super::{Files, Media, motion};
use crate::Env;
use crate::accounts::Account;

/// Characters of an address's key.
const KEY_CHARACTERS: usize = 16;

/// The whole address of an attachment; none while it is worked on, or when there is nothing.
pub fn url(env: &Env, media: &Media) -> Option<String> {
    match (media.file.as_str(), media.state.as_str()) {
        (_, "processing" | "failed") => None,
        ("", _) => proxied(env, media.id, "original", &media.remote_url),
        (file, _) => Some(env.site.file_url(file)),
    }
}

/// The whole address of an attachment's small copy; none where there is none.
pub fn preview_url(env: &Env, media: &Media) -> Option<String> {
    match (media.thumbnail.as_str(), media.kind.as_str()) {
        ("", "image" | "gifv") if media.file.is_empty() => {
            proxied(env, media.id, "small", &media.remote_url)
        }
        ("", "video") if media.file.is_empty() && env.media.tools().is_some() => {
            proxied(env, media.id, "small", &media.remote_url)
        }
        ("", _) => None,
        (thumbnail, _) => Some(env.site.file_url(thumbnail)),
    }
}

/// The address of an account's avatar; none when it has none.
pub fn avatar_url(env: &Env, account: &Account) -> Option<String> {
    picture_url(env, account, "avatar", &account.avatar)
}

/// The address of an account's header; none when it has none.
pub fn header_url(env: &Env, account: &Account) -> Option<String> {
    picture_url(env, account, "header", &account.header)
}

/// As [`avatar_url`], standing still.
pub fn avatar_static_url(env: &Env, account: &Account) -> Option<String> {
    still_url(env, account, "avatar", &account.avatar)
}

/// As [`header_url`], standing still.
pub fn header_static_url(env: &Env, account: &Account) -> Option<String> {
    still_url(env, account, "header", &account.header)
}

/// What is stored here moves only under some names; what lies elsewhere may move unless its name
/// says otherwise. Still copies are made when somebody looks at them.
fn still_url(env: &Env, account: &Account, what: &str, file: &str) -> Option<String> {
    let name = file.to_lowercase();
    let moves = match is_address(file) {
        true => !name.ends_with(".jpg") && !name.ends_with(".jpeg"),
        false => motion::form_of(file).is_some(),
    };
    if !moves {
        return picture_url(env, account, what, file);
    }
    let path = proxy_path(&env.media, what, account.id, "static", file);
    Some(format!("{}{path}", env.site.base))
}

fn picture_url(env: &Env, account: &Account, what: &str, file: &str) -> Option<String> {
    if file.is_empty() {
        return None;
    }
    if !is_address(file) {
        return Some(env.site.file_url(file));
    }
    let path = proxy_path(&env.media, what, account.id, "", file);
    Some(format!("{}{path}", env.site.base))
}

fn proxied(env: &Env, id: Id, size: &str, remote_url: &str) -> Option<String> {
    is_address(remote_url)
        .then(|| format!("{}{}", env.site.base, proxy_path(&env.media, "", id, size, remote_url)))
}

/// `/media_proxy/WHAT/ID/SIZE?key=…`, empty parts being left out.
pub(crate) fn proxy_path(
    files: &Files,
    what: &str,
    id: Id,
    size: &str,
    remote_url: &str,
) -> String {
    let mut path = String::from("/media_proxy");
    for part in [what, &id.to_string(), size] {
        if !part.is_empty() {
            path.push('/');
            path.push_str(part);
        }
    }
    format!("{path}?key={}", proxy_key(files, id, remote_url))
}

/// What an address must carry, so that ids cannot be tried for what is not public; another picture
/// gives another key, so that what is cached does not stay in the place of it.
pub(crate) fn proxy_key(files: &Files, id: Id, remote_url: &str) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, &files.key());
    let tag = hmac::sign(&key, format!("{id} {remote_url}").as_bytes());
    let hex: String = tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    hex[..KEY_CHARACTERS].to_owned()
}

pub(crate) fn is_address(text: &str) -> bool {
    text.starts_with("https://") || text.starts_with("http://")
}

impl Files {
    /// The key of proxied addresses, made at the first use and kept beside the store.
    fn key(&self) -> [u8; 32] {
        *self.key.get_or_init(|| {
            let path = self.store.root().join("proxy.key");
            if let Ok(Ok(key)) = std::fs::read(&path).map(<[u8; 32]>::try_from) {
                return key;
            }
            let mut key = [0; 32];
            self.random.fill(&mut key);
            let kept = std::fs::create_dir_all(self.store.root())
                .and_then(|()| std::fs::write(&path, key));
            if let Err(error) = kept {
                let path = path.display();
                tracing::warn!(%error, %path, "addresses of remote media end with this run");
            }
            key
        })
    }
}
