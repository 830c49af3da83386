-- Helpers for deduplication: the keys of transactionIds, and the generations that store them.

-- The key of a client's transactionId: the first half of a SHA-256 over partition and text. Python computes the same.
create or replace function queen.dedup_key (p_partition_id bigint, p_transaction_id text)
  returns bytea
  language sql
  immutable
as $$
  select substr(sha256(int8send(p_partition_id) || convert_to(p_transaction_id, 'UTF8')), 1, 16)
$$;

-- How many seconds a dedup generation of a class covers.
create or replace function queen.dedup_length (p_class integer)
  returns bigint
  language sql
  immutable
as $$
  select (array[3600, 86400, 604800, 2678400])[p_class + 1]::bigint
$$;

-- The class whose two newest generations cover a window.
create or replace function queen.dedup_class (p_seconds double precision)
  returns integer
  language sql
  immutable
as $$
  select case
    when p_seconds <= 3600 then 0
    when p_seconds <= 86400 then 1
    when p_seconds <= 604800 then 2
    else 3
  end
$$;

-- The generation of a class that is written at p_at. p_back = 1 selects the one before.
create or replace function queen.dedup_generation (p_class integer, p_at timestamptz, p_back integer)
  returns smallint
  language sql
  immutable
as $$
  select (p_class * 3 + (floor(extract(epoch from p_at) / queen.dedup_length(p_class))::bigint - p_back) % 3)::smallint
$$;

-- Delete the keys of messages that were never stored in a segment, so that they can be pushed again.
create or replace function queen.forget_keys (p_keys bytea[])
  returns void
  language plpgsql
  volatile
as $$
begin
  delete from queen.dedup d
  using unnest(p_keys) k (key)
  where d.key = k.key and d."offset" is null;
end
$$;
