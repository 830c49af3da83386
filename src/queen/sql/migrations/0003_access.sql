-- API keys and the audit log.

create table queen.keys (
  -- The part after qk_ in the key, which identifies it everywhere: not secret.
  id                  text primary key,
  -- SHA-256 of the whole key. The key itself is not stored.
  digest              bytea not null,
  -- The digest before the last rotation, and until when it is valid.
  old_digest          bytea,
  old_until           timestamptz,
  name                text not null,
  -- A role, or a list of permissions.
  role                text,
  permissions         text[],
  -- Null: every queue.
  scopes              jsonb,
  requests_per_second double precision,
  created_at          timestamptz not null,
  created_by          text not null,
  expires_at          timestamptz,
  revoked_at          timestamptz,
  constraint keys_have_a_role_or_permissions check (num_nonnulls(role, permissions) = 1),
  constraint digests_are_sha256 check (length(digest) = 32 and length(old_digest) = 32),
  constraint requests_per_second_is_positive check (requests_per_second > 0)
);

-- The remaining requests of a key with a limit per second. Not needed after a crash.
create unlogged table queen.allowances (
  key_id   text primary key,
  requests double precision not null,
  at       timestamptz not null
) with (fillfactor = 50);

-- One-time tickets for clients that cannot send a header.
create unlogged table queen.tickets (
  digest bytea primary key,
  caller jsonb not null,
  until  timestamptz not null
);
create index tickets_until on queen.tickets (until);

create table queen.audit (
  id     bigint primary key,
  at     timestamptz not null,
  actor  text not null,
  action text not null,
  queue  text,
  -- The complete record as JSON, which is hashed. The columns above repeat its searchable fields.
  record text not null,
  -- SHA-256 of the hash before, the id, the timestamp and the record.
  hash   bytea not null
);
create index audit_actor on queen.audit (actor, id);
create index audit_action on queen.audit (action, id);
create index audit_queue on queen.audit (queue, id) where queue is not null;
create index audit_at on queen.audit (at, id);

-- The end of the chain: one row, whose lock orders the records.
create table queen.audit_end (
  id   bigint not null,
  hash bytea not null
);
insert into queen.audit_end (id, hash) values (0, sha256(''));
