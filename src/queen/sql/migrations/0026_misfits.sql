-- Messages that don't fit the schema of their queue, in archives with typed tables.

alter table queen.archives add column misfit_messages bigint not null default 0;
alter table queen.archive_batches add column misfit_messages bigint not null default 0;

-- It has one more parameter now, with a default, so that older pipelines can call it too.
drop function if exists queen.archive_batch (text, bigint, bigint, bigint, bigint, bigint, bigint, text);
