// Made by `cargo xtask ddp-types` from crates/ddp; a test keeps it true.
// Ids are texts of decimal digits, newest last; dates are EJSON dates.

export interface MediaDoc {
  /** Its id. */
  id: string;
  /** `image`, `gifv`, `video`, `audio` or `unknown`. */
  type: string;
  /** The file; none while it is processed. */
  url?: string | null;
  /** A small picture of it. */
  preview_url?: string | null;
  /** What it shows. */
  description?: string | null;
  /** A blurred preview. */
  blurhash?: string | null;
  /** Sizes, focus, duration. */
  meta: unknown;
}

export interface MentionDoc {
  /** Who. */
  account_id: string;
  /** The name, with the server for remote people. */
  acct: string;
  /** Their page. */
  url: string;
}

export interface PollOptionDoc {
  /** Its text. */
  title: string;
  /** Its votes; none while they are hidden. */
  votes_count?: number | null;
}

export interface PollDoc {
  /** Its id. */
  id: string;
  /** When it ends. */
  expires_at?: Date | null;
  /** Whether more than one option can be chosen. */
  multiple: boolean;
  /** People who voted. */
  voters_count: number;
  /** What can be chosen. */
  options: PollOptionDoc[];
}

export interface StatusDoc {
  /** Who wrote or boosted: in `accounts`. */
  account_id: string;
  /** When it was written. */
  created_at: Date;
  /** When it was last edited. */
  edited_at?: Date | null;
  /** `public`, `unlisted`, `private` or `direct`. */
  visibility: string;
  /** The text, as safe HTML; empty for a boost. */
  content: string;
  /** The content warning. */
  spoiler_text: string;
  /** Whether its media is hidden at first. */
  sensitive: boolean;
  /** Its language. */
  language?: string | null;
  /** What it answers. */
  in_reply_to_id?: string | null;
  /** Whom it answers. */
  in_reply_to_account_id?: string | null;
  /** What it boosts: in `statuses`. */
  reblog_id?: string | null;
  /** Its id on the network. */
  uri: string;
  /** Its page. */
  url: string;
  /** Replies. */
  replies_count: number;
  /** Boosts. */
  reblogs_count: number;
  /** Favourites. */
  favourites_count: number;
  /** Its media, in order. */
  media: MediaDoc[];
  /** Whom it mentions. */
  mentions: MentionDoc[];
  /** Its hashtags, without the sign. */
  tags: string[];
  /** Its poll. */
  poll?: PollDoc | null;
  /** A preview of what it links to. */
  card?: unknown | null;
  /** The app it was written with. */
  application?: string | null;
}

export interface FilterDoc {
  /** Its id. */
  id: string;
  /** What the reader calls it. */
  title: string;
  /** Where it applies: `home`, `notifications`, `public`, `thread`, `account`. */
  context: string[];
  /** `warn`, `blur` or `hide`. */
  filter_action: string;
  /** When it ends. */
  expires_at?: Date | null;
}

export interface FilterResultDoc {
  /** The filter. */
  filter: FilterDoc;
  /** Which of its words match. */
  keyword_matches: string[];
  /** Which of its posts this is, or boosts. */
  status_matches: string[];
}

export interface StatusStateDoc {
  /** Favourited it. */
  favourited: boolean;
  /** Boosted it. */
  reblogged: boolean;
  /** Bookmarked it. */
  bookmarked: boolean;
  /** Muted its conversation. */
  muted: boolean;
  /** Pinned it. */
  pinned: boolean;
  /** What the reader chose in its poll, from 0. */
  own_votes: number[];
  /** The reader's filters that match it, whatever they do about it. */
  filtered: FilterResultDoc[];
}

export interface TimelineEntryDoc {
  /** Which timeline: what the subscription's table says. */
  timeline: string;
  /** Which post or boost: in `statuses`. */
  status_id: string;
}

export interface AccountField {
  /** What it is. */
  name: string;
  /** What it says, as safe HTML. */
  value: string;
  /** Since when the linked page is known to link back. */
  verified_at?: Date | null;
}

export interface AccountDoc {
  /** The name before the `@`. */
  username: string;
  /** With the server, for remote people. */
  acct: string;
  /** What it wants to be called. */
  display_name: string;
  /** The bio, as safe HTML. */
  note: string;
  /** Its page. */
  url: string;
  /** Its id on the network. */
  uri: string;
  /** Its picture. */
  avatar?: string | null;
  /** Its picture, standing still. */
  avatar_static?: string | null;
  /** Its header. */
  header?: string | null;
  /** Whether followers are approved by hand. */
  locked: boolean;
  /** Whether a program posts. */
  bot: boolean;
  /** Whether it is a group. */
  group: boolean;
  /** The lines of its profile. */
  fields: AccountField[];
  /** When it was made. */
  created_at: Date;
  /** Where the person moved to. */
  moved_to_id?: string | null;
  /** Followers. */
  followers_count: number;
  /** Followees. */
  following_count: number;
  /** Posts. */
  statuses_count: number;
  /** Whether staff hid it from those who do not follow it. */
  limited: boolean;
}

export interface UserDoc {
  /** The name before the `@`. */
  username: string;
  /** `user`, `moderator` or `admin`. */
  role: string;
  /** The visibility of new posts. */
  default_visibility: string;
  /** Whether media of new posts is sensitive. */
  default_sensitive: boolean;
  /** The language of new posts. */
  default_language?: string | null;
  /** The language of pages. */
  locale: string;
}

export interface NotificationDoc {
  /** Why: `mention`, `reblog`, `favourite`, `follow`, … */
  type: string;
  /** Those shown as one share this key. */
  group_key: string;
  /** Who did it: in `accounts`. */
  account_id: string;
  /** To which post: in `statuses`. */
  status_id?: string | null;
  /** When. */
  created_at: Date;
}

export interface ConversationDoc {
  /** Whether there is something new in it. */
  unread: boolean;
  /** The others in it: in `accounts`. */
  account_ids: string[];
  /** The newest post: in `statuses`. */
  last_status_id: string;
}

export interface ListDoc {
  /** Its name. */
  title: string;
  /** Which replies are shown: `followed`, `list` or `none`. */
  replies_policy: string;
  /** Whether its members' posts are kept out of the home timeline. */
  exclusive: boolean;
}

export interface ListMemberDoc {
  /** The list. */
  list_id: string;
  /** Who: in `accounts`. */
  account_id: string;
}

export interface TagDoc {
  /** Its name, without the sign. */
  name: string;
}

export interface FollowRequestDoc {
  /** Who: in `accounts`. */
  account_id: string;
  /** Since when. */
  created_at: Date;
}

export interface MarkDoc {
  /** The post: in `statuses`. */
  status_id: string;
  /** Since when. */
  created_at: Date;
}

export interface FilterKeywordDoc {
  /** The filter: in `filters`. */
  filter_id: string;
  /** The word or phrase. */
  keyword: string;
  /** Whether it counts only as a whole word. */
  whole_word: boolean;
}

export interface FilterStatusDoc {
  /** The filter: in `filters`. */
  filter_id: string;
  /** The post. */
  status_id: string;
}

export interface RelationshipDoc {
  /** The reader follows it. */
  following: boolean;
  /** With its boosts. */
  showing_reblogs: boolean;
  /** With a notification for each post. */
  notifying: boolean;
  /** It follows the reader. */
  followed_by: boolean;
  /** The reader blocks it. */
  blocking: boolean;
  /** It blocks the reader. */
  blocked_by: boolean;
  /** The reader mutes it. */
  muting: boolean;
  /** And its notifications. */
  muting_notifications: boolean;
  /** The reader asked to follow it. */
  requested: boolean;
  /** It asked to follow the reader. */
  requested_by: boolean;
  /** The reader blocks its whole server. */
  domain_blocking: boolean;
  /** The reader features it. */
  endorsed: boolean;
  /** The reader's private note about it. */
  note: string;
}

export interface MarkerDoc {
  /** The newest item read. */
  last_read_id: string;
  /** Counts the changes. */
  version: number;
  /** When it last changed. */
  updated_at: Date;
}

export interface PresenceDoc {
  /** Whether they have a session now. */
  online: boolean;
}

export interface ChatContactDoc {
  /** What the reader calls it; may be empty. */
  name: string;
  /** The groups it stands in. */
  groups: string[];
  /** Who sees whose presence: `none`, `to`, `from` or `both`. */
  subscription: string;
  /** It asks to see the reader's presence. */
  asks: boolean;
  /** The reader asked to see its presence. */
  asked: boolean;
  /** Whether it is here; none where that is not to be known. */
  online?: boolean | null;
  /** The account, for people of here: in `accounts`. */
  account_id?: string | null;
}

export interface ChatMessageDoc {
  /** Who wrote it: an address. */
  from: string;
  /** Whom it is for. */
  to: string;
  /** When it was sent. */
  sent_at: Date;
  /** Whether the reader wrote it. */
  is_own: boolean;
  /** Its text; none for a message that is a receipt, a reaction, or encrypted. */
  text?: string | null;
}

export interface ChatRoomDoc {
  /** Its address. */
  jid: string;
  /** What people call it. */
  title: string;
  /** What it is about. */
  description: string;
  /** What is talked about now. */
  subject: string;
  /** Whether it belongs to the community. */
  of_community: boolean;
}

export interface ChatRoomMessageDoc {
  /** The address of the room. */
  room: string;
  /** The nick of who said it; empty for the room itself. */
  nick: string;
  /** When it was said. */
  sent_at: Date;
  /** Whether the reader said it. */
  is_own: boolean;
  /** Its text; none for a reaction, a subject, or what was taken back. */
  text?: string | null;
}

export interface ChatRoomPersonDoc {
  /** The address of the room. */
  room: string;
  /** What they are called there. */
  nick: string;
  /** What they are to the room: `owner`, `admin`, `member` or `none`. */
  affiliation: string;
  /** Whether an app of theirs is there. */
  is_present: boolean;
  /** What they may do there: `moderator`, `participant` or `visitor`; none while away. */
  role?: string | null;
  /** Their address, where the reader may know it. */
  jid?: string | null;
}

export interface StatDoc {
  /** The number. */
  value: number;
}

export interface QueueDoc {
  /** Jobs that wait. */
  waiting: number;
  /** Jobs that run here. */
  running: number;
  /** Whether it is paused. */
  paused: boolean;
}

