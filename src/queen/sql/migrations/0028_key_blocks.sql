-- Keys of transactionIds in blocks: one row per segment instead of one row per key.
--
-- Servers of the previous release can work beside this one. They call the same functions, which store rows for them.

-- The keys of consecutive messages of a partition, in the order of their offsets, 16 bytes each. A generation is truncated
-- together with the same generation of queen.dedup.
create table queen.dedup_blocks (
  generation   smallint not null,
  partition_id bigint not null,
  base_offset  bigint not null,
  at           timestamptz not null,
  keys         bytea not null
) partition by list (generation);
create index dedup_block on queen.dedup_blocks (partition_id, base_offset);
-- Hashes do not compress.
alter table queen.dedup_blocks alter column keys set storage external;
do $$
begin
  for v_generation in 0 .. 11 loop
    execute format(
      'create table queen.dedup_blocks_%s partition of queen.dedup_blocks for values in (%s)',
      v_generation, v_generation
    );
  end loop;
end
$$;

-- A partition whose keys may also be in queen.dedup, and until when rows were stored there. Other partitions have no rows.
create table queen.dedup_rows (
  partition_id bigint primary key,
  at           timestamptz not null
);
create index dedup_rows_old on queen.dedup_rows (at);

-- All partitions may have rows. Until this transaction ends, no partition is created by a server that would not record that.
lock table queen.partitions in share row exclusive mode;
-- Calls that have begun store rows for some seconds longer.
insert into queen.dedup_rows (partition_id, at)
select p.id, clock_timestamp() + interval '1 hour' from queen.partitions p;

-- They have more parameters now, with defaults, so that older servers can call push too.
drop function if exists queen.push (
  bigint[], integer[], bytea[], bytea[], bytea[], double precision[], bytea, integer[], integer[], integer[], text[], bigint[],
  bigint[], double precision[], timestamptz[], bytea[], bytea[], double precision[], double precision
);
drop function if exists queen.push_keys (bytea, integer[], integer[], integer[], bigint[], integer[], timestamptz);
