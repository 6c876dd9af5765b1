// Made by `cargo xtask ddp-types` from crates/ddp; a test keeps it true.
// Ids are texts of decimal digits, newest last; dates are EJSON dates.

import type {
  AccountDoc,
  ChatContactDoc,
  ChatMessageDoc,
  ChatRoomDoc,
  ChatRoomMessageDoc,
  ChatRoomPersonDoc,
  ConversationDoc,
  FilterDoc,
  FilterKeywordDoc,
  FilterStatusDoc,
  FollowRequestDoc,
  ListDoc,
  ListMemberDoc,
  MarkDoc,
  MarkerDoc,
  NotificationDoc,
  PresenceDoc,
  QueueDoc,
  RelationshipDoc,
  StatDoc,
  StatusDoc,
  StatusStateDoc,
  TagDoc,
  TimelineEntryDoc,
  UserDoc,
} from "./ddp_documents";

export * from "./ddp_documents";

export interface HomeParams {
  /** Posts; 40 unless said, at most 200. */
  limit?: number | null;
}

export interface PublicParams {
  /** Only posts written here. */
  local?: boolean | null;
  /** Only posts written elsewhere. */
  remote?: boolean | null;
  /** Only posts with media. */
  only_media?: boolean | null;
  /** Posts; 40 unless said, at most 200. */
  limit?: number | null;
}

export interface TagParams {
  /** Its name, with or without the sign. */
  tag: string;
  /** Only posts written here. */
  local?: boolean | null;
  /** Posts; 40 unless said, at most 200. */
  limit?: number | null;
}

export interface ListParams {
  /** Its id. */
  list_id: string;
  /** Posts; 40 unless said, at most 200. */
  limit?: number | null;
}

export interface AccountParams {
  /** Whose. */
  account_id: string;
  /** Only posts with media. */
  only_media?: boolean | null;
  /** No replies to others. */
  exclude_replies?: boolean | null;
  /** No boosts. */
  exclude_reblogs?: boolean | null;
  /** Posts; 40 unless said, at most 200. */
  limit?: number | null;
}

export interface ThreadParams {
  /** Its id. */
  status_id: string;
}

export interface NotificationsParams {
  /** 40 unless said, at most 200. */
  limit?: number | null;
}

export interface ConversationsParams {
  /** 40 unless said, at most 200. */
  limit?: number | null;
}

export interface ListMembersParams {
  /** Its id. */
  list_id: string;
  /** How many: 40 unless said, at most 200. */
  limit?: number | null;
}

export interface FollowRequestsParams {
  /** 40 unless said, at most 200. */
  limit?: number | null;
}

export interface MarkedParams {
  /** 40 unless said, at most 200. */
  limit?: number | null;
}

export interface RelationshipsParams {
  /** At most 100 accounts. */
  account_ids: string[];
}

export interface ChatMessagesParams {
  /** With whom: an address; none: with everybody. */
  with?: string | null;
  /** Only those older than this one, for paging. */
  before?: string | null;
  /** 40 unless said, at most 200. */
  limit?: number | null;
}

export interface ChatRoomParams {
  /** The room: its address. */
  room: string;
  /** Only those older than this one, for paging. */
  before?: string | null;
  /** 40 unless said, at most 200. */
  limit?: number | null;
}

export interface LoginParams {
  /** `{ username }` or `{ email }`, or either as a text. */
  user?: unknown | null;
  /** The password, or `{ digest, algorithm: "sha-256" }`. */
  password?: unknown | null;
  /** A token. */
  resume?: string | null;
}

export interface LoginResult {
  /** The account's id, as in `users`. */
  id: string;
  /** By which to log in again. */
  token: string;
  /** Until when, if it is not used. */
  token_expires: Date;
  /** `password` or `resume`. */
  type: string;
}

export interface PollParams {
  /** What can be chosen. */
  options: string[];
  /** How long it lasts, in s. */
  expires_in: number;
  /** Whether more than one can be chosen. */
  multiple?: boolean | null;
  /** Whether tallies are hidden until it ends. */
  hide_totals?: boolean | null;
}

export interface PostParams {
  /** The text. */
  text?: string | null;
  /** The content warning. */
  spoiler_text?: string | null;
  /** Whether media is hidden at first. */
  sensitive?: boolean | null;
  /** `public`, `unlisted`, `private` or `direct`; the person's own choice unless said. */
  visibility?: string | null;
  /** Its language. */
  language?: string | null;
  /** What it answers. */
  in_reply_to_id?: string | null;
  /** Uploaded media, in order. */
  media_ids?: string[] | null;
  /** A poll. */
  poll?: PollParams | null;
  /** A call with the same key gives the same post. */
  idempotency_key?: string | null;
}

export interface IdResult {
  /** Its id. */
  id: string;
}

export interface EditParams {
  /** Which post. */
  id: string;
  /** The text. */
  text?: string | null;
  /** The content warning. */
  spoiler_text?: string | null;
  /** Whether media is hidden at first. */
  sensitive?: boolean | null;
  /** Its language. */
  language?: string | null;
  /** Its media, in order. */
  media_ids?: string[] | null;
}

export interface DeleteParams {
  /** Which. */
  id: string;
  /** Its media too. */
  delete_media?: boolean | null;
}

export interface DeleteResult {
  /** Its id. */
  id: string;
  /** Its text as written. */
  text: string;
}

export interface ReblogParams {
  /** Of which post. */
  id: string;
  /** `public`, `unlisted` or `private`. */
  visibility?: string | null;
}

export interface IdParams {
  /** Its id. */
  id: string;
}

export interface VoteParams {
  /** In which poll. */
  poll_id: string;
  /** What is chosen, from 0. */
  choices: number[];
}

export interface FollowParams {
  /** Whom. */
  id: string;
  /** With their boosts. */
  reblogs?: boolean | null;
  /** With a notification for each post. */
  notify?: boolean | null;
  /** Only posts in these languages. */
  languages?: string[] | null;
}

export interface MuteParams {
  /** Whom. */
  id: string;
  /** Their notifications too; so unless said otherwise. */
  notifications?: boolean | null;
  /** In s; for good unless said. */
  duration?: number | null;
}

export interface MarkerParams {
  /** `home` or `notifications`. */
  timeline: string;
  /** The newest item read. */
  last_read_id: string;
}

export interface ReadParams {
  /** Which. */
  id: string;
  /** It was not, after all. */
  unread?: boolean | null;
}

export interface ChatSendParams {
  /** To whom: an address. */
  to: string;
  /** Its text. */
  text: string;
}

export interface ChatRoomSendParams {
  /** The room: its address. */
  room: string;
  /** Its text. */
  text: string;
}

export interface ChatContactAddParams {
  /** Its address. */
  jid: string;
  /** What to call it; unless said as before. */
  name?: string | null;
  /** The groups it stands in; unless said as before. */
  groups?: string[] | null;
}

export interface ChatContactParams {
  /** Its address. */
  jid: string;
}

export interface FilterWordParams {
  /** Which; none for a new one. */
  id?: string | null;
  /** The word or phrase. */
  keyword?: string | null;
  /** Whether it counts only as a whole word. */
  whole_word?: boolean | null;
  /** Whether it goes. */
  remove?: boolean | null;
}

export interface FilterParams {
  /** Which; none for a new one. */
  id?: string | null;
  /** What its owner calls it. */
  title?: string | null;
  /** Where it applies: `home`, `notifications`, `public`, `thread`, `account`. */
  context?: string[] | null;
  /** `warn` (unless said), `blur` or `hide`. */
  filter_action?: string | null;
  /** For how long it is to hold from now, in s; 0 for ever. */
  expires_in?: number | null;
  /** Words to add, change or remove. */
  keywords?: FilterWordParams[] | null;
}

export interface FilterStatusParams {
  /** Which filter. */
  id: string;
  /** The post. */
  status_id: string;
}

export interface NewListParams {
  /** Its name. */
  title: string;
  /** Which replies are shown: `followed`, `list` or `none`; `list` unless said. */
  replies_policy?: string | null;
  /** Whether its members' posts are kept out of the home timeline. */
  exclusive?: boolean | null;
}

export interface ListChangeParams {
  /** Which. */
  id: string;
  /** Its name. */
  title?: string | null;
  /** Which replies are shown. */
  replies_policy?: string | null;
  /** Whether its members' posts are kept out of the home timeline. */
  exclusive?: boolean | null;
}

export interface MembersParams {
  /** Which list. */
  id: string;
  /** Who. */
  account_ids: string[];
}

export interface TagNameParams {
  /** Its name, with or without the sign. */
  name: string;
}

/** Documents by collection. */
export interface Collections {
  statuses: StatusDoc;
  status_states: StatusStateDoc;
  timeline_entries: TimelineEntryDoc;
  accounts: AccountDoc;
  users: UserDoc;
  notifications: NotificationDoc;
  conversations: ConversationDoc;
  lists: ListDoc;
  list_members: ListMemberDoc;
  followed_tags: TagDoc;
  follow_requests: FollowRequestDoc;
  bookmarks: MarkDoc;
  favourites: MarkDoc;
  filters: FilterDoc;
  filter_keywords: FilterKeywordDoc;
  filter_statuses: FilterStatusDoc;
  relationships: RelationshipDoc;
  markers: MarkerDoc;
  presence: PresenceDoc;
  chat_contacts: ChatContactDoc;
  chat_messages: ChatMessageDoc;
  chat_rooms: ChatRoomDoc;
  chat_room_messages: ChatRoomMessageDoc;
  chat_room_people: ChatRoomPersonDoc;
  server_stats: StatDoc;
  queue_stats: QueueDoc;
}

/** Publications and their one parameter. */
export interface Publications {
  "users": void;
  "meteor.loginServiceConfiguration": void;
  "meteor_autoupdate_clientVersions": unknown;
  "timelines.home": HomeParams | null;
  "timelines.public": PublicParams | null;
  "timelines.tag": TagParams;
  "timelines.list": ListParams;
  "timelines.account": AccountParams;
  "statuses.thread": ThreadParams;
  "notifications": NotificationsParams | null;
  "conversations": ConversationsParams | null;
  "lists": void;
  "lists.members": ListMembersParams;
  "followRequests": FollowRequestsParams | null;
  "bookmarks": MarkedParams | null;
  "favourites": MarkedParams | null;
  "filters": void;
  "tags.followed": void;
  "markers": void;
  "relationships": RelationshipsParams;
  "presence": RelationshipsParams;
  "chat.contacts": void;
  "chat.messages": ChatMessagesParams;
  "chat.rooms": void;
  "chat.room": ChatRoomParams;
  "server.stats": void;
}

/** Methods: their one parameter and their result. */
export interface Methods {
  "login": (params: LoginParams) => LoginResult;
  "logout": (params: void) => void;
  "echo": (params: unknown) => unknown;
  "statuses.post": (params: PostParams) => IdResult;
  "statuses.edit": (params: EditParams) => IdResult;
  "statuses.delete": (params: DeleteParams) => DeleteResult;
  "statuses.reblog": (params: ReblogParams) => IdResult;
  "statuses.unreblog": (params: IdParams) => IdResult;
  "statuses.favourite": (params: IdParams) => IdResult;
  "statuses.unfavourite": (params: IdParams) => IdResult;
  "statuses.bookmark": (params: IdParams) => IdResult;
  "statuses.unbookmark": (params: IdParams) => IdResult;
  "statuses.mute": (params: IdParams) => IdResult;
  "statuses.unmute": (params: IdParams) => IdResult;
  "statuses.pin": (params: IdParams) => IdResult;
  "statuses.unpin": (params: IdParams) => IdResult;
  "polls.vote": (params: VoteParams) => void;
  "accounts.follow": (params: FollowParams) => IdResult;
  "accounts.unfollow": (params: IdParams) => IdResult;
  "accounts.removeFollower": (params: IdParams) => IdResult;
  "accounts.block": (params: IdParams) => IdResult;
  "accounts.unblock": (params: IdParams) => IdResult;
  "accounts.mute": (params: MuteParams) => IdResult;
  "accounts.unmute": (params: IdParams) => IdResult;
  "followRequests.accept": (params: IdParams) => IdResult;
  "followRequests.reject": (params: IdParams) => IdResult;
  "notifications.dismiss": (params: IdParams) => IdResult;
  "notifications.clear": (params: void) => void;
  "markers.set": (params: MarkerParams) => void;
  "conversations.read": (params: ReadParams) => IdResult;
  "conversations.remove": (params: IdParams) => IdResult;
  "chat.send": (params: ChatSendParams) => IdResult;
  "chat.rooms.send": (params: ChatRoomSendParams) => IdResult;
  "chat.contacts.add": (params: ChatContactAddParams) => void;
  "chat.contacts.remove": (params: ChatContactParams) => void;
  "chat.contacts.approve": (params: ChatContactParams) => void;
  "chat.contacts.refuse": (params: ChatContactParams) => void;
  "filters.set": (params: FilterParams) => IdResult;
  "filters.delete": (params: IdParams) => IdResult;
  "filters.addStatus": (params: FilterStatusParams) => IdResult;
  "filters.removeStatus": (params: IdParams) => IdResult;
  "lists.create": (params: NewListParams) => IdResult;
  "lists.update": (params: ListChangeParams) => IdResult;
  "lists.delete": (params: IdParams) => IdResult;
  "lists.addAccounts": (params: MembersParams) => IdResult;
  "lists.removeAccounts": (params: MembersParams) => IdResult;
  "tags.follow": (params: TagNameParams) => IdResult;
  "tags.unfollow": (params: TagNameParams) => IdResult;
}
