//! Rows as structs, without a procedural macro.

use crate::{Error, Row};

/// A struct that is read from a row; made by [`record!`](crate::record).
pub trait Record: Sized {
    /// The columns in the order [`read`](Self::read) expects, separated by commas.
    const COLUMNS: &'static str;
    /// How many columns there are.
    const WIDTH: usize;

    /// Reads the record from `row`, its first column being `first`.
    fn read(row: &Row<'_>, first: usize) -> Result<Self, Error>;

    /// The columns of the table alias `alias`: `a.id, a.name`.
    fn columns_of(alias: &str) -> String {
        let columns = Self::COLUMNS.split(", ").map(|column| format!("{alias}.{column}"));
        columns.collect::<Vec<_>>().join(", ")
    }
}

/// Declares a struct whose fields are columns of the same names.
///
/// ```
/// weir_db::record! {
///     /// A person.
///     #[derive(Debug, Clone)]
///     pub struct Person {
///         /// Theirs.
///         pub id: weir_base::Id,
///         /// What they are called.
///         pub name: String,
///     }
/// }
/// assert_eq!(<Person as weir_db::Record>::COLUMNS, "id, name");
/// ```
#[macro_export]
macro_rules! record {
    (
        $(#[$meta:meta])*
        $vis:vis struct $name:ident {
            $(#[$first_meta:meta])* $first_vis:vis $first:ident : $first_kind:ty
            $(, $(#[$field_meta:meta])* $field_vis:vis $field:ident : $kind:ty)* $(,)?
        }
    ) => {
        $(#[$meta])*
        $vis struct $name {
            $(#[$first_meta])* $first_vis $first: $first_kind,
            $($(#[$field_meta])* $field_vis $field: $kind,)*
        }
        impl $crate::Record for $name {
            const COLUMNS: &'static str =
                concat!(stringify!($first) $(, ", ", stringify!($field))*);
            const WIDTH: usize = [stringify!($first) $(, stringify!($field))*].len();
            fn read(row: &$crate::Row<'_>, first: usize) -> Result<Self, $crate::Error> {
                let mut at = first;
                let $first = row.get(at)?;
                $(at += 1; let $field = row.get(at)?;)*
                let _ = at;
                Ok(Self { $first, $($field),* })
            }
        }
    };
}
