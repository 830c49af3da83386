-- Producers belong to a scope that the server derives from its caller, and keep the outcome of their last request.

alter table queen.producers
  -- Which callers share the producer; '' is what servers of releases before this one store, for every caller.
  add column scope   text not null default '',
  -- Of the last request, so that another one under its sequence is not taken for a repeat. Null: not known.
  add column digest  bytea,
  -- Where its messages went: the engine's bytes, relative to bases.
  add column outcome bytea,
  add column bases   bigint[],
  -- Which of its advances came too late, counted from 0.
  add column stale   integer[];
-- Two first requests at once could leave a second row, of sequence -1.
delete from queen.producers p
using queen.producers l
where l.producer_id = p.producer_id and l.sequence > p.sequence;
alter table queen.producers drop constraint producers_pkey;
alter table queen.producers add primary key (producer_id, scope);
-- No index has a column that a request changes, so with room in its page a row is updated in place.
alter table queen.producers set (fillfactor = 50);
