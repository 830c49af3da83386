"""The ledger of archives: batches are planned before any work, and committed once with the hold."""

# pyright: basic
from collections.abc import Iterator

import pytest

from queen import errors
from queen.lake.ledger import Ledger, Plan
from tests.spark.log import Log


@pytest.fixture
def log(dsn: str) -> Iterator[Log]:
    with Log(dsn, "orders") as log:
        yield log


@pytest.fixture
def ledger(dsn: str, log: Log) -> Iterator[Ledger]:
    with Ledger(dsn) as ledger:
        ledger.open("orders", "orders", "iceberg", "/lake")
        yield ledger


def horizon(ledger: Ledger) -> int:
    return ledger.call("horizon")[0]["xid"]


def held(log: Log) -> list[int]:
    rows = log.execute("select xid::text::bigint as xid from queen.holds")
    return [row["xid"] for row in rows]


def archive(ledger: Ledger, plan: Plan | None, *, token: int | None = None) -> bool:
    assert plan is not None
    answer = ledger.call("archive_batch", "orders", plan.batch, token or plan.token, 1, 1, 1)
    return answer[0]["is_moved"]


def test_a_batch_is_planned_once_and_its_position_moves_once(ledger: Ledger, log: Log) -> None:
    log.fill(segments=3)
    assert held(log) == [0]

    plan = ledger.plan("orders", horizon(ledger) - 1)
    assert plan is not None
    assert ledger.plan("orders", horizon(ledger)) == plan
    assert not archive(ledger, plan, token=plan.token + 1)
    assert ledger.find("orders")["batch"] == 0
    assert archive(ledger, plan)
    assert not archive(ledger, plan)

    assert ledger.find("orders")["xid"] == plan.end_xid
    assert held(log) == [plan.end_xid]
    second = ledger.plan("orders", horizon(ledger))
    assert second is not None
    assert (second.batch, second.start_xid) == (2, plan.end_xid)
    assert second.token != plan.token


def test_open_transactions_limit_the_plan(ledger: Ledger) -> None:
    assert ledger.plan("orders", horizon(ledger) + 100) is None


def test_a_dropped_archive_holds_no_messages(ledger: Ledger, log: Log) -> None:
    archive(ledger, ledger.plan("orders", horizon(ledger)))

    assert ledger.call("drop_archive", "orders") == [{"is_dropped": True}]

    assert held(log) == []
    assert ledger.call("drop_archive", "orders") == [{"is_dropped": False}]
    with pytest.raises(errors.NotFound):
        ledger.find("orders")


@pytest.mark.parametrize("location", ["/lake", "/lake/eu", "/"])
def test_two_archives_never_share_a_directory(ledger: Ledger, location: str) -> None:
    with pytest.raises(errors.InvalidOption, match="archive orders"):
        ledger.open("others", "orders", "iceberg", location.rstrip("/"))

    ledger.open("others", "orders", "iceberg", "/lake-of-others")


def test_the_last_batches_are_stored(ledger: Ledger, log: Log) -> None:
    log.execute("update queen.archives set batch = 5000")
    log.execute(
        """
        insert into queen.archive_batches
        select 'orders', n, 1, '3', '4', 'archived', 1, 1, 1, queen.now(), queen.now()
        from generate_series(3000, 5000) n
        """
    )

    assert archive(ledger, ledger.plan("orders", horizon(ledger)))

    kept = ledger.call("archive_batches", "orders", 10_000)
    assert [row["batch"] for row in kept] == list(range(5001, 4001, -1))


def test_a_restore_keeps_the_position_of_an_archive_between_its_messages(
    ledger: Ledger, log: Log
) -> None:
    log.push("a", [1])
    far = horizon(ledger) + 1_000_000
    # More transactions than the new server has had.
    log.execute(
        """
        insert into queen.segments (
          partition_id, base_offset, message_count, created_at, queue_id, xid, body, ends
        )
        select
          s.partition_id, n, 1, s.created_at, s.queue_id, ($1::bigint + n)::text::xid8, s.body,
          s.ends
        from queen.segments s cross join generate_series(1, 5000) n
        """,
        far,
    )
    log.execute("update queen.archives set xid = ($1::bigint + 2000)::text::xid8", far)
    log.execute("update queen.holds set xid = ($1::bigint + 2000)::text::xid8", far)
    log.execute(
        """
        insert into queen.archive_batches (archive, batch, token, start_xid, end_xid, planned_at)
        values (
          'orders', 1, 7, ($1::bigint + 2000)::text::xid8, ($1::bigint + 3500)::text::xid8,
          queen.now()
        )
        """,
        far,
    )

    assert log.execute("select queen.renumber() as is_renumbered")[0]["is_renumbered"]

    found = ledger.find("orders")
    assert (found["xid"], found["planned_batch"], found["token"]) == (found["start_xid"], 1, 7)
    assert held(log) == [found["xid"]]
    assert found["end_xid"] < horizon(ledger)
    (row,) = log.execute(
        """
        select
          max(base_offset) filter (where xid < $1::text::xid8) as archived,
          min(base_offset) filter (where xid >= $1::text::xid8) as first,
          max(base_offset) filter (where xid < $2::text::xid8) as last,
          bool_and(xid >= before) as is_in_order,
          count(distinct xid) as numbers
        from (
          select s.*, lag(xid, 1, '0') over (order by base_offset) as before from queen.segments s
        ) s
        """,
        found["xid"],
        found["end_xid"],
    )
    assert (row["archived"], row["first"], row["last"]) == (1_999, 2_000, 3_499)
    assert row["is_in_order"]
    assert row["numbers"] > 100
    assert not log.execute("select queen.renumber() as is_renumbered")[0]["is_renumbered"]
