//! What the API shows, in its forms: one file per entity, each with the function that makes it
//! from the community's types, many at once and in a fixed number of queries.

mod account;
mod announcement;
mod application;
mod card;
mod conversation;
mod edit;
mod emoji;
mod featured_tag;
mod filter;
mod list;
mod media;
mod notification;
mod notification_group;
mod notification_policy;
mod poll;
mod profile;
mod relationship;
mod report;
mod scheduled;
mod shapes;
mod shared;
mod status;
mod tag;

pub use account::{
    Account, AccountRole, CredentialAccount, Field, Role, Source, account, accounts,
    accounts_by_id, credential_account,
};
pub use announcement::{Announcement, Reaction, announcements};
pub use application::{Application, CredentialApplication};
pub use card::PreviewCard;
pub use conversation::{Conversation, conversations};
pub use edit::{EditPoll, EditPollOption, StatusEdit, StatusSource, status_edits};
pub use emoji::{CustomEmoji, Emojis, local_emojis};
pub use featured_tag::FeaturedTag;
pub use filter::{
    Filter, FilterHead, FilterKeyword, FilterResult, FilterStatus, FilterV1, filter_results,
};
pub use list::List;
pub use media::MediaAttachment;
pub use notification::{About, AccountWarning, Notification, SeveranceEvent, notifications};
pub use notification_group::{
    GroupForm, GroupedNotifications, NotificationGroup, OnPage, PartialAccount, notification_groups,
};
pub use notification_policy::{
    NotificationPolicy, NotificationPolicyV1, NotificationRequest, Summary, notification_policy,
    notification_policy_v1, notification_requests,
};
pub use poll::{Poll, PollOption, poll};
pub use profile::{Profile, profile};
pub use relationship::{Relationship, relationship, relationships};
pub use report::{Report, reports};
pub use scheduled::{ScheduledParams, ScheduledPoll, ScheduledStatus};
pub use shared::Shared;
pub use status::{Mention, PostingApp, ReaderPart, Status, StatusTag, status, statuses};
pub use tag::{Tag, TagDay, tag, tags};
