-- Whether the patterns of a caller's scopes match a queue. Null patterns match every queue.
--
-- p_patterns: LIKE patterns of a queue's name, a newline and its namespace. Names contain no newline, so a wildcard in one
-- half never matches text of the other. p_namespace is null if the queue does not exist. The body is one expression, so
-- that PostgreSQL inlines it.
create or replace function queen.sees (p_queue text, p_namespace text, p_patterns text[])
  returns boolean
  language sql
  immutable
as $$
  select p_patterns is null or p_queue || E'\n' || coalesce(p_namespace, '') like any (p_patterns)
$$;
