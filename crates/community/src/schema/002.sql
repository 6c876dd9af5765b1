-- Chat: what people keep about themselves.
-- `archive` is their preferences as JSON (NULL: everything is archived), `mutuals` whether those
-- with whom they follow each other appear among their contacts.
CREATE TABLE chat_settings (
  account_id BIGINT NOT NULL PRIMARY KEY,
  contacts_version BIGINT NOT NULL DEFAULT 0,
  archive TEXT,
  mutuals BIGINT NOT NULL DEFAULT 0
);

-- Chat: the contacts of people here, and those who ask to become some. `state` is a sum: 1 listed,
-- 2 sees the contact's presence, 4 shows it its own, 8 asked to see, 16 is asked, 32 approved ahead.
CREATE TABLE chat_contacts (
  account_id BIGINT NOT NULL,
  jid TEXT NOT NULL,
  name TEXT NOT NULL DEFAULT '',
  group_names TEXT NOT NULL DEFAULT '[]',
  state BIGINT NOT NULL,
  request TEXT NOT NULL DEFAULT '',
  PRIMARY KEY (account_id, jid)
) WITHOUT ROWID;

-- Chat: addresses and servers that people block, besides the accounts in `blocks`.
CREATE TABLE chat_blocks (
  account_id BIGINT NOT NULL,
  jid TEXT NOT NULL,
  PRIMARY KEY (account_id, jid)
) WITHOUT ROWID;

-- Chat: the archive, a row for each message, shared by both sides. `from_id` and `to_id` are the
-- accounts here in whose archives it stands, 0 for none; `pair` is a hash of the two addresses.
CREATE TABLE chat_messages (
-- only: sqlite
  id INTEGER NOT NULL PRIMARY KEY,
-- end
-- only: postgres
  id BIGINT NOT NULL PRIMARY KEY,
-- end
  from_id BIGINT NOT NULL,
  to_id BIGINT NOT NULL,
  pair BIGINT NOT NULL,
  from_jid TEXT NOT NULL,
  to_jid TEXT NOT NULL,
  xml TEXT NOT NULL
);
CREATE INDEX chat_messages_by_sender ON chat_messages (from_id, id) WHERE from_id <> 0;
CREATE INDEX chat_messages_by_receiver ON chat_messages (to_id, id) WHERE to_id <> 0;
CREATE INDEX chat_messages_by_pair ON chat_messages (pair, id);

-- Chat: messages that nobody was there to receive.
CREATE TABLE chat_offline (
  account_id BIGINT NOT NULL,
  message_id BIGINT NOT NULL,
  PRIMARY KEY (account_id, message_id)
) WITHOUT ROWID;
CREATE INDEX chat_offline_by_message ON chat_offline (message_id);

-- Chat: XML that people's apps keep here for themselves, by the name of its element, and vCards.
CREATE TABLE chat_private (
  account_id BIGINT NOT NULL,
  name TEXT NOT NULL,
  xml TEXT NOT NULL,
  PRIMARY KEY (account_id, name)
) WITHOUT ROWID;

-- Chat: the services that wake the apps of people who are not connected.
CREATE TABLE chat_push (
  account_id BIGINT NOT NULL,
  service TEXT NOT NULL,
  node TEXT NOT NULL,
  options TEXT NOT NULL,
  PRIMARY KEY (account_id, service, node)
) WITHOUT ROWID;

-- Chat: nodes that one publishes to, of an account, or of the service (`owner_id` 0).
CREATE TABLE chat_nodes (
  id BIGINT NOT NULL PRIMARY KEY,
  owner_id BIGINT NOT NULL,
  name TEXT NOT NULL,
  config TEXT NOT NULL,
  bytes BIGINT NOT NULL DEFAULT 0
);
CREATE UNIQUE INDEX chat_nodes_by_name ON chat_nodes (owner_id, name);

-- Chat: what was published to them; `id` is in order of publishing.
CREATE TABLE chat_items (
  node_id BIGINT NOT NULL,
  name TEXT NOT NULL,
  id BIGINT NOT NULL,
  publisher TEXT NOT NULL,
  xml TEXT NOT NULL,
  PRIMARY KEY (node_id, name)
);
CREATE UNIQUE INDEX chat_items_by_id ON chat_items (node_id, id);

-- Chat: who may do what with a node.
CREATE TABLE chat_node_affiliations (
  node_id BIGINT NOT NULL,
  jid TEXT NOT NULL,
  affiliation TEXT NOT NULL,
  PRIMARY KEY (node_id, jid)
) WITHOUT ROWID;

-- Chat: who hears what is published to a node. `state` is `subscribed` or `pending`.
CREATE TABLE chat_node_subscriptions (
  node_id BIGINT NOT NULL,
  jid TEXT NOT NULL,
  state TEXT NOT NULL,
  PRIMARY KEY (node_id, jid)
) WITHOUT ROWID;
CREATE INDEX chat_node_subscriptions_by_jid ON chat_node_subscriptions (jid);

-- Chat: rooms that outlive their occupants.
CREATE TABLE chat_rooms (
  id BIGINT NOT NULL PRIMARY KEY,
  name TEXT NOT NULL,
  config TEXT NOT NULL,
  is_public BIGINT NOT NULL,
  of_community BIGINT NOT NULL DEFAULT 0,
  subject TEXT NOT NULL DEFAULT '',
  subject_by TEXT NOT NULL DEFAULT '',
  subject_at BIGINT NOT NULL DEFAULT 0,
  card TEXT NOT NULL DEFAULT ''
);
CREATE UNIQUE INDEX chat_rooms_by_name ON chat_rooms (name);
CREATE INDEX chat_rooms_public ON chat_rooms (name) WHERE is_public = 1;

-- Chat: owners, admins, members and outcasts of rooms, and the nicks they have registered.
CREATE TABLE chat_affiliations (
  room_id BIGINT NOT NULL,
  jid TEXT NOT NULL,
  affiliation TEXT NOT NULL,
  nick TEXT NOT NULL DEFAULT '',
  reason TEXT NOT NULL DEFAULT '',
  PRIMARY KEY (room_id, jid)
) WITHOUT ROWID;
CREATE INDEX chat_affiliations_by_jid ON chat_affiliations (jid);

-- Chat: what was said in rooms.
CREATE TABLE chat_room_messages (
  room_id BIGINT NOT NULL,
  id BIGINT NOT NULL,
  from_jid TEXT NOT NULL,
  xml TEXT NOT NULL,
  PRIMARY KEY (room_id, id)
) WITHOUT ROWID;

-- Chat: files that people sent, and places for some that have not come (`file` is empty).
CREATE TABLE chat_uploads (
-- only: sqlite
  id INTEGER NOT NULL PRIMARY KEY,
-- end
-- only: postgres
  id BIGINT NOT NULL PRIMARY KEY,
-- end
  account_id BIGINT NOT NULL,
  key TEXT NOT NULL,
  name TEXT NOT NULL,
  bytes BIGINT NOT NULL,
  content_type TEXT NOT NULL,
  file TEXT NOT NULL,
  created_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX chat_uploads_by_key ON chat_uploads (key);
CREATE INDEX chat_uploads_by_account ON chat_uploads (account_id, id);
CREATE INDEX chat_uploads_by_file ON chat_uploads (file) WHERE file <> '';
