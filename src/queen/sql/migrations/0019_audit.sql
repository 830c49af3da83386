-- The start of the audit log: the newest record that retention removed, and its hash. The chain is checked from there.
create table queen.audit_start (
  id   bigint not null,
  hash bytea not null
);
insert into queen.audit_start (id, hash) values (0, sha256(''));
