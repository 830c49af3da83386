-- Pushes of producers record their outcomes themselves, and are part of combined calls.

-- They have more parameters now, with defaults, so that older servers can call push too.
drop function if exists queen.push (
  bigint[], integer[], bytea[], bytea[], bytea[], double precision[], bytea, integer[], integer[], integer[], text[], bigint[],
  bigint[], double precision[], timestamptz[], bytea[], bytea[], double precision[], double precision, bigint[], timestamptz[],
  double precision[], boolean[], integer[], integer[], bigint[], bigint
);
drop function if exists queen.record_producers (text[], bigint[], timestamptz);
drop function if exists queen.combine (
  bigint[], integer[], bytea[], bytea[], bytea[], double precision[], double precision, bigint[], uuid[], int8multirange[],
  bigint[], bigint[], uuid[], bigint[], bigint[], text[], text[], double precision[], text[], bytea[], double precision[],
  integer[], bigint[], timestamptz[], timestamptz[], text, integer[], integer[], double precision[], boolean, text, integer
);
