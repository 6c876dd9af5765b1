CREATE TABLE account_domain_blocks (
  account_id BIGINT NOT NULL,
  domain TEXT NOT NULL,
  id BIGINT NOT NULL,
  PRIMARY KEY (account_id, domain)
) WITHOUT ROWID;
CREATE TABLE account_keys (
  key_id TEXT NOT NULL PRIMARY KEY,
  account_id BIGINT NOT NULL,
  algorithm TEXT NOT NULL,
  public_pem TEXT NOT NULL,
  private_pem TEXT,
  fetched_at BIGINT NOT NULL DEFAULT 0
);
CREATE TABLE account_notes (
  account_id BIGINT NOT NULL,
  target_id BIGINT NOT NULL,
  comment TEXT NOT NULL,
  PRIMARY KEY (account_id, target_id)
) WITHOUT ROWID;
CREATE VIRTUAL TABLE account_texts USING fts5 (body, tokenize = 'ascii', content = '', contentless_delete = 1, prefix = '2 3');
CREATE TABLE 'account_texts_config'(k PRIMARY KEY, v) WITHOUT ROWID;
CREATE TABLE 'account_texts_data'(id INTEGER PRIMARY KEY, block BLOB);
CREATE TABLE 'account_texts_docsize'(id INTEGER PRIMARY KEY, sz BLOB, origin INTEGER);
CREATE TABLE 'account_texts_idx'(segid, term, pgno, PRIMARY KEY(segid, term)) WITHOUT ROWID;
CREATE TABLE account_warnings (
  id INTEGER NOT NULL PRIMARY KEY,
  account_id BIGINT NOT NULL,
  by_id BIGINT NOT NULL,
  action TEXT NOT NULL,
  content TEXT NOT NULL,
  status_ids TEXT NOT NULL DEFAULT '[]'
);
CREATE TABLE accounts (
  id INTEGER NOT NULL PRIMARY KEY,
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
CREATE TABLE announcement_reactions (
  announcement_id BIGINT NOT NULL,
  name TEXT NOT NULL,
  account_id BIGINT NOT NULL,
  PRIMARY KEY (announcement_id, name, account_id)
) WITHOUT ROWID;
CREATE TABLE announcement_reads (
  account_id BIGINT NOT NULL,
  announcement_id BIGINT NOT NULL,
  PRIMARY KEY (account_id, announcement_id)
) WITHOUT ROWID;
CREATE TABLE announcements (
  id INTEGER NOT NULL PRIMARY KEY,
  content TEXT NOT NULL,
  starts_at BIGINT,
  ends_at BIGINT,
  all_day BIGINT NOT NULL DEFAULT 0,
  published_at BIGINT,
  updated_at BIGINT NOT NULL
);
CREATE TABLE blocks (
  account_id BIGINT NOT NULL,
  target_id BIGINT NOT NULL,
  id BIGINT NOT NULL,
  uri TEXT NOT NULL DEFAULT '',
  PRIMARY KEY (account_id, target_id)
) WITHOUT ROWID;
CREATE TABLE bookmarks (
  id INTEGER NOT NULL PRIMARY KEY,
  account_id BIGINT NOT NULL,
  status_id BIGINT NOT NULL
);
CREATE TABLE cards (
  id INTEGER NOT NULL PRIMARY KEY,
  url TEXT NOT NULL,
  card TEXT NOT NULL,
  image TEXT NOT NULL DEFAULT '',
  remote_image TEXT NOT NULL DEFAULT '',
  fetched_at BIGINT NOT NULL
);
CREATE TABLE chat_affiliations (
  room_id BIGINT NOT NULL,
  jid TEXT NOT NULL,
  affiliation TEXT NOT NULL,
  nick TEXT NOT NULL DEFAULT '',
  reason TEXT NOT NULL DEFAULT '',
  PRIMARY KEY (room_id, jid)
) WITHOUT ROWID;
CREATE TABLE chat_blocks (
  account_id BIGINT NOT NULL,
  jid TEXT NOT NULL,
  PRIMARY KEY (account_id, jid)
) WITHOUT ROWID;
CREATE TABLE chat_contacts (
  account_id BIGINT NOT NULL,
  jid TEXT NOT NULL,
  name TEXT NOT NULL DEFAULT '',
  group_names TEXT NOT NULL DEFAULT '[]',
  state BIGINT NOT NULL,
  request TEXT NOT NULL DEFAULT '',
  PRIMARY KEY (account_id, jid)
) WITHOUT ROWID;
CREATE TABLE chat_items (
  node_id BIGINT NOT NULL,
  name TEXT NOT NULL,
  id BIGINT NOT NULL,
  publisher TEXT NOT NULL,
  xml TEXT NOT NULL,
  PRIMARY KEY (node_id, name)
);
CREATE TABLE chat_messages (
  id INTEGER NOT NULL PRIMARY KEY,
  from_id BIGINT NOT NULL,
  to_id BIGINT NOT NULL,
  pair BIGINT NOT NULL,
  from_jid TEXT NOT NULL,
  to_jid TEXT NOT NULL,
  xml TEXT NOT NULL
);
CREATE TABLE chat_node_affiliations (
  node_id BIGINT NOT NULL,
  jid TEXT NOT NULL,
  affiliation TEXT NOT NULL,
  PRIMARY KEY (node_id, jid)
) WITHOUT ROWID;
CREATE TABLE chat_node_subscriptions (
  node_id BIGINT NOT NULL,
  jid TEXT NOT NULL,
  state TEXT NOT NULL,
  PRIMARY KEY (node_id, jid)
) WITHOUT ROWID;
CREATE TABLE chat_nodes (
  id INTEGER NOT NULL PRIMARY KEY,
  owner_id BIGINT NOT NULL,
  name TEXT NOT NULL,
  config TEXT NOT NULL,
  bytes BIGINT NOT NULL DEFAULT 0
);
CREATE TABLE chat_offline (
  account_id BIGINT NOT NULL,
  message_id BIGINT NOT NULL,
  PRIMARY KEY (account_id, message_id)
) WITHOUT ROWID;
CREATE TABLE chat_private (
  account_id BIGINT NOT NULL,
  name TEXT NOT NULL,
  xml TEXT NOT NULL,
  PRIMARY KEY (account_id, name)
) WITHOUT ROWID;
CREATE TABLE chat_push (
  account_id BIGINT NOT NULL,
  service TEXT NOT NULL,
  node TEXT NOT NULL,
  options TEXT NOT NULL,
  PRIMARY KEY (account_id, service, node)
) WITHOUT ROWID;
CREATE TABLE chat_room_messages (
  room_id BIGINT NOT NULL,
  id BIGINT NOT NULL,
  from_jid TEXT NOT NULL,
  xml TEXT NOT NULL,
  PRIMARY KEY (room_id, id)
) WITHOUT ROWID;
CREATE TABLE chat_rooms (
  id INTEGER NOT NULL PRIMARY KEY,
  name TEXT NOT NULL,
  config TEXT NOT NULL,
  is_public BIGINT NOT NULL,
  of_community BIGINT NOT NULL DEFAULT 0,
  subject TEXT NOT NULL DEFAULT '',
  subject_by TEXT NOT NULL DEFAULT '',
  subject_at BIGINT NOT NULL DEFAULT 0,
  card TEXT NOT NULL DEFAULT ''
);
CREATE TABLE chat_settings (
  account_id INTEGER NOT NULL PRIMARY KEY,
  contacts_version BIGINT NOT NULL DEFAULT 0,
  archive TEXT,
  mutuals BIGINT NOT NULL DEFAULT 0
);
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
CREATE TABLE chat_uploads (
  id INTEGER NOT NULL PRIMARY KEY,
  account_id BIGINT NOT NULL,
  key TEXT NOT NULL,
  name TEXT NOT NULL,
  bytes BIGINT NOT NULL,
  content_type TEXT NOT NULL,
  file TEXT NOT NULL,
  created_at BIGINT NOT NULL
);
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
CREATE TABLE conversation_mutes (
  account_id BIGINT NOT NULL,
  conversation_id BIGINT NOT NULL,
  PRIMARY KEY (account_id, conversation_id)
) WITHOUT ROWID;
CREATE TABLE conversations (
  id INTEGER NOT NULL PRIMARY KEY,
  account_id BIGINT NOT NULL,
  conversation_id BIGINT NOT NULL,
  participants TEXT NOT NULL,
  last_status_id BIGINT NOT NULL,
  unread BIGINT NOT NULL DEFAULT 1
);
CREATE TABLE custom_emojis (
  id INTEGER NOT NULL PRIMARY KEY,
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
CREATE TABLE dismissed_suggestions (
  account_id BIGINT NOT NULL,
  target_id BIGINT NOT NULL,
  PRIMARY KEY (account_id, target_id)
) WITHOUT ROWID;
CREATE TABLE domain_allows (
  id INTEGER NOT NULL PRIMARY KEY,
  domain TEXT NOT NULL
);
CREATE TABLE domain_blocks (
  id INTEGER NOT NULL PRIMARY KEY,
  domain TEXT NOT NULL,
  severity TEXT NOT NULL,
  reject_media BIGINT NOT NULL DEFAULT 0,
  reject_reports BIGINT NOT NULL DEFAULT 0,
  private_comment TEXT NOT NULL DEFAULT '',
  public_comment TEXT NOT NULL DEFAULT '',
  obfuscate BIGINT NOT NULL DEFAULT 0
);
CREATE TABLE email_domain_blocks (
  id INTEGER NOT NULL PRIMARY KEY,
  domain TEXT NOT NULL
);
CREATE TABLE endorsements (
  account_id BIGINT NOT NULL,
  target_id BIGINT NOT NULL,
  id BIGINT NOT NULL,
  PRIMARY KEY (account_id, target_id)
) WITHOUT ROWID;
CREATE TABLE favourites (
  id INTEGER NOT NULL PRIMARY KEY,
  account_id BIGINT NOT NULL,
  status_id BIGINT NOT NULL
);
CREATE TABLE featured_tags (
  id INTEGER NOT NULL PRIMARY KEY,
  account_id BIGINT NOT NULL,
  tag_id BIGINT NOT NULL
);
CREATE TABLE filter_keywords (
  id INTEGER NOT NULL PRIMARY KEY,
  filter_id BIGINT NOT NULL,
  keyword TEXT NOT NULL,
  whole_word BIGINT NOT NULL DEFAULT 1
);
CREATE TABLE filter_statuses (
  id INTEGER NOT NULL PRIMARY KEY,
  filter_id BIGINT NOT NULL,
  status_id BIGINT NOT NULL
);
CREATE TABLE filters (
  id INTEGER NOT NULL PRIMARY KEY,
  account_id BIGINT NOT NULL,
  title TEXT NOT NULL,
  contexts TEXT NOT NULL,
  action TEXT NOT NULL,
  expires_at BIGINT
);
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
CREATE TABLE followed_tags (
  account_id BIGINT NOT NULL,
  tag_id BIGINT NOT NULL,
  id BIGINT NOT NULL,
  PRIMARY KEY (account_id, tag_id)
) WITHOUT ROWID;
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
CREATE TABLE idempotency_keys (
  account_id BIGINT NOT NULL,
  idempotency_key TEXT NOT NULL,
  status_id BIGINT NOT NULL,
  created_at BIGINT NOT NULL,
  PRIMARY KEY (account_id, idempotency_key)
) WITHOUT ROWID;
CREATE TABLE invites (
  id INTEGER NOT NULL PRIMARY KEY,
  code TEXT NOT NULL,
  account_id BIGINT NOT NULL,
  uses BIGINT NOT NULL DEFAULT 0,
  uses_max BIGINT,
  expires_at BIGINT,
  autofollow BIGINT NOT NULL DEFAULT 0
);
CREATE TABLE ip_blocks (
  id INTEGER NOT NULL PRIMARY KEY,
  network TEXT NOT NULL,
  severity TEXT NOT NULL,
  comment TEXT NOT NULL DEFAULT '',
  expires_at BIGINT
);
CREATE TABLE jobs (
  id INTEGER PRIMARY KEY,
  queue TEXT NOT NULL,
  lane TEXT NOT NULL,
  kind TEXT NOT NULL,
  failures BIGINT NOT NULL,
  enqueued_at BIGINT NOT NULL,
  unique_key TEXT,
  payload TEXT NOT NULL,
  batch_id BIGINT,
  expires_at BIGINT
, postponed_since BIGINT);
CREATE TABLE jobs_batches (
  id INTEGER NOT NULL PRIMARY KEY,
  parent_id BIGINT,
  label TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  total BIGINT NOT NULL,
  done BIGINT NOT NULL,
  failed BIGINT NOT NULL,
  complete_at BIGINT,
  success_at BIGINT,
  death_at BIGINT,
  on_complete BIGINT,
  on_success BIGINT,
  on_death BIGINT
);
CREATE TABLE jobs_cancels (
  id INTEGER NOT NULL PRIMARY KEY,
  asked_at BIGINT NOT NULL
);
CREATE TABLE jobs_cursors (
  id INTEGER NOT NULL PRIMARY KEY,
  cursor TEXT NOT NULL,
  saved_at BIGINT NOT NULL
);
CREATE TABLE jobs_dead (
  id INTEGER NOT NULL PRIMARY KEY,
  died_at BIGINT NOT NULL,
  queue TEXT NOT NULL,
  lane TEXT NOT NULL,
  kind TEXT NOT NULL,
  failures BIGINT NOT NULL,
  enqueued_at BIGINT NOT NULL,
  payload TEXT NOT NULL,
  reason TEXT NOT NULL,
  batch_id BIGINT
, unique_key TEXT);
CREATE TABLE jobs_history (
  minute BIGINT NOT NULL,
  kind TEXT NOT NULL,
  queue TEXT NOT NULL,
  done BIGINT NOT NULL,
  failed BIGINT NOT NULL,
  PRIMARY KEY (minute, kind)
) WITHOUT ROWID;
CREATE TABLE jobs_later (
  state BIGINT NOT NULL,
  due_at BIGINT NOT NULL,
  id BIGINT NOT NULL,
  queue TEXT NOT NULL,
  lane TEXT NOT NULL,
  kind TEXT NOT NULL,
  failures BIGINT NOT NULL,
  enqueued_at BIGINT NOT NULL,
  unique_key TEXT,
  payload TEXT NOT NULL,
  reason TEXT,
  batch_id BIGINT,
  expires_at BIGINT,
  postponed_since BIGINT,
  PRIMARY KEY (state, due_at, id)
) WITHOUT ROWID;
CREATE TABLE jobs_leases (
  name TEXT NOT NULL PRIMARY KEY,
  node BIGINT NOT NULL
) WITHOUT ROWID;
CREATE TABLE jobs_members (
  id INTEGER NOT NULL PRIMARY KEY,
  batch_id BIGINT NOT NULL,
  has_failed BIGINT NOT NULL
);
CREATE TABLE jobs_nodes (
  node INTEGER NOT NULL PRIMARY KEY,
  beat BIGINT NOT NULL,
  place TEXT NOT NULL,
  view TEXT NOT NULL
);
CREATE TABLE jobs_periodic (
  name TEXT NOT NULL PRIMARY KEY,
  plan TEXT NOT NULL,
  next_at BIGINT NOT NULL,
  last_at BIGINT,
  paused BIGINT NOT NULL
) WITHOUT ROWID;
CREATE TABLE jobs_queues (
  queue TEXT NOT NULL PRIMARY KEY,
  paused BIGINT NOT NULL,
  running_max BIGINT
) WITHOUT ROWID;
CREATE TABLE jobs_seen (
  jid TEXT NOT NULL PRIMARY KEY,
  seen_at BIGINT NOT NULL
) WITHOUT ROWID;
CREATE TABLE jobs_suspects (
  id INTEGER NOT NULL PRIMARY KEY,
  deaths BIGINT NOT NULL
);
CREATE TABLE jobs_unique (
  unique_key TEXT NOT NULL PRIMARY KEY,
  id BIGINT NOT NULL,
  until_at BIGINT
) WITHOUT ROWID;
CREATE TABLE list_accounts (
  list_id BIGINT NOT NULL,
  account_id BIGINT NOT NULL,
  id BIGINT NOT NULL,
  PRIMARY KEY (list_id, account_id)
) WITHOUT ROWID;
CREATE TABLE lists (
  id INTEGER NOT NULL PRIMARY KEY,
  account_id BIGINT NOT NULL,
  title TEXT NOT NULL,
  replies_policy TEXT NOT NULL DEFAULT 'list',
  exclusive BIGINT NOT NULL DEFAULT 0
);
CREATE TABLE mail_tokens (
  token_hash BLOB NOT NULL PRIMARY KEY,
  account_id BIGINT NOT NULL,
  purpose TEXT NOT NULL,
  email TEXT NOT NULL DEFAULT '',
  expires_at BIGINT NOT NULL
);
CREATE TABLE markers (
  account_id BIGINT NOT NULL,
  timeline TEXT NOT NULL,
  last_read_id BIGINT NOT NULL,
  version BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  PRIMARY KEY (account_id, timeline)
) WITHOUT ROWID;
CREATE TABLE media (
  id INTEGER NOT NULL PRIMARY KEY,
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
CREATE TABLE meetings (
  slot INTEGER NOT NULL PRIMARY KEY,
  times BIGINT NOT NULL
);
CREATE TABLE mentions (
  status_id BIGINT NOT NULL,
  account_id BIGINT NOT NULL,
  silent BIGINT NOT NULL DEFAULT 0,
  PRIMARY KEY (status_id, account_id)
) WITHOUT ROWID;
CREATE TABLE migrations (
  id INTEGER NOT NULL PRIMARY KEY,
  account_id BIGINT NOT NULL,
  target_id BIGINT NOT NULL,
  followers BIGINT NOT NULL
);
CREATE TABLE mutes (
  account_id BIGINT NOT NULL,
  target_id BIGINT NOT NULL,
  id BIGINT NOT NULL,
  notifications BIGINT NOT NULL DEFAULT 1,
  expires_at BIGINT,
  PRIMARY KEY (account_id, target_id)
) WITHOUT ROWID;
CREATE TABLE notification_permissions (
  account_id BIGINT NOT NULL,
  from_account_id BIGINT NOT NULL,
  PRIMARY KEY (account_id, from_account_id)
) WITHOUT ROWID;
CREATE TABLE notification_policies (
  account_id INTEGER NOT NULL PRIMARY KEY,
  policy TEXT NOT NULL
);
CREATE TABLE notification_requests (
  id INTEGER NOT NULL PRIMARY KEY,
  account_id BIGINT NOT NULL,
  from_account_id BIGINT NOT NULL,
  last_status_id BIGINT,
  updated_at BIGINT NOT NULL
);
CREATE TABLE notifications (
  id INTEGER NOT NULL PRIMARY KEY,
  account_id BIGINT NOT NULL,
  kind TEXT NOT NULL,
  from_account_id BIGINT NOT NULL,
  status_id BIGINT NOT NULL DEFAULT 0,
  subject_id BIGINT NOT NULL DEFAULT 0,
  group_key TEXT NOT NULL,
  filtered BIGINT NOT NULL DEFAULT 0
);
CREATE TABLE oauth_apps (
  id INTEGER NOT NULL PRIMARY KEY,
  client_id TEXT NOT NULL,
  client_secret_hash BLOB NOT NULL,
  name TEXT NOT NULL,
  website TEXT,
  redirect_uris TEXT NOT NULL,
  scopes TEXT NOT NULL,
  created_at BIGINT NOT NULL
);
CREATE TABLE oauth_grants (
  code_hash BLOB NOT NULL PRIMARY KEY,
  app_id BIGINT NOT NULL,
  account_id BIGINT NOT NULL,
  scopes TEXT NOT NULL,
  redirect_uri TEXT NOT NULL,
  challenge TEXT,
  expires_at BIGINT NOT NULL
);
CREATE TABLE oauth_tokens (
  id INTEGER NOT NULL PRIMARY KEY,
  token_hash BLOB NOT NULL,
  app_id BIGINT NOT NULL,
  account_id BIGINT,
  scopes TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  last_used_at BIGINT NOT NULL
);
CREATE TABLE payloads (
  id INTEGER NOT NULL PRIMARY KEY,
  account_id BIGINT NOT NULL,
  -- What it is about: what one account says about one thing goes to an inbox in order of id.
  subject BIGINT NOT NULL,
  body TEXT NOT NULL,
  -- Whether it is another server's message that is only passed on.
  passed_on BIGINT NOT NULL DEFAULT 0
, is_count BIGINT NOT NULL DEFAULT 0);
CREATE TABLE pins (
  account_id BIGINT NOT NULL,
  status_id BIGINT NOT NULL,
  id BIGINT NOT NULL,
  PRIMARY KEY (account_id, status_id)
) WITHOUT ROWID;
CREATE TABLE poll_votes (
  poll_id BIGINT NOT NULL,
  account_id BIGINT NOT NULL,
  choice BIGINT NOT NULL,
  uri TEXT NOT NULL DEFAULT '',
  PRIMARY KEY (poll_id, account_id, choice)
) WITHOUT ROWID;
CREATE TABLE polls (
  id INTEGER NOT NULL PRIMARY KEY,
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
CREATE TABLE push_subscriptions (
  id INTEGER NOT NULL PRIMARY KEY,
  token_id BIGINT NOT NULL,
  account_id BIGINT NOT NULL,
  endpoint TEXT NOT NULL,
  p256dh BLOB NOT NULL,
  auth BLOB NOT NULL,
  alerts TEXT NOT NULL,
  policy TEXT NOT NULL,
  standard BIGINT NOT NULL DEFAULT 0
);
CREATE TABLE reports (
  id INTEGER NOT NULL PRIMARY KEY,
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
CREATE TABLE rules (
  id INTEGER NOT NULL PRIMARY KEY,
  position BIGINT NOT NULL,
  content TEXT NOT NULL,
  hint TEXT NOT NULL DEFAULT ''
);
CREATE TABLE scheduled_statuses (
  id INTEGER NOT NULL PRIMARY KEY,
  account_id BIGINT NOT NULL,
  scheduled_at BIGINT NOT NULL,
  in_reply_to_id BIGINT,
  draft TEXT NOT NULL,
  job_id BIGINT NOT NULL
);
CREATE TABLE schema_migrations (
            part TEXT NOT NULL, number BIGINT NOT NULL, name TEXT NOT NULL,
            PRIMARY KEY (part, number));
CREATE TABLE settings (
  name TEXT NOT NULL PRIMARY KEY,
  content TEXT NOT NULL
);
CREATE TABLE severances (
  id INTEGER NOT NULL PRIMARY KEY,
  account_id BIGINT NOT NULL,
  kind TEXT NOT NULL,
  target TEXT NOT NULL,
  caused_at BIGINT NOT NULL,
  followers_count BIGINT NOT NULL,
  following_count BIGINT NOT NULL
);
CREATE TABLE shipments (
  id INTEGER NOT NULL PRIMARY KEY,
  status_id BIGINT NOT NULL,
  inboxes_count BIGINT NOT NULL,
  hosts_count BIGINT NOT NULL,
  hosts TEXT NOT NULL,
  spared TEXT NOT NULL DEFAULT ''
);
CREATE TABLE status_edits (
  id INTEGER NOT NULL PRIMARY KEY,
  status_id BIGINT NOT NULL,
  created_at BIGINT NOT NULL,
  content TEXT NOT NULL,
  source TEXT NOT NULL DEFAULT '',
  spoiler TEXT NOT NULL,
  sensitive BIGINT NOT NULL,
  media TEXT NOT NULL DEFAULT '[]',
  poll_options TEXT
);
CREATE TABLE status_tags (
  tag_id BIGINT NOT NULL,
  status_id BIGINT NOT NULL,
  PRIMARY KEY (tag_id, status_id)
) WITHOUT ROWID;
CREATE VIRTUAL TABLE status_texts USING fts5 (body, facts, tokenize = 'ascii', content = '', contentless_delete = 1);
CREATE TABLE 'status_texts_config'(k PRIMARY KEY, v) WITHOUT ROWID;
CREATE TABLE 'status_texts_data'(id INTEGER PRIMARY KEY, block BLOB);
CREATE TABLE 'status_texts_docsize'(id INTEGER PRIMARY KEY, sz BLOB, origin INTEGER);
CREATE TABLE 'status_texts_idx'(segid, term, pgno, PRIMARY KEY(segid, term)) WITHOUT ROWID;
CREATE TABLE statuses (
  id INTEGER NOT NULL PRIMARY KEY,
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
CREATE TABLE tags (
  id INTEGER NOT NULL PRIMARY KEY,
  name TEXT NOT NULL,
  display TEXT NOT NULL,
  last_status_at BIGINT
);
CREATE TABLE tombstones (
  uri TEXT NOT NULL PRIMARY KEY,
  host TEXT NOT NULL,
  deleted_at BIGINT NOT NULL,
  conversation_id BIGINT
);
CREATE TABLE undelivered (
  payload_id BIGINT NOT NULL,
  host TEXT NOT NULL,
  inbox TEXT NOT NULL,
  failed_at BIGINT NOT NULL,
  reason TEXT NOT NULL,
  PRIMARY KEY (payload_id, host, inbox)
) WITHOUT ROWID;
CREATE TABLE users (
  account_id INTEGER NOT NULL PRIMARY KEY,
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
CREATE TABLE "versions" (
  actor TEXT NOT NULL,
  object TEXT NOT NULL,
  relation TEXT NOT NULL,
  version_ms BIGINT NOT NULL,
  version_seq BIGINT NOT NULL,
  events TEXT NOT NULL DEFAULT '[]',
  activity TEXT NOT NULL DEFAULT '',
  PRIMARY KEY (actor, object, relation)
);
CREATE TABLE web_sessions (
  id INTEGER NOT NULL PRIMARY KEY,
  token_hash BLOB NOT NULL,
  account_id BIGINT NOT NULL,
  created_at BIGINT NOT NULL,
  last_used_at BIGINT NOT NULL,
  ip TEXT NOT NULL DEFAULT '',
  user_agent TEXT NOT NULL DEFAULT ''
);
CREATE INDEX account_keys_by_account ON account_keys (account_id);
CREATE INDEX account_notes_by_target ON account_notes (target_id);
CREATE INDEX account_warnings_by_account ON account_warnings (account_id);
CREATE INDEX accounts_by_domain ON accounts (domain, id) WHERE domain <> '';
CREATE UNIQUE INDEX accounts_by_name ON accounts (username_key, domain);
CREATE INDEX accounts_by_new_home ON accounts (moved_to_id) WHERE moved_to_id IS NOT NULL;
CREATE UNIQUE INDEX accounts_by_uri ON accounts (uri);
CREATE INDEX blocks_by_target ON blocks (target_id);
CREATE INDEX bookmarks_by_account ON bookmarks (account_id, id);
CREATE UNIQUE INDEX bookmarks_by_status ON bookmarks (status_id, account_id);
CREATE UNIQUE INDEX cards_by_url ON cards (url);
CREATE INDEX chat_affiliations_by_jid ON chat_affiliations (jid);
CREATE UNIQUE INDEX chat_items_by_id ON chat_items (node_id, id);
CREATE INDEX chat_messages_by_pair ON chat_messages (pair, id);
CREATE INDEX chat_messages_by_receiver ON chat_messages (to_id, id) WHERE to_id <> 0;
CREATE INDEX chat_messages_by_sender ON chat_messages (from_id, id) WHERE from_id <> 0;
CREATE INDEX chat_node_subscriptions_by_jid ON chat_node_subscriptions (jid);
CREATE UNIQUE INDEX chat_nodes_by_name ON chat_nodes (owner_id, name);
CREATE INDEX chat_offline_by_message ON chat_offline (message_id);
CREATE UNIQUE INDEX chat_rooms_by_name ON chat_rooms (name);
CREATE INDEX chat_rooms_public ON chat_rooms (name) WHERE is_public = 1;
CREATE INDEX chat_tokens_by_expiry ON chat_tokens (expires_at);
CREATE INDEX chat_uploads_by_account ON chat_uploads (account_id, id);
CREATE INDEX chat_uploads_by_file ON chat_uploads (file) WHERE file <> '';
CREATE UNIQUE INDEX chat_uploads_by_key ON chat_uploads (key);
CREATE INDEX conversation_mutes_by_conversation ON conversation_mutes (conversation_id);
CREATE INDEX conversations_by_last ON conversations (account_id, last_status_id);
CREATE UNIQUE INDEX conversations_of ON conversations (account_id, conversation_id, participants);
CREATE INDEX conversations_of_posts ON conversations (conversation_id, last_status_id);
CREATE UNIQUE INDEX custom_emojis_by_code ON custom_emojis (domain, shortcode);
CREATE INDEX deliveries_by_payload ON deliveries (payload_id, host, inbox);
CREATE UNIQUE INDEX domain_allows_by_domain ON domain_allows (domain);
CREATE UNIQUE INDEX domain_blocks_by_domain ON domain_blocks (domain);
CREATE UNIQUE INDEX email_domain_blocks_by_domain ON email_domain_blocks (domain);
CREATE INDEX endorsements_by_target ON endorsements (target_id);
CREATE INDEX favourites_by_account ON favourites (account_id, id);
CREATE UNIQUE INDEX favourites_by_status ON favourites (status_id, account_id);
CREATE UNIQUE INDEX featured_tags_by_account ON featured_tags (account_id, tag_id);
CREATE INDEX featured_tags_by_tag ON featured_tags (tag_id);
CREATE INDEX filter_keywords_by_filter ON filter_keywords (filter_id, id);
CREATE UNIQUE INDEX filter_statuses_by_filter ON filter_statuses (filter_id, status_id);
CREATE INDEX filter_statuses_by_status ON filter_statuses (status_id);
CREATE INDEX filters_by_account ON filters (account_id, id);
CREATE INDEX follow_requests_by_target ON follow_requests (target_id, id);
CREATE INDEX followed_tags_by_tag ON followed_tags (tag_id);
CREATE INDEX follows_by_account ON follows (account_id, id);
CREATE INDEX follows_by_target ON follows (target_id, id);
CREATE INDEX follows_told ON follows (target_id) WHERE notify = 1;
CREATE INDEX idempotency_keys_by_age ON idempotency_keys (created_at);
CREATE INDEX invites_by_account ON invites (account_id);
CREATE UNIQUE INDEX invites_by_code ON invites (code);
CREATE UNIQUE INDEX ip_blocks_by_network ON ip_blocks (network);
CREATE INDEX jobs_batches_by_end ON jobs_batches (complete_at, id);
CREATE INDEX jobs_cursors_by_time ON jobs_cursors (saved_at);
CREATE INDEX jobs_dead_by_time ON jobs_dead (died_at, id);
CREATE UNIQUE INDEX jobs_later_by_id ON jobs_later (id);
CREATE INDEX jobs_later_by_queue ON jobs_later (queue, state, lane) WHERE reason IS NOT NULL;
CREATE INDEX jobs_members_by_batch ON jobs_members (batch_id);
CREATE INDEX jobs_seen_by_time ON jobs_seen (seen_at);
CREATE INDEX jobs_unique_by_end ON jobs_unique (until_at) WHERE until_at IS NOT NULL;
CREATE INDEX list_accounts_by_account ON list_accounts (account_id);
CREATE INDEX lists_by_account ON lists (account_id, id);
CREATE INDEX mail_tokens_by_account ON mail_tokens (account_id);
CREATE INDEX mail_tokens_by_expiry ON mail_tokens (expires_at);
CREATE INDEX media_by_file ON media (file) WHERE file <> '';
CREATE INDEX media_by_status ON media (status_id) WHERE status_id IS NOT NULL;
CREATE INDEX media_by_thumbnail ON media (thumbnail) WHERE thumbnail <> '';
CREATE INDEX media_unattached ON media (unattached_at) WHERE status_id IS NULL;
CREATE INDEX mentions_by_account ON mentions (account_id, status_id);
CREATE INDEX migrations_by_account ON migrations (account_id, id);
CREATE INDEX migrations_by_target ON migrations (target_id);
CREATE INDEX mutes_by_expiry ON mutes (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX mutes_by_target ON mutes (target_id);
CREATE INDEX notification_permissions_by_sender ON notification_permissions (from_account_id);
CREATE UNIQUE INDEX notification_requests_of
  ON notification_requests (account_id, from_account_id);
CREATE INDEX notifications_by_account ON notifications (account_id, id);
CREATE INDEX notifications_by_status ON notifications (status_id) WHERE status_id <> 0;
CREATE UNIQUE INDEX notifications_once
  ON notifications (from_account_id, account_id, kind, status_id, subject_id);
CREATE UNIQUE INDEX oauth_apps_by_client_id ON oauth_apps (client_id);
CREATE INDEX oauth_grants_by_expiry ON oauth_grants (expires_at);
CREATE INDEX oauth_tokens_by_account ON oauth_tokens (account_id);
CREATE INDEX oauth_tokens_by_app ON oauth_tokens (app_id);
CREATE UNIQUE INDEX oauth_tokens_by_token ON oauth_tokens (token_hash);
CREATE INDEX oauth_tokens_of_apps ON oauth_tokens (last_used_at) WHERE account_id IS NULL;
CREATE INDEX payloads_by_subject ON payloads (account_id, subject, id);
CREATE INDEX pins_by_status ON pins (status_id);
CREATE INDEX poll_votes_by_account ON poll_votes (account_id);
CREATE INDEX push_subscriptions_by_account ON push_subscriptions (account_id);
CREATE UNIQUE INDEX push_subscriptions_by_token ON push_subscriptions (token_id);
CREATE INDEX reports_by_account ON reports (account_id, uri);
CREATE INDEX reports_by_target ON reports (target_id);
CREATE INDEX reports_open ON reports (id) WHERE action_taken_at IS NULL;
CREATE INDEX scheduled_statuses_by_account ON scheduled_statuses (account_id, id);
CREATE INDEX scheduled_statuses_by_parent ON scheduled_statuses (in_reply_to_id)
  WHERE in_reply_to_id IS NOT NULL;
CREATE UNIQUE INDEX severances_once ON severances (account_id, kind, target, caused_at);
CREATE INDEX shipments_by_status ON shipments (status_id, id);
CREATE INDEX status_edits_by_status ON status_edits (status_id, created_at, id);
CREATE INDEX status_tags_by_status ON status_tags (status_id);
CREATE INDEX statuses_by_account ON statuses (account_id, id);
CREATE INDEX statuses_by_app ON statuses (app_id) WHERE app_id IS NOT NULL;
CREATE UNIQUE INDEX statuses_by_boost ON statuses (boost_of_id, account_id)
  WHERE boost_of_id IS NOT NULL;
CREATE INDEX statuses_by_card ON statuses (card_id, id) WHERE card_id IS NOT NULL;
CREATE INDEX statuses_by_missing_parent ON statuses (in_reply_to_uri)
  WHERE in_reply_to_uri IS NOT NULL AND in_reply_to_id IS NULL;
CREATE INDEX statuses_by_parent ON statuses (in_reply_to_id, id) WHERE in_reply_to_id IS NOT NULL;
CREATE UNIQUE INDEX statuses_by_uri ON statuses (uri);
CREATE INDEX statuses_direct ON statuses (conversation_id, id) WHERE visibility = 3;
CREATE INDEX statuses_of_unknown ON statuses (conversation_id)
  WHERE conversation_id >= 4611686018427387904;
CREATE INDEX statuses_public ON statuses (id) WHERE visibility = 0 AND boost_of_id IS NULL;
CREATE INDEX statuses_public_local ON statuses (id)
  WHERE visibility = 0 AND boost_of_id IS NULL AND local = 1;
CREATE UNIQUE INDEX tags_by_name ON tags (name);
CREATE INDEX tombstones_by_age ON tombstones (deleted_at);
CREATE INDEX tombstones_by_conversation ON tombstones (conversation_id)
  WHERE conversation_id IS NOT NULL;
CREATE INDEX tombstones_by_host ON tombstones (host, deleted_at);
CREATE UNIQUE INDEX users_by_email ON users (email_key);
CREATE INDEX users_unconfirmed ON users (created_at) WHERE confirmed_at IS NULL;
CREATE INDEX versions_by_activity ON versions (activity) WHERE activity <> '';
CREATE INDEX versions_by_age ON versions (version_seq) WHERE coalesce(relation, '') <> 'profile';
CREATE INDEX versions_by_object ON versions (object) WHERE relation = 'boost';
CREATE INDEX web_sessions_by_account ON web_sessions (account_id);
CREATE UNIQUE INDEX web_sessions_by_token ON web_sessions (token_hash);
CREATE INDEX web_sessions_by_use ON web_sessions (last_used_at);
