-- The layout of segments, read and written in SQL. Used by the messages view, dead letters and scheduled messages.

-- The integer at index p_index in an array of little-endian int32.
create or replace function queen.end_at (p_ends bytea, p_index integer)
  returns integer
  language sql
  immutable
as $$
  select get_byte(p_ends, 4 * p_index)
    + (get_byte(p_ends, 4 * p_index + 1) << 8)
    + (get_byte(p_ends, 4 * p_index + 2) << 16)
    + (get_byte(p_ends, 4 * p_index + 3) << 24)
$$;

-- An int32 as four little-endian bytes.
create or replace function queen.end_bytes (p_end integer)
  returns bytea
  language sql
  immutable
as $$
  select substr(b, 4, 1) || substr(b, 3, 1) || substr(b, 2, 1) || substr(b, 1, 1)
  from int4send(p_end) as b
$$;

-- The end positions of concatenated values: cardinality + 1 integers, starting at 0.
create or replace function queen.ends_of (p_values bytea[])
  returns bytea
  language sql
  immutable
as $$
  select '\x00000000'::bytea || string_agg(queen.end_bytes(v.until::integer), '' order by v.ordinal)
  from (
    select e.ordinal, sum(length(coalesce(e.value, ''))) over (order by e.ordinal) as until
    from unnest(p_values) with ordinality as e (value, ordinal)
  ) v
$$;

-- The payload of message p_index of a segment.
create or replace function queen.payload_at (p_body bytea, p_ends bytea, p_index integer)
  returns bytea
  language sql
  immutable
as $$
  select substr(
    p_body,
    queen.end_at(p_ends, p_index) + 1,
    queen.end_at(p_ends, p_index + 1) - queen.end_at(p_ends, p_index)
  )
$$;

-- The extra of message p_index of a segment with p_count messages, or null if it has none.
create or replace function queen.extra_at (p_extras bytea, p_count integer, p_index integer)
  returns bytea
  language sql
  immutable
as $$
  select nullif(
    substr(
      p_extras,
      4 * (p_count + 1) + 1 + queen.end_at(p_extras, p_index),
      queen.end_at(p_extras, p_index + 1) - queen.end_at(p_extras, p_index)
    ),
    ''::bytea
  )
$$;

-- The extras of several messages in one column, or null if no message has any.
create or replace function queen.join_extras (p_extras bytea[])
  returns bytea
  language sql
  immutable
as $$
  select case
    when count(e.extra) > 0
    then queen.ends_of(p_extras) || string_agg(coalesce(e.extra, ''), '' order by e.ordinal)
  end
  from unnest(p_extras) with ordinality as e (extra, ordinal)
$$;
