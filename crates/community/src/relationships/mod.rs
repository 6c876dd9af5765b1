//! Who follows, blocks and mutes whom.

mod block;
mod follow;
mod view;

pub use block::{block, mute, unblock, unmute};
pub use follow::{
    FollowWish, Following, accept_request, end_quietly, follow, follower_ids, following_ids,
    receive, reject_request, remove_follower, unfollow,
};
pub use view::{Bonds, Relationship, bonds, relationships};
