-- The ledger of archives, and a catalogue for the lake's tables.

-- A queue whose log is copied into a lake: up to which transaction, and in how many batches.
create table queen.archives (
  name       text primary key,
  queue_id   bigint not null,
  format     text not null,
  location   text not null,
  -- The lake has all messages of earlier transactions.
  xid        xid8 not null default '0',
  -- The last batch in the lake.
  batch      bigint not null default 0,
  created_at timestamptz not null,
  constraint format_is_known check (format in ('iceberg', 'delta', 'parquet'))
) with (fillfactor = 50);

-- A batch: planned before any work, archived once the lake has it.
create table queen.archive_batches (
  archive     text not null,
  batch       bigint not null,
  -- The lake's record of the batch contains it too: another plan with the same number is another batch.
  token       bigint not null,
  start_xid   xid8 not null,
  end_xid     xid8 not null,
  state       text not null default 'planned',
  files       bigint,
  messages    bigint,
  bytes       bigint,
  planned_at  timestamptz not null,
  archived_at timestamptz,
  primary key (archive, batch),
  constraint batches_are_planned_or_archived check (
    (state = 'planned' and archived_at is null)
    or (state = 'archived' and num_nulls(archived_at, files, messages, bytes) = 0)
  ),
  constraint batches_are_not_empty check (end_xid > start_xid)
);

-- The catalogue of Iceberg's tables. Names and columns are those that Iceberg gives them (its JDBC catalogue, version 1).
create table queen.iceberg_tables (
  catalog_name               varchar(255) not null,
  table_namespace            varchar(255) not null,
  table_name                 varchar(255) not null,
  metadata_location          varchar(1000),
  previous_metadata_location varchar(1000),
  iceberg_type               varchar(5),
  primary key (catalog_name, table_namespace, table_name)
) with (fillfactor = 50);

create table queen.iceberg_namespace_properties (
  catalog_name   varchar(255) not null,
  namespace      varchar(255) not null,
  property_key   varchar(255) not null,
  property_value varchar(1000) not null,
  primary key (catalog_name, namespace, property_key)
);
