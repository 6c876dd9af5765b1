//! Types that clients see, described once: as Rust structs, as JSON, and as TypeScript.

use serde::{Deserialize, Serialize};
use weir_base::{Id, Timestamp};

/// A type with a name in TypeScript.
pub trait Typed {
    /// How TypeScript writes it: `string`, `Date | null`, or the name of an interface.
    fn name() -> String;

    /// The interfaces it is made of, itself included: names and texts.
    fn interfaces(_all: &mut Vec<(String, String)>) {}
}

macro_rules! plain {
    ($($rust:ty => $script:literal),* $(,)?) => {$(
        impl Typed for $rust {
            fn name() -> String {
                $script.into()
            }
        }
    )*};
}

plain! {
    String => "string", &'static str => "string", Id => "string", bool => "boolean",
    i64 => "number", u64 => "number", usize => "number", f64 => "number", u32 => "number",
    serde_json::Value => "unknown", () => "void", Date => "Date",
}

impl<T: Typed> Typed for Option<T> {
    fn name() -> String {
        format!("{} | null", T::name())
    }

    fn interfaces(all: &mut Vec<(String, String)>) {
        T::interfaces(all);
    }
}

impl<T: Typed> Typed for Vec<T> {
    fn name() -> String {
        let name = T::name();
        if name.contains(' ') { format!("({name})[]") } else { format!("{name}[]") }
    }

    fn interfaces(all: &mut Vec<(String, String)>) {
        T::interfaces(all);
    }
}

/// A moment as EJSON has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Date {
    /// Milliseconds since 1970.
    #[serde(rename = "$date")]
    pub ms: i64,
}

impl From<Timestamp> for Date {
    fn from(at: Timestamp) -> Self {
        Self { ms: at.as_ms() }
    }
}

/// Declares a struct that clients see.
macro_rules! typed {
    (
        $(#[$meta:meta])*
        pub struct $name:ident {
            $(
                $(#[doc = $doc:literal])*
                $(#[serde($($serde:tt)*)])?
                pub $field:ident $(as $as:literal)?: $type:ty
            ),* $(,)?
        }
    ) => {
        $(#[$meta])*
        pub struct $name {
            $(
                $(#[doc = $doc])*
                $(#[serde($($serde)*)])?
                $(#[serde(rename = $as)])?
                pub $field: $type
            ),*
        }

        impl $crate::typed::Typed for $name {
            fn name() -> String {
                stringify!($name).into()
            }

            fn interfaces(all: &mut Vec<(String, String)>) {
                let mut text = format!("export interface {} {{\n", stringify!($name));
                $(
                    $( text.push_str(concat!("  /**", $doc, " */\n")); )*
                    let field = [$($as,)? stringify!($field)][0];
                    let name = <$type as $crate::typed::Typed>::name();
                    let open = if name.ends_with("| null") { "?" } else { "" };
                    text.push_str(&format!("  {field}{open}: {name};\n"));
                    <$type as $crate::typed::Typed>::interfaces(all);
                )*
                text.push_str("}\n");
                if !all.iter().any(|(name, _)| name == stringify!($name)) {
                    all.push((stringify!($name).into(), text));
                }
            }
        }
    };
}

pub(crate) use typed;
