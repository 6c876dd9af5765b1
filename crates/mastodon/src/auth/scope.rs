//! Permissions as types, so that no endpoint forgets to ask for its own.

/// A permission that an endpoint needs.
pub trait Scope: Send + Sync + 'static {
    /// Its name in OAuth; any token will do when it is empty.
    const NAME: &'static str;
}

macro_rules! scopes {
    ($($name:ident = $text:literal),* $(,)?) => {$(
        #[doc = concat!("`", $text, "`")]
        #[derive(Debug, Clone, Copy)]
        pub struct $name;

        impl Scope for $name {
            const NAME: &'static str = $text;
        }
    )*};
}

scopes! {
    AnyScope = "",
    Profile = "profile",
    Push = "push",
    Read = "read",
    ReadAccounts = "read:accounts",
    ReadBlocks = "read:blocks",
    ReadBookmarks = "read:bookmarks",
    ReadFavourites = "read:favourites",
    ReadFilters = "read:filters",
    ReadFollows = "read:follows",
    ReadLists = "read:lists",
    ReadMutes = "read:mutes",
    ReadNotifications = "read:notifications",
    ReadSearch = "read:search",
    ReadStatuses = "read:statuses",
    Write = "write",
    WriteAccounts = "write:accounts",
    WriteBlocks = "write:blocks",
    WriteBookmarks = "write:bookmarks",
    WriteConversations = "write:conversations",
    WriteFavourites = "write:favourites",
    WriteFilters = "write:filters",
    WriteFollows = "write:follows",
    WriteLists = "write:lists",
    WriteMedia = "write:media",
    WriteMutes = "write:mutes",
    WriteNotifications = "write:notifications",
    WriteReports = "write:reports",
    WriteStatuses = "write:statuses",
}
