//! How one value of the configuration is read, from TOML and from text, and shown again.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use toml::de::DeValue;
use weir_base::Secret;
use weir_http::Network;
use weir_xmpp::iq::external::External;

/// A type that a key of the configuration may have.
pub trait Setting: Sized {
    /// Reads the value of a TOML file. The error says what is expected.
    fn from_toml(value: &DeValue<'_>) -> Result<Self, String> {
        match value.as_str() {
            Some(text) => Self::from_text(text),
            None => Err(format!("expected a text in quotes, found {}", article(value))),
        }
    }

    /// Reads an environment variable or a flag. The error says what is expected.
    fn from_text(text: &str) -> Result<Self, String>;

    /// The value as TOML, secrets left out.
    fn shown(&self) -> String;
}

/// The kind of `value` with its article, for messages.
fn article(value: &DeValue<'_>) -> String {
    let kind = value.type_str();
    let article = if kind.starts_with(['a', 'i']) { "an" } else { "a" };
    format!("{article} {kind}")
}

/// `text` as a TOML string.
pub fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

impl Setting for String {
    fn from_text(text: &str) -> Result<Self, String> {
        Ok(text.to_owned())
    }

    fn shown(&self) -> String {
        quoted(self)
    }
}

impl Setting for Secret<String> {
    fn from_text(text: &str) -> Result<Self, String> {
        Ok(Secret::new(text.to_owned()))
    }

    fn shown(&self) -> String {
        quoted(&without_password(self.expose()))
    }
}

/// What is never shown; nothing (`""`) is none.
impl Setting for Option<Secret<String>> {
    fn from_text(text: &str) -> Result<Self, String> {
        Ok((!text.is_empty()).then(|| Secret::new(text.to_owned())))
    }

    fn shown(&self) -> String {
        quoted(if self.is_some() { "***" } else { "" })
    }
}

/// `url` with its password, if it has one, replaced by stars.
pub fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let end = rest.find('/').unwrap_or(rest.len());
    let Some(at) = rest[..end].rfind('@') else { return url.to_owned() };
    match rest[..at].split_once(':') {
        Some((user, _)) => format!("{scheme}://{user}:***{}", &rest[at..]),
        None => url.to_owned(),
    }
}

impl Setting for bool {
    fn from_toml(value: &DeValue<'_>) -> Result<Self, String> {
        value.as_bool().ok_or_else(|| format!("expected true or false, found {}", article(value)))
    }

    fn from_text(text: &str) -> Result<Self, String> {
        match text {
            "true" | "1" | "yes" | "on" => Ok(true),
            "false" | "0" | "no" | "off" => Ok(false),
            _ => Err(format!("expected true or false, found \"{text}\"")),
        }
    }

    fn shown(&self) -> String {
        self.to_string()
    }
}

impl Setting for u32 {
    fn from_toml(value: &DeValue<'_>) -> Result<Self, String> {
        match value.as_integer() {
            Some(number) if number.radix() == 10 => Self::from_text(number.as_str()),
            _ => Err(format!("expected a whole number, found {}", article(value))),
        }
    }

    fn from_text(text: &str) -> Result<Self, String> {
        text.parse().map_err(|_| format!("expected a whole number from 0 on, found \"{text}\""))
    }

    fn shown(&self) -> String {
        self.to_string()
    }
}

/// Where to listen; nothing (`""`) is nowhere.
impl Setting for Option<SocketAddr> {
    fn from_text(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Ok(None);
        }
        let text = text.replace("localhost:", "127.0.0.1:");
        text.parse().map(Some).map_err(|_| {
            format!("expected an address with a port, like \"127.0.0.1:8080\", found \"{text}\"")
        })
    }

    fn shown(&self) -> String {
        quoted(&self.map(|address| address.to_string()).unwrap_or_default())
    }
}

/// A file; nothing (`""`) is none.
impl Setting for Option<PathBuf> {
    fn from_text(text: &str) -> Result<Self, String> {
        Ok((!text.is_empty()).then(|| PathBuf::from(text)))
    }

    fn shown(&self) -> String {
        quoted(&self.as_ref().map(|path| path.display().to_string()).unwrap_or_default())
    }
}

impl Setting for PathBuf {
    fn from_text(text: &str) -> Result<Self, String> {
        if text.is_empty() { Err("expected a path".into()) } else { Ok(PathBuf::from(text)) }
    }

    fn shown(&self) -> String {
        quoted(&self.display().to_string())
    }
}

/// One of the members of a list.
pub trait Member: Sized {
    /// Reads one member. The error says what is expected.
    fn parse(text: &str) -> Result<Self, String>;
    /// The member as it is written.
    fn written(&self) -> String;
}

impl Member for Network {
    fn parse(text: &str) -> Result<Self, String> {
        text.parse().map_err(|_| {
            format!("expected an address or network like 10.0.0.0/8, found \"{text}\"")
        })
    }

    fn written(&self) -> String {
        self.to_string()
    }
}

impl Member for External {
    fn parse(text: &str) -> Result<Self, String> {
        Self::parse(text)
    }

    fn written(&self) -> String {
        self.to_string()
    }
}

impl<T: Member> Setting for Vec<T> {
    fn from_toml(value: &DeValue<'_>) -> Result<Self, String> {
        let Some(array) = value.as_array() else {
            return Err(format!("expected a list in brackets, found {}", article(value)));
        };
        let member = |value: &DeValue<'_>| match value.as_str() {
            Some(text) => T::parse(text),
            None => Err(format!("expected texts in the list, found {}", article(value))),
        };
        array.iter().map(|value| member(value.get_ref())).collect()
    }

    fn from_text(text: &str) -> Result<Self, String> {
        text.split(',').map(str::trim).filter(|part| !part.is_empty()).map(T::parse).collect()
    }

    fn shown(&self) -> String {
        let members: Vec<_> = self.iter().map(|member| quoted(&member.written())).collect();
        format!("[{}]", members.join(", "))
    }
}

/// What names may stand for.
pub trait Named: Sized {
    /// Reads it. The error says what is expected.
    fn read(text: &str) -> Result<Self, String>;

    /// As it is shown, secrets left out.
    fn show(&self) -> String;
}

impl Named for IpAddr {
    fn read(text: &str) -> Result<Self, String> {
        ip(text)
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

impl Named for SocketAddr {
    fn read(text: &str) -> Result<Self, String> {
        let wrong = |_| format!("expected an address like \"127.0.0.2:5269\", found \"{text}\"");
        text.parse().map_err(wrong)
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

impl Named for Secret<String> {
    fn read(text: &str) -> Result<Self, String> {
        match text {
            "" => Err("expected a secret".into()),
            text => Ok(Secret::new(text.to_owned())),
        }
    }

    fn show(&self) -> String {
        "***".into()
    }
}

/// Names, and what each stands for.
impl<V: Named> Setting for BTreeMap<String, V> {
    fn from_toml(value: &DeValue<'_>) -> Result<Self, String> {
        let Some(table) = value.as_table() else {
            return Err(format!("expected {{ \"name\" = \"value\" }}, found {}", article(value)));
        };
        let mut map = BTreeMap::new();
        for (name, value) in table.iter() {
            let text = value.get_ref().as_str().unwrap_or_default();
            map.insert(name.get_ref().to_string(), V::read(text)?);
        }
        Ok(map)
    }

    fn from_text(text: &str) -> Result<Self, String> {
        let pairs = text.split(',').map(str::trim).filter(|pair| !pair.is_empty());
        let mut map = BTreeMap::new();
        for pair in pairs {
            let (name, value) = pair
                .split_once('=')
                .ok_or_else(|| format!("expected name=value, found \"{pair}\""))?;
            map.insert(name.trim().to_owned(), V::read(value.trim())?);
        }
        Ok(map)
    }

    fn shown(&self) -> String {
        let pairs: Vec<_> = self
            .iter()
            .map(|(name, value)| format!("{} = {}", quoted(name), quoted(&value.show())))
            .collect();
        if pairs.is_empty() { "{}".into() } else { format!("{{ {} }}", pairs.join(", ")) }
    }
}

fn ip(text: &str) -> Result<IpAddr, String> {
    text.parse().map_err(|_| format!("expected an IP address like \"127.0.0.2\", found \"{text}\""))
}

/// An enum whose members are words of the configuration.
macro_rules! words {
    (
        $(#[$meta:meta])*
        $name:ident { $($(#[$member_meta:meta])* $member:ident = $word:literal),+ $(,)? }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name { $($(#[$member_meta])* $member),+ }

        impl $name {
            /// The word that stands for this in the configuration.
            pub fn word(self) -> &'static str {
                match self { $(Self::$member => $word),+ }
            }

            fn parse_word(text: &str) -> Result<Self, String> {
                match text {
                    $($word => Ok(Self::$member),)+
                    _ => {
                        let words = [$($word),+].join(", ");
                        Err(format!("expected one of {words}, found \"{text}\""))
                    }
                }
            }
        }

        impl $crate::config::setting::Setting for $name {
            fn from_text(text: &str) -> Result<Self, String> {
                Self::parse_word(text)
            }

            fn shown(&self) -> String {
                $crate::config::setting::quoted(self.word())
            }
        }

        impl $crate::config::setting::Member for $name {
            fn parse(text: &str) -> Result<Self, String> {
                Self::parse_word(text)
            }

            fn written(&self) -> String {
                self.word().to_owned()
            }
        }
    };
}
pub(crate) use words;

/// Declares the configuration: structs whose comments are also the text of the example file, and
/// the table by which keys are found by name.
macro_rules! settings {
    (
        $(#[doc = $doc:literal])*
        struct $config:ident {
            $($(#[doc = $key_doc:literal])* $key:ident: $type:ty = $default:expr;)*
        }
        $(
            $(#[doc = $section_doc:literal])*
            section $section:ident: $section_type:ident {
                $($(#[doc = $skey_doc:literal])* $skey:ident: $stype:ty = $sdefault:expr;)*
            }
        )*
    ) => {
        $(#[doc = $doc])*
        #[derive(Debug, Clone)]
        pub struct $config {
            $($(#[doc = $key_doc])* pub $key: $type,)*
            $($(#[doc = $section_doc])* pub $section: $section_type,)*
        }

        $(
            $(#[doc = $section_doc])*
            #[derive(Debug, Clone)]
            pub struct $section_type {
                $($(#[doc = $skey_doc])* pub $skey: $stype,)*
            }
        )*

        impl Default for $config {
            fn default() -> Self {
                Self {
                    $($key: $default,)*
                    $($section: $section_type { $($skey: $sdefault,)* },)*
                }
            }
        }

        impl $config {
            /// What the whole file is about, line by line.
            pub const DOCS: &[&str] = &[$($doc),*];

            /// The sections and what each is about; the first, nameless, holds the keys on top.
            pub const SECTIONS: &[(&str, &[&str])] = &[
                ("", &[]),
                $((stringify!($section), &[$($section_doc),*]),)*
            ];

            /// Every key.
            pub const KEYS: &[$crate::config::Key] = &[
                $($crate::config::Key {
                    section: "", name: stringify!($key), docs: &[$($key_doc),*],
                },)*
                $($($crate::config::Key {
                    section: stringify!($section),
                    name: stringify!($skey),
                    docs: &[$($skey_doc),*],
                },)*)*
            ];

            /// Sets a key from what stands in a file, a variable or a flag.
            fn set(
                &mut self,
                key: &$crate::config::Key,
                raw: &$crate::config::Raw<'_>,
            ) -> Result<(), String> {
                match (key.section, key.name) {
                    $(("", stringify!($key)) => self.$key = raw.read()?,)*
                    $($((stringify!($section), stringify!($skey)) => {
                        self.$section.$skey = raw.read()?;
                    })*)*
                    _ => return Err("no such key".to_owned()),
                }
                Ok(())
            }

            /// A key's value as TOML, secrets left out.
            pub fn shown(&self, key: &$crate::config::Key) -> String {
                use $crate::config::setting::Setting;
                match (key.section, key.name) {
                    $(("", stringify!($key)) => self.$key.shown(),)*
                    $($((stringify!($section), stringify!($skey)) => {
                        self.$section.$skey.shown()
                    })*)*
                    _ => String::new(),
                }
            }
        }
    };
}
pub(crate) use settings;
