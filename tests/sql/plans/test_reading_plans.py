"""A reader of a whole queue plans by pending segments, not by earlier ones or other queues."""

from datetime import UTC, datetime

import pytest

from tests.sql.plans.growth import Calls, Growth, build, check, grown, measure, whole
from tests.support.postgres import Server

# Queue 1 and a neighbour, with one segment per transaction, each in its own partition.
SEGMENTS = """
select queen.configure('neighbour', null, null, '{{}}', false, null, null);
select queen.configure('moved', null, null, '{{}}', false, null, null);
insert into queen.partitions (id, queue_id, name) overriding system value
select q.id * 1000000 + i, q.id, 'p' || i from queen.queues q, generate_series(1, {segments}) i;
insert into queen.segments
  (partition_id, base_offset, message_count, created_at, queue_id, xid, body, ends)
select
  q.id * 1000000 + i, 0, 1, now() - ({segments} - i) * interval '1 second', q.id,
  (i + 10)::text::xid8, '[]', '\\x0000000002000000'
from queen.queues q, generate_series(1, {segments}) i;
insert into queen.databases (number, name, is_here) values (0, 'main', true);
insert into queen.segments
  (partition_id, base_offset, message_count, created_at, queue_id, xid, body, ends, born_in,
   born_xid)
select
  q.id * 1000000 + i, 1, 1, now() - ({segments} - i) * interval '1 second', q.id, '5', '[]',
  '\\x0000000002000000', 1, (i + 10)::text::xid8
from queen.queues q, generate_series(1, {segments}) i
where q.name = 'moved';
insert into queen.plans (app_id, queue_id, start_xid, end_xid, planned_at)
select 'app', 1, ({segments} + 4)::text::xid8, ({segments} + 7)::text::xid8, now();
insert into queen.archives (name, queue_id, format, location, xid, created_at)
values ('orders', 1, 'parquet', '/lake', ({segments} + 7)::text::xid8, now());
"""


def calls(segments: int) -> Calls:
    """The calls of a reader that is four segments before the end."""
    here, end = segments + 7, segments + 11
    return {
        "last_before": lambda _: ("last_before", 1, here),
        "stream_start": lambda _: ("stream_start", 1, None, [1000001], [1], 10),
        "plan_batch": lambda _: ("plan_batch", 1, here, 0, 0, end, 2, None, False),
        "plan_batch of all": lambda _: ("plan_batch", 1, here, 0, 0, end, None, None, False),
        "plan_batch of nothing": lambda _: ("plan_batch", 1, end, 0, 0, end + 1, 2, None, False),
        "split_batch": lambda _: ("split_batch", 1, here, 0, 0, end, 0, 0, 2, 1),
        "split_batch into many": lambda _: ("split_batch", 1, here, 0, 0, end, 0, 0, 9, 1),
        # Queue 3 has as many copies, which were born in database 1.
        "plan_births": lambda _: ("plan_births", 3, 0, here, end, 2, None),
        "plan_births of all": lambda _: ("plan_births", 3, 0, here, end, None, None),
        "plan_births of copies": lambda _: ("plan_births", 3, 1, here, end, 2, None),
        "last_birth": lambda _: ("last_birth", 3, 0, here),
        "last_birth of copies": lambda _: ("last_birth", 3, 1, here),
        "count_births": lambda _: ("count_births", 3, [0, 1], [here, here], [end, end]),
        "segments_born": lambda _: (
            *("segments_born", 3, [0, 1], [here, here], [end, end], [0, 0]),
            *(datetime(2020, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC), None, [0], 2, 0),
        ),
        "missed_births": lambda _: ("missed_births", 3, [0, 1], [here, here], [here, here], None),
        "witness_birth": lambda _: ("witness_birth", 0, here, 3000001, 1, 0, 3),
        "find_plan": lambda _: ("find_plan", "app", 1, here, 0, 0, False),
        "missed": lambda _: ("missed", 1, here, 0, 0, here, None),
        "missed of some": lambda _: ("missed", 1, here, 0, 0, here, [1000001]),
        "witness": lambda _: ("witness", 1, here, 1000001, 1, 0),
        "xid_at": lambda _: ("xid_at", 1, datetime(2020, 1, 1, tzinfo=UTC), True),
        "unarchived_since": lambda _: ("unarchived_since", "orders"),
    }


@pytest.mark.parametrize("is_analysed", [True, False], ids=["analysed", "not analysed"])
def test_a_reader_plans_by_pending_segments_in_a_log_of_any_length(
    postgres: Server, template: str, is_analysed: bool
) -> None:
    small, large = (
        measure(
            postgres,
            build(postgres, template, SEGMENTS.format(segments=segments)),
            calls(segments),
            is_analysed=is_analysed,
        )
        for segments in (100, 20_000)
    )

    growth = Growth(small, large)
    check(whole(growth) + grown(growth))
