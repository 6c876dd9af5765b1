-- People, here and elsewhere. A local account has the empty domain.
CREATE TABLE accounts (
  id BIGINT NOT NULL PRIMARY KEY,
  username TEXT NOT NULL,
  username_key TEXT NOT NULL,
  domain TEXT NOT NULL DEFAULT '',
  uri TEXT NOT NULL,
  url TEXT NOT NULL,
  kind TEXT NOT NULL DEFAULT 'person',
  display_name TEXT NOT NULL DEFAULT '',
  note TEXT NOT NULL DEFAULT '',
  note_source TEXT NOT NULL DEFAULT '',
  fields TEXT NOT NULL DEFAULT '[]',
  fields_source TEXT NOT NULL DEFAULT '[]',
  avatar TEXT NOT NULL DEFAULT '',
  avatar_description TEXT NOT NULL DEFAULT '',
  header TEXT NOT NULL DEFAULT '',
  header_description TEXT NOT NULL DEFAULT '',
  locked BIGINT NOT NULL DEFAULT 0,
  discoverable BIGINT NOT NULL DEFAULT 0,
  indexable BIGINT NOT NULL DEFAULT 0,
  hide_collections BIGINT NOT NULL DEFAULT 0,
  show_media BIGINT NOT NULL DEFAULT 1,
  show_media_replies BIGINT NOT NULL DEFAULT 1,
  show_featured BIGINT NOT NULL DEFAULT 1,
  attribution_domains TEXT NOT NULL DEFAULT '[]',
  memorial BIGINT NOT NULL DEFAULT 0,
  also_known_as TEXT NOT NULL DEFAULT '[]',
  moved_to_id BIGINT,
  inbox TEXT NOT NULL DEFAULT '',
  shared_inbox TEXT NOT NULL DEFAULT '',
  outbox TEXT NOT NULL DEFAULT '',
  followers_uri TEXT NOT NULL DEFAULT '',
  following_uri TEXT NOT NULL DEFAULT '',
  featured_uri TEXT NOT NULL DEFAULT '',
  created_at BIGINT NOT NULL,
  fetched_at BIGINT NOT NULL DEFAULT 0,
  last_status_at BIGINT,
  statuses_count BIGINT NOT NULL DEFAULT 0,
  followers_count BIGINT NOT NULL DEFAULT 0,
  following_count BIGINT NOT NULL DEFAULT 0,
  suspended_at BIGINT,
  suspended_by_origin BIGINT NOT NULL DEFAULT 0,
  silenced_at BIGINT,
  sensitized_at BIGINT,
  deleted_at BIGINT
);
CREATE UNIQUE INDEX accounts_by_name ON accounts (username_key, domain);
CREATE UNIQUE INDEX accounts_by_uri ON accounts (uri);
CREATE INDEX accounts_by_domain ON accounts (domain, id) WHERE domain <> '';
CREATE INDEX accounts_by_new_home ON accounts (moved_to_id) WHERE moved_to_id IS NOT NULL;

-- When people here moved out, and where to.
CREATE TABLE migrations (
  id BIGINT NOT NULL PRIMARY KEY,
  account_id BIGINT NOT NULL,
  target_id BIGINT NOT NULL,
  followers BIGINT NOT NULL
);
CREATE INDEX migrations_by_account ON migrations (account_id, id);
CREATE INDEX migrations_by_target ON migrations (target_id);

-- Keys by which an account signs. Local accounts have the private part.
CREATE TABLE account_keys (
  key_id TEXT NOT NULL PRIMARY KEY,
  account_id BIGINT NOT NULL,
  algorithm TEXT NOT NULL,
  public_pem TEXT NOT NULL,
  private_pem TEXT,
  fetched_at BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX account_keys_by_account ON account_keys (account_id);

-- What only people who log in here have.
CREATE TABLE users (
  account_id BIGINT NOT NULL PRIMARY KEY,
  email TEXT NOT NULL,
  email_key TEXT NOT NULL,
  unconfirmed_email TEXT,
  password_hash TEXT NOT NULL,
  role TEXT NOT NULL DEFAULT 'user',
  confirmed_at BIGINT,
  approved BIGINT NOT NULL DEFAULT 0,
  disabled BIGINT NOT NULL DEFAULT 0,
  locale TEXT NOT NULL DEFAULT 'en',
  settings TEXT NOT NULL DEFAULT '{}',
  reason TEXT NOT NULL DEFAULT '',
  sign_up_ip TEXT NOT NULL DEFAULT '',
  invite_id BIGINT,
  created_at BIGINT NOT NULL,
  last_sign_in_at BIGINT,
  scram BLOB
);
CREATE UNIQUE INDEX users_by_email ON users (email_key);
CREATE INDEX users_unconfirmed ON users (created_at) WHERE confirmed_at IS NULL;

-- Links sent by mail (confirm an address, reset a password); the token is hashed.
CREATE TABLE mail_tokens (
  token_hash BLOB NOT NULL PRIMARY KEY,
  account_id BIGINT NOT NULL,
  purpose TEXT NOT NULL,
  email TEXT NOT NULL DEFAULT '',
  expires_at BIGINT NOT NULL
);
CREATE INDEX mail_tokens_by_account ON mail_tokens (account_id);
CREATE INDEX mail_tokens_by_expiry ON mail_tokens (expires_at);

-- Tokens by which chat apps come back (XEP-0484): one in use and one that is to take its place;
-- sealed, for both sides reckon with them.
CREATE TABLE chat_tokens (
  account_id BIGINT NOT NULL,
  client BLOB NOT NULL,
  is_new BIGINT NOT NULL,
  mechanism TEXT NOT NULL,
  sealed BLOB NOT NULL,
  created_at BIGINT NOT NULL,
  expires_at BIGINT NOT NULL,
  -- The token of the Mastodon API that it came from; none where the password was given.
  oauth_token_id BIGINT,
  PRIMARY KEY (account_id, client, is_new)
);
CREATE INDEX chat_tokens_by_expiry ON chat_tokens (expires_at);

-- Log-ins in a browser.
CREATE TABLE web_sessions (
  id BIGINT NOT NULL PRIMARY KEY,
  token_hash BLOB NOT NULL,
  account_id BIGINT NOT NULL,
  created_at BIGINT NOT NULL,
  last_used_at BIGINT NOT NULL,
  ip TEXT NOT NULL DEFAULT '',
  user_agent TEXT NOT NULL DEFAULT ''
);
CREATE UNIQUE INDEX web_sessions_by_token ON web_sessions (token_hash);
CREATE INDEX web_sessions_by_account ON web_sessions (account_id);
CREATE INDEX web_sessions_by_use ON web_sessions (last_used_at);

CREATE TABLE invites (
  id BIGINT NOT NULL PRIMARY KEY,
  code TEXT NOT NULL,
  account_id BIGINT NOT NULL,
  uses BIGINT NOT NULL DEFAULT 0,
  uses_max BIGINT,
  expires_at BIGINT,
  autofollow BIGINT NOT NULL DEFAULT 0
);
CREATE UNIQUE INDEX invites_by_code ON invites (code);
CREATE INDEX invites_by_account ON invites (account_id);

CREATE TABLE oauth_apps (
  id BIGINT NOT NULL PRIMARY KEY,
  client_id TEXT NOT NULL,
  client_secret_hash BLOB NOT NULL,
  name TEXT NOT NULL,
  website TEXT,
  redirect_uris TEXT NOT NULL,
  scopes TEXT NOT NULL,
  created_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX oauth_apps_by_client_id ON oauth_apps (client_id);

CREATE TABLE oauth_grants (
  code_hash BLOB NOT NULL PRIMARY KEY,
  app_id BIGINT NOT NULL,
  account_id BIGINT NOT NULL,
  scopes TEXT NOT NULL,
  redirect_uri TEXT NOT NULL,
  challenge TEXT,
  expires_at BIGINT NOT NULL
);
CREATE INDEX oauth_grants_by_expiry ON oauth_grants (expires_at);

CREATE TABLE oauth_tokens (
  id BIGINT NOT NULL PRIMARY KEY,
  token_hash BLOB NOT NULL,
  app_id BIGINT NOT NULL,
  account_id BIGINT,
  scopes TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  last_used_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX oauth_tokens_by_token ON oauth_tokens (token_hash);
CREATE INDEX oauth_tokens_by_account ON oauth_tokens (account_id);
CREATE INDEX oauth_tokens_by_app ON oauth_tokens (app_id);
CREATE INDEX oauth_tokens_of_apps ON oauth_tokens (last_used_at) WHERE account_id IS NULL;

CREATE TABLE push_subscriptions (
  id BIGINT NOT NULL PRIMARY KEY,
  token_id BIGINT NOT NULL,
  account_id BIGINT NOT NULL,
  endpoint TEXT NOT NULL,
  p256dh BLOB NOT NULL,
  auth BLOB NOT NULL,
  alerts TEXT NOT NULL,
  policy TEXT NOT NULL,
  standard BIGINT NOT NULL DEFAULT 0
);
CREATE UNIQUE INDEX push_subscriptions_by_token ON push_subscriptions (token_id);
CREATE INDEX push_subscriptions_by_account ON push_subscriptions (account_id);

-- Posts. A boost is a status with boost_of_id. visibility: 0 public, 1 unlisted, 2 private, 3 direct.
CREATE TABLE statuses (
  id BIGINT NOT NULL PRIMARY KEY,
  account_id BIGINT NOT NULL,
  local BIGINT NOT NULL DEFAULT 0,
  uri TEXT NOT NULL,
  url TEXT NOT NULL DEFAULT '',
  created_at BIGINT NOT NULL,
  edited_at BIGINT,
  visibility BIGINT NOT NULL,
  content TEXT NOT NULL DEFAULT '',
  source TEXT NOT NULL DEFAULT '',
  spoiler TEXT NOT NULL DEFAULT '',
  sensitive BIGINT NOT NULL DEFAULT 0,
  language TEXT,
  in_reply_to_id BIGINT,
  in_reply_to_account_id BIGINT,
  in_reply_to_uri TEXT,
  boost_of_id BIGINT,
  conversation_id BIGINT NOT NULL DEFAULT 0,
  poll_id BIGINT,
  card_id BIGINT,
  app_id BIGINT,
  media_ids TEXT NOT NULL DEFAULT '[]',
  version_ms BIGINT NOT NULL DEFAULT 0,
  version_seq BIGINT NOT NULL DEFAULT 0,
  replies_count BIGINT NOT NULL DEFAULT 0,
  boosts_count BIGINT NOT NULL DEFAULT 0,
  favourites_count BIGINT NOT NULL DEFAULT 0
);
CREATE UNIQUE INDEX statuses_by_uri ON statuses (uri);
CREATE INDEX statuses_by_account ON statuses (account_id, id);
CREATE INDEX statuses_by_parent ON statuses (in_reply_to_id, id) WHERE in_reply_to_id IS NOT NULL;
CREATE INDEX statuses_by_conversation ON statuses (conversation_id, id);
CREATE INDEX statuses_by_missing_parent ON statuses (in_reply_to_uri)
  WHERE in_reply_to_uri IS NOT NULL AND in_reply_to_id IS NULL;
CREATE UNIQUE INDEX statuses_by_boost ON statuses (boost_of_id, account_id)
  WHERE boost_of_id IS NOT NULL;
CREATE INDEX statuses_by_card ON statuses (card_id, id) WHERE card_id IS NOT NULL;
CREATE INDEX statuses_by_app ON statuses (app_id) WHERE app_id IS NOT NULL;
CREATE INDEX statuses_public ON statuses (id) WHERE visibility = 0 AND boost_of_id IS NULL;
CREATE INDEX statuses_public_local ON statuses (id)
  WHERE visibility = 0 AND boost_of_id IS NULL AND local = 1;

CREATE TABLE status_edits (
  id BIGINT NOT NULL PRIMARY KEY,
  status_id BIGINT NOT NULL,
  created_at BIGINT NOT NULL,
  content TEXT NOT NULL,
  source TEXT NOT NULL DEFAULT '',
  spoiler TEXT NOT NULL,
  sensitive BIGINT NOT NULL,
  media TEXT NOT NULL DEFAULT '[]',
  poll_options TEXT
);
CREATE INDEX status_edits_by_status ON status_edits (status_id, created_at, id);

CREATE TABLE mentions (
  status_id BIGINT NOT NULL,
  account_id BIGINT NOT NULL,
  silent BIGINT NOT NULL DEFAULT 0,
  PRIMARY KEY (status_id, account_id)
) WITHOUT ROWID;
CREATE INDEX mentions_by_account ON mentions (account_id, status_id);

CREATE TABLE tags (
  id BIGINT NOT NULL PRIMARY KEY,
  name TEXT NOT NULL,
  display TEXT NOT NULL,
  last_status_at BIGINT
);
CREATE UNIQUE INDEX tags_by_name ON tags (name);

CREATE TABLE status_tags (
  tag_id BIGINT NOT NULL,
  status_id BIGINT NOT NULL,
  PRIMARY KEY (tag_id, status_id)
) WITHOUT ROWID;
CREATE INDEX status_tags_by_status ON status_tags (status_id);

CREATE TABLE followed_tags (
  account_id BIGINT NOT NULL,
  tag_id BIGINT NOT NULL,
  id BIGINT NOT NULL,
  PRIMARY KEY (account_id, tag_id)
) WITHOUT ROWID;
CREATE INDEX followed_tags_by_tag ON followed_tags (tag_id);

CREATE TABLE featured_tags (
  id BIGINT NOT NULL PRIMARY KEY,
  account_id BIGINT NOT NULL,
  tag_id BIGINT NOT NULL
);
CREATE UNIQUE INDEX featured_tags_by_account ON featured_tags (account_id, tag_id);
CREATE INDEX featured_tags_by_tag ON featured_tags (tag_id);

CREATE TABLE polls (
  id BIGINT NOT NULL PRIMARY KEY,
  status_id BIGINT NOT NULL,
  account_id BIGINT NOT NULL,
  options TEXT NOT NULL,
  tallies TEXT NOT NULL,
  multiple BIGINT NOT NULL DEFAULT 0,
  hide_totals BIGINT NOT NULL DEFAULT 0,
  expires_at BIGINT,
  voters_count BIGINT NOT NULL DEFAULT 0,
  fetched_at BIGINT NOT NULL DEFAULT 0
);
CREATE TABLE poll_votes (
  poll_id BIGINT NOT NULL,
  account_id BIGINT NOT NULL,
  choice BIGINT NOT NULL,
  uri TEXT NOT NULL DEFAULT '',
  PRIMARY KEY (poll_id, account_id, choice)
) WITHOUT ROWID;
CREATE INDEX poll_votes_by_account ON poll_votes (account_id);

-- Attachments; `file` and `thumbnail` name objects of the media store, `remote_url` the origin.
CREATE TABLE media (
  id BIGINT NOT NULL PRIMARY KEY,
  account_id BIGINT NOT NULL,
  status_id BIGINT,
  kind TEXT NOT NULL,
  state TEXT NOT NULL,
  content_type TEXT NOT NULL DEFAULT '',
  file TEXT NOT NULL DEFAULT '',
  thumbnail TEXT NOT NULL DEFAULT '',
  remote_url TEXT NOT NULL DEFAULT '',
  bytes BIGINT NOT NULL DEFAULT 0,
  blurhash TEXT,
  description TEXT,
  meta TEXT NOT NULL DEFAULT '{}',
  created_at BIGINT NOT NULL,
  unattached_at BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX media_by_file ON media (file) WHERE file <> '';
CREATE INDEX media_by_thumbnail ON media (thumbnail) WHERE thumbnail <> '';
CREATE INDEX media_by_status ON media (status_id) WHERE status_id IS NOT NULL;
CREATE INDEX media_unattached ON media (unattached_at) WHERE status_id IS NULL;

CREATE TABLE favourites (
  id BIGINT NOT NULL PRIMARY KEY,
  account_id BIGINT NOT NULL,
  status_id BIGINT NOT NULL
);
CREATE UNIQUE INDEX favourites_by_status ON favourites (status_id, account_id);
CREATE INDEX favourites_by_account ON favourites (account_id, id);

CREATE TABLE bookmarks (
  id BIGINT NOT NULL PRIMARY KEY,
  account_id BIGINT NOT NULL,
  status_id BIGINT NOT NULL
);
CREATE UNIQUE INDEX bookmarks_by_status ON bookmarks (status_id, account_id);
CREATE INDEX bookmarks_by_account ON bookmarks (account_id, id);

CREATE TABLE pins (
  account_id BIGINT NOT NULL,
  status_id BIGINT NOT NULL,
  id BIGINT NOT NULL,
  PRIMARY KEY (account_id, status_id)
) WITHOUT ROWID;

CREATE TABLE conversation_mutes (
  account_id BIGINT NOT NULL,
  conversation_id BIGINT NOT NULL,
  PRIMARY KEY (account_id, conversation_id)
) WITHOUT ROWID;
CREATE INDEX conversation_mutes_by_conversation ON conversation_mutes (conversation_id);

-- Direct messages as each person sees them.
CREATE TABLE conversations (
  id BIGINT NOT NULL PRIMARY KEY,
  account_id BIGINT NOT NULL,
  conversation_id BIGINT NOT NULL,
  participants TEXT NOT NULL,
  last_status_id BIGINT NOT NULL,
  unread BIGINT NOT NULL DEFAULT 1
);
CREATE UNIQUE INDEX conversations_of ON conversations (account_id, conversation_id, participants);
CREATE INDEX conversations_by_last ON conversations (account_id, last_status_id);

-- Who follows whom. boosts, notify and languages are the follower's wishes.
CREATE TABLE follows (
  account_id BIGINT NOT NULL,
  target_id BIGINT NOT NULL,
  id BIGINT NOT NULL,
  uri TEXT NOT NULL DEFAULT '',
  boosts BIGINT NOT NULL DEFAULT 1,
  notify BIGINT NOT NULL DEFAULT 0,
  languages TEXT NOT NULL DEFAULT '[]',
  PRIMARY KEY (account_id, target_id)
) WITHOUT ROWID;
CREATE INDEX follows_by_target ON follows (target_id, id);
CREATE INDEX follows_by_account ON follows (account_id, id);

CREATE TABLE follow_requests (
  account_id BIGINT NOT NULL,
  target_id BIGINT NOT NULL,
  id BIGINT NOT NULL,
  uri TEXT NOT NULL DEFAULT '',
  boosts BIGINT NOT NULL DEFAULT 1,
  notify BIGINT NOT NULL DEFAULT 0,
  languages TEXT NOT NULL DEFAULT '[]',
  PRIMARY KEY (account_id, target_id)
) WITHOUT ROWID;
CREATE INDEX follow_requests_by_target ON follow_requests (target_id, id);

CREATE TABLE blocks (
  account_id BIGINT NOT NULL,
  target_id BIGINT NOT NULL,
  id BIGINT NOT NULL,
  uri TEXT NOT NULL DEFAULT '',
  PRIMARY KEY (account_id, target_id)
) WITHOUT ROWID;
CREATE INDEX blocks_by_target ON blocks (target_id);

CREATE TABLE mutes (
  account_id BIGINT NOT NULL,
  target_id BIGINT NOT NULL,
  id BIGINT NOT NULL,
  notifications BIGINT NOT NULL DEFAULT 1,
  expires_at BIGINT,
  PRIMARY KEY (account_id, target_id)
) WITHOUT ROWID;
CREATE INDEX mutes_by_expiry ON mutes (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX mutes_by_target ON mutes (target_id);

CREATE TABLE account_domain_blocks (
  account_id BIGINT NOT NULL,
  domain TEXT NOT NULL,
  id BIGINT NOT NULL,
  PRIMARY KEY (account_id, domain)
) WITHOUT ROWID;

CREATE TABLE account_notes (
  account_id BIGINT NOT NULL,
  target_id BIGINT NOT NULL,
  comment TEXT NOT NULL,
  PRIMARY KEY (account_id, target_id)
) WITHOUT ROWID;
CREATE INDEX account_notes_by_target ON account_notes (target_id);

CREATE TABLE endorsements (
  account_id BIGINT NOT NULL,
  target_id BIGINT NOT NULL,
  id BIGINT NOT NULL,
  PRIMARY KEY (account_id, target_id)
) WITHOUT ROWID;
CREATE INDEX endorsements_by_target ON endorsements (target_id);

CREATE TABLE dismissed_suggestions (
  account_id BIGINT NOT NULL,
  target_id BIGINT NOT NULL,
  PRIMARY KEY (account_id, target_id)
) WITHOUT ROWID;

CREATE TABLE lists (
  id BIGINT NOT NULL PRIMARY KEY,
  account_id BIGINT NOT NULL,
  title TEXT NOT NULL,
  replies_policy TEXT NOT NULL DEFAULT 'list',
  exclusive BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX lists_by_account ON lists (account_id, id);
CREATE TABLE list_accounts (
  list_id BIGINT NOT NULL,
  account_id BIGINT NOT NULL,
  id BIGINT NOT NULL,
  PRIMARY KEY (list_id, account_id)
) WITHOUT ROWID;
CREATE INDEX list_accounts_by_account ON list_accounts (account_id);

-- status_id and subject_id (a report, a warning, follows that ended, by kind) are 0 where there is
-- none, so that one index makes them unique.
CREATE TABLE notifications (
  id BIGINT NOT NULL PRIMARY KEY,
  account_id BIGINT NOT NULL,
  kind TEXT NOT NULL,
  from_account_id BIGINT NOT NULL,
  status_id BIGINT NOT NULL DEFAULT 0,
  subject_id BIGINT NOT NULL DEFAULT 0,
  group_key TEXT NOT NULL,
  filtered BIGINT NOT NULL DEFAULT 0
);
CREATE UNIQUE INDEX notifications_once
  ON notifications (account_id, kind, from_account_id, status_id, subject_id);
CREATE INDEX notifications_by_account ON notifications (account_id, id);
CREATE INDEX notifications_by_status ON notifications (status_id) WHERE status_id <> 0;
CREATE INDEX notifications_by_sender ON notifications (account_id, from_account_id);
CREATE INDEX notifications_from ON notifications (from_account_id);

CREATE TABLE notification_policies (
  account_id BIGINT NOT NULL PRIMARY KEY,
  policy TEXT NOT NULL
);
CREATE TABLE notification_permissions (
  account_id BIGINT NOT NULL,
  from_account_id BIGINT NOT NULL,
  PRIMARY KEY (account_id, from_account_id)
) WITHOUT ROWID;
CREATE INDEX notification_permissions_by_sender ON notification_permissions (from_account_id);
CREATE TABLE notification_requests (
  id BIGINT NOT NULL PRIMARY KEY,
  account_id BIGINT NOT NULL,
  from_account_id BIGINT NOT NULL,
  last_status_id BIGINT,
  updated_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX notification_requests_of
  ON notification_requests (account_id, from_account_id);

CREATE TABLE filters (
  id BIGINT NOT NULL PRIMARY KEY,
  account_id BIGINT NOT NULL,
  title TEXT NOT NULL,
  contexts TEXT NOT NULL,
  action TEXT NOT NULL,
  expires_at BIGINT
);
CREATE INDEX filters_by_account ON filters (account_id, id);
CREATE TABLE filter_keywords (
  id BIGINT NOT NULL PRIMARY KEY,
  filter_id BIGINT NOT NULL,
  keyword TEXT NOT NULL,
  whole_word BIGINT NOT NULL DEFAULT 1
);
CREATE INDEX filter_keywords_by_filter ON filter_keywords (filter_id, id);
CREATE TABLE filter_statuses (
  id BIGINT NOT NULL PRIMARY KEY,
  filter_id BIGINT NOT NULL,
  status_id BIGINT NOT NULL
);
CREATE UNIQUE INDEX filter_statuses_by_filter ON filter_statuses (filter_id, status_id);
CREATE INDEX filter_statuses_by_status ON filter_statuses (status_id);

CREATE TABLE markers (
  account_id BIGINT NOT NULL,
  timeline TEXT NOT NULL,
  last_read_id BIGINT NOT NULL,
  version BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  PRIMARY KEY (account_id, timeline)
) WITHOUT ROWID;

CREATE TABLE scheduled_statuses (
  id BIGINT NOT NULL PRIMARY KEY,
  account_id BIGINT NOT NULL,
  scheduled_at BIGINT NOT NULL,
  in_reply_to_id BIGINT,
  draft TEXT NOT NULL,
  job_id BIGINT NOT NULL
);
CREATE INDEX scheduled_statuses_by_account ON scheduled_statuses (account_id, id);
CREATE INDEX scheduled_statuses_by_parent ON scheduled_statuses (in_reply_to_id)
  WHERE in_reply_to_id IS NOT NULL;

CREATE TABLE idempotency_keys (
  account_id BIGINT NOT NULL,
  idempotency_key TEXT NOT NULL,
  status_id BIGINT NOT NULL,
  created_at BIGINT NOT NULL,
  PRIMARY KEY (account_id, idempotency_key)
) WITHOUT ROWID;
CREATE INDEX idempotency_keys_by_age ON idempotency_keys (created_at);

CREATE TABLE cards (
  id BIGINT NOT NULL PRIMARY KEY,
  url TEXT NOT NULL,
  card TEXT NOT NULL,
  image TEXT NOT NULL DEFAULT '',
  remote_image TEXT NOT NULL DEFAULT '',
  fetched_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX cards_by_url ON cards (url);

CREATE TABLE custom_emojis (
  id BIGINT NOT NULL PRIMARY KEY,
  shortcode TEXT NOT NULL,
  domain TEXT NOT NULL DEFAULT '',
  uri TEXT NOT NULL DEFAULT '',
  image TEXT NOT NULL DEFAULT '',
  static_image TEXT NOT NULL DEFAULT '',
  remote_url TEXT NOT NULL DEFAULT '',
  category TEXT,
  listed BIGINT NOT NULL DEFAULT 1,
  disabled BIGINT NOT NULL DEFAULT 0,
  updated_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX custom_emojis_by_code ON custom_emojis (domain, shortcode);

CREATE TABLE reports (
  id BIGINT NOT NULL PRIMARY KEY,
  account_id BIGINT NOT NULL,
  target_id BIGINT NOT NULL,
  uri TEXT NOT NULL DEFAULT '',
  status_ids TEXT NOT NULL DEFAULT '[]',
  rule_ids TEXT NOT NULL DEFAULT '[]',
  comment TEXT NOT NULL DEFAULT '',
  category TEXT NOT NULL DEFAULT 'other',
  forwarded BIGINT NOT NULL DEFAULT 0,
  action_taken_at BIGINT,
  action_taken_by_id BIGINT
);
CREATE INDEX reports_open ON reports (id) WHERE action_taken_at IS NULL;
CREATE INDEX reports_by_account ON reports (account_id);
CREATE INDEX reports_by_target ON reports (target_id);

-- What staff told people about their accounts.
CREATE TABLE account_warnings (
  id BIGINT NOT NULL PRIMARY KEY,
  account_id BIGINT NOT NULL,
  by_id BIGINT NOT NULL,
  action TEXT NOT NULL,
  content TEXT NOT NULL,
  status_ids TEXT NOT NULL DEFAULT '[]'
);
CREATE INDEX account_warnings_by_account ON account_warnings (account_id);
-- Follows that ended at one event, counted for each person who had them.
CREATE TABLE severances (
  id BIGINT NOT NULL PRIMARY KEY,
  account_id BIGINT NOT NULL,
  kind TEXT NOT NULL,
  target TEXT NOT NULL,
  caused_at BIGINT NOT NULL,
  followers_count BIGINT NOT NULL,
  following_count BIGINT NOT NULL
);
CREATE UNIQUE INDEX severances_once ON severances (account_id, kind, target, caused_at);

CREATE TABLE announcements (
  id BIGINT NOT NULL PRIMARY KEY,
  content TEXT NOT NULL,
  starts_at BIGINT,
  ends_at BIGINT,
  all_day BIGINT NOT NULL DEFAULT 0,
  published_at BIGINT,
  updated_at BIGINT NOT NULL
);
CREATE TABLE announcement_reads (
  account_id BIGINT NOT NULL,
  announcement_id BIGINT NOT NULL,
  PRIMARY KEY (account_id, announcement_id)
) WITHOUT ROWID;
CREATE TABLE announcement_reactions (
  announcement_id BIGINT NOT NULL,
  name TEXT NOT NULL,
  account_id BIGINT NOT NULL,
  PRIMARY KEY (announcement_id, name, account_id)
) WITHOUT ROWID;

-- What staff decides about other servers, mail domains and networks.
CREATE TABLE domain_blocks (
  id BIGINT NOT NULL PRIMARY KEY,
  domain TEXT NOT NULL,
  severity TEXT NOT NULL,
  reject_media BIGINT NOT NULL DEFAULT 0,
  reject_reports BIGINT NOT NULL DEFAULT 0,
  private_comment TEXT NOT NULL DEFAULT '',
  public_comment TEXT NOT NULL DEFAULT '',
  obfuscate BIGINT NOT NULL DEFAULT 0
);
CREATE UNIQUE INDEX domain_blocks_by_domain ON domain_blocks (domain);
CREATE TABLE domain_allows (
  id BIGINT NOT NULL PRIMARY KEY,
  domain TEXT NOT NULL
);
CREATE UNIQUE INDEX domain_allows_by_domain ON domain_allows (domain);
CREATE TABLE email_domain_blocks (
  id BIGINT NOT NULL PRIMARY KEY,
  domain TEXT NOT NULL
);
CREATE UNIQUE INDEX email_domain_blocks_by_domain ON email_domain_blocks (domain);
CREATE TABLE ip_blocks (
  id BIGINT NOT NULL PRIMARY KEY,
  network TEXT NOT NULL,
  severity TEXT NOT NULL,
  comment TEXT NOT NULL DEFAULT '',
  expires_at BIGINT
);
CREATE UNIQUE INDEX ip_blocks_by_network ON ip_blocks (network);

-- What people with a role change while the server runs: title, description, limits.
CREATE TABLE settings (
  name TEXT NOT NULL PRIMARY KEY,
  content TEXT NOT NULL
);
CREATE TABLE rules (
  id BIGINT NOT NULL PRIMARY KEY,
  position BIGINT NOT NULL,
  content TEXT NOT NULL,
  hint TEXT NOT NULL DEFAULT ''
);

-- Other servers as we know them.
CREATE TABLE hosts (
  domain TEXT NOT NULL PRIMARY KEY,
  software TEXT NOT NULL DEFAULT '',
  signature_form TEXT NOT NULL DEFAULT '',
  first_seen_at BIGINT NOT NULL,
  delivered_at BIGINT,
  failed_at BIGINT,
  failing_since BIGINT,
  failure TEXT NOT NULL DEFAULT '',
  -- While deliveries wait for it to answer again: failures in a row, and when it is asked next.
  failures BIGINT NOT NULL DEFAULT 0,
  next_try_at BIGINT,
  -- Whether older deliveries wait, which follow step by step.
  behind BIGINT NOT NULL DEFAULT 0
);

-- The order of what comes in: what each actor did to each object, as the events from which is told
-- what holds, and what was deleted for good.
CREATE TABLE versions (
  actor TEXT NOT NULL,
  object TEXT NOT NULL,
  relation TEXT NOT NULL,
  version_ms BIGINT NOT NULL,
  version_seq BIGINT NOT NULL,
  events TEXT NOT NULL DEFAULT '[]',
  activity TEXT NOT NULL DEFAULT '',
  PRIMARY KEY (actor, object, relation)
) WITHOUT ROWID;
CREATE INDEX versions_by_age ON versions (version_seq) WHERE relation <> 'profile';
CREATE INDEX versions_by_object ON versions (object, relation);
CREATE INDEX versions_by_activity ON versions (activity) WHERE activity <> '';
CREATE TABLE tombstones (
  uri TEXT NOT NULL PRIMARY KEY,
  host TEXT NOT NULL,
  deleted_at BIGINT NOT NULL,
  conversation_id BIGINT
);
CREATE INDEX tombstones_by_host ON tombstones (host, deleted_at);
CREATE INDEX tombstones_by_age ON tombstones (deleted_at);
CREATE INDEX tombstones_by_conversation ON tombstones (conversation_id)
  WHERE conversation_id IS NOT NULL;

-- Where units that would miss each other's work on PostgreSQL meet.
CREATE TABLE meetings (
  slot BIGINT NOT NULL PRIMARY KEY,
  times BIGINT NOT NULL
);

-- Bodies of outgoing deliveries, stored once for all inboxes.
CREATE TABLE payloads (
  id BIGINT NOT NULL PRIMARY KEY,
  account_id BIGINT NOT NULL,
  -- What it is about: what one account says about one thing goes to an inbox in order of id.
  subject BIGINT NOT NULL,
  body TEXT NOT NULL,
  -- Whether it is another server's message that is only passed on.
  passed_on BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX payloads_by_subject ON payloads (account_id, subject, id);
-- Inboxes that wait for them, host by host in order of age.
CREATE TABLE deliveries (
  host TEXT NOT NULL,
  payload_id BIGINT NOT NULL,
  inbox TEXT NOT NULL,
  domain TEXT NOT NULL,
  tries BIGINT NOT NULL DEFAULT 0,
  next_at BIGINT NOT NULL DEFAULT 0,
  reason TEXT NOT NULL DEFAULT '',
  PRIMARY KEY (host, payload_id, inbox)
) WITHOUT ROWID;
CREATE INDEX deliveries_by_payload ON deliveries (payload_id);
-- To whom each message about a post went, for a while: what neither waits nor failed has arrived.
CREATE TABLE shipments (
  id BIGINT NOT NULL PRIMARY KEY,
  status_id BIGINT NOT NULL,
  inboxes_count BIGINT NOT NULL,
  hosts_count BIGINT NOT NULL,
  hosts TEXT NOT NULL,
  spared TEXT NOT NULL DEFAULT ''
);
CREATE INDEX shipments_by_status ON shipments (status_id, id);
-- Inboxes that such a message never reached.
CREATE TABLE undelivered (
  payload_id BIGINT NOT NULL,
  host TEXT NOT NULL,
  inbox TEXT NOT NULL,
  failed_at BIGINT NOT NULL,
  reason TEXT NOT NULL,
  PRIMARY KEY (payload_id, host, inbox)
) WITHOUT ROWID;

-- What is removed in time: how far each kind of it is, and what its runs did.
CREATE TABLE chores (
  name TEXT NOT NULL PRIMARY KEY,
  -- The run that goes on (no end yet), or the last one; no beginning: it is due at once.
  began_at BIGINT,
  ended_at BIGINT,
  place TEXT NOT NULL DEFAULT '',
  looked_at BIGINT NOT NULL DEFAULT 0,
  removed BIGINT NOT NULL DEFAULT 0,
  bytes BIGINT NOT NULL DEFAULT 0,
  -- Of all runs.
  removed_ever BIGINT NOT NULL DEFAULT 0,
  bytes_ever BIGINT NOT NULL DEFAULT 0
);

-- What posts and people are found by: words and facts, made alike for both databases.
-- only: sqlite
CREATE VIRTUAL TABLE status_texts USING fts5 (body, facts, tokenize = 'ascii', content = '', contentless_delete = 1);
CREATE VIRTUAL TABLE account_texts USING fts5 (body, tokenize = 'ascii', content = '', contentless_delete = 1, prefix = '2 3');
-- end
-- only: postgres
CREATE TABLE status_texts (
  rowid BIGINT NOT NULL PRIMARY KEY,
  body TSVECTOR NOT NULL,
  facts TSVECTOR NOT NULL
);
CREATE INDEX status_texts_body ON status_texts USING gin (body);
CREATE INDEX status_texts_facts ON status_texts USING gin (facts);
CREATE TABLE account_texts (
  rowid BIGINT NOT NULL PRIMARY KEY,
  body TSVECTOR NOT NULL
);
CREATE INDEX account_texts_body ON account_texts USING gin (body);
-- end
