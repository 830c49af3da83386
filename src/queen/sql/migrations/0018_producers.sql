-- Producers belong to a scope that the server derives from its caller, and keep the outcome of their last request.

alter table queen.producers
  -- Which callers share the producer. Servers of earlier releases store '' for every caller.
  add column scope   text not null default '',
  -- The digest of the last request, to distinguish a repeat from another request under its sequence. Null: unknown.
  add column digest  bytea,
  -- Where its messages were stored: the engine's bytes, relative to bases.
  add column outcome bytea,
  add column bases   bigint[],
  -- Which of its advances were too late, counted from 0.
  add column stale   integer[];
-- Two concurrent first requests could leave a second row, with sequence -1.
delete from queen.producers p
using queen.producers l
where l.producer_id = p.producer_id and l.sequence > p.sequence;
alter table queen.producers drop constraint producers_pkey;
alter table queen.producers add primary key (producer_id, scope);
-- Requests change no indexed column, so a row is updated in place if its page has room.
alter table queen.producers set (fillfactor = 50);
