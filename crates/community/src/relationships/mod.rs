//! Who follows, blocks and mutes whom.

mod block;
mod domains;
mod follow;
mod lists;
mod profile;
mod receive;
mod view;

pub use block::{block, is_blocked, mute, unblock, unmute};
pub use domains::{block_domain, blocked_domains, unblock_domain, with_domain};
pub(crate) use follow::blocked_each;
pub use follow::{
    FollowWish, Following, accept_request, end_quietly, follow, follower_ids, following_ids,
    is_followed, is_wanted, reject_request, remove_follower, unfollow,
};
pub use lists::{Relation, familiar_followers, page};
pub use profile::{endorse, set_note, unendorse};
pub(crate) use receive::{Act, migrate, receive_acts};
pub use receive::{receive_answer, receive_move};
pub(crate) use view::ask_bonds_of_posts;
pub use view::{Bonds, Relationship, all_bonds, bonds, next_mute_end, relationships};
