"""The ledger of archives: batches are planned before any work, and committed once with the hold."""

# pyright: basic
import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from queen import errors
from queen.lake import Batch
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


def purge(log: Log, partition: str) -> None:
    log.execute("select queen.purge('orders', $1, false, null, null, 10)", partition)


def held(log: Log) -> list[int]:
    rows = log.execute("select xid::text::bigint as xid from queen.holds")
    return [row["xid"] for row in rows]


def archive(ledger: Ledger, plan: Plan | None, *, token: int | None = None) -> bool:
    assert plan is not None
    figures = (1, 1, 1, 0, None, 0)
    answer = ledger.call("archive_batch", "orders", plan.batch, token or plan.token, *figures)
    return answer[0]["is_moved"]


def test_a_batch_is_planned_once_and_its_position_moves_once(ledger: Ledger, log: Log) -> None:
    log.fill(segments=3)
    assert held(log) == []

    plan = ledger.plan("orders", horizon(ledger) - 1)
    assert plan is not None
    assert held(log) == [0]
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


def test_the_hold_of_a_first_batch_expires_unless_the_batch_is_archived(
    ledger: Ledger, log: Log
) -> None:
    def expiry() -> list[Any]:
        return [row["expires_at"] for row in log.execute("select expires_at from queen.holds")]

    log.stop_clock()
    log.fill(segments=3)
    plan = ledger.plan("orders", horizon(ledger))
    (first,) = expiry()
    log.advance(seconds=600)
    assert ledger.plan("orders", horizon(ledger)) == plan

    (renewed,) = expiry()
    assert renewed - first >= timedelta(seconds=600)
    assert archive(ledger, plan)
    assert expiry() == [None]


def test_the_hold_of_a_failed_first_batch_is_dropped_and_a_later_one_stays(
    ledger: Ledger, log: Log
) -> None:
    log.fill(segments=3)
    plan = ledger.plan("orders", horizon(ledger))
    ledger.release_first("orders")
    assert held(log) == []

    assert ledger.plan("orders", horizon(ledger)) == plan
    assert held(log) == [0]
    assert archive(ledger, plan)
    ledger.release_first("orders")
    assert held(log) == [ledger.find("orders")["xid"]]


def test_an_archive_without_a_batch_can_move_and_one_with_batches_cannot(
    ledger: Ledger, log: Log
) -> None:
    log.fill(segments=3)
    former = ledger.plan("orders", horizon(ledger))

    ledger.open("orders", "orders", "delta", "/right")

    found = ledger.find("orders")
    assert (found["format"], found["location"], found["planned_batch"]) == (
        *("delta", "/right"),
        None,
    )
    plan = ledger.plan("orders", horizon(ledger))
    assert not archive(ledger, former)  # By a process that still writes to the former lake.
    assert archive(ledger, plan)
    with pytest.raises(errors.InvalidOption, match="has batches as delta at /right"):
        ledger.open("orders", "orders", "iceberg", "/lake")


def test_messages_that_were_removed_unarchived_are_counted_by_their_batch(
    ledger: Ledger, log: Log
) -> None:
    log.push("a", [1, 2])
    log.push("b", [3])
    purge(log, "a")
    first = ledger.plan("orders", horizon(ledger))
    assert first is not None
    missed = ledger.missed("orders", first.start_xid, first.end_xid)
    (gap,) = json.loads(missed.gaps or "[]")
    log.push("a", [4, 5, 6])
    purge(log, "a")

    assert missed.messages == 2
    assert (gap["partition"], gap["firstOffset"], gap["endOffset"]) == ("a", 0, 2)
    assert gap["reason"] == "purge"
    assert ledger.missed("orders", first.start_xid, first.end_xid).messages == 2
    assert ledger.missed("orders", first.end_xid).messages == 3
    batch = Batch(first.batch, first.token, 1, 1, 1, missed=2, missed_total=2)
    ledger.archive("orders", batch, missed.gaps)
    (stored,) = ledger.call("archive_batches", "orders", 10)
    assert (stored["missed_messages"], len(stored["missed"])) == (2, 1)
    (listed,) = ledger.call("list_archives", "", 10, None)
    assert listed["missed_messages"] == 5


def test_archived_and_earlier_removals_are_not_missed(dsn: str, log: Log) -> None:
    log.push("a", [1])
    purge(log, "a")
    with Ledger(dsn) as ledger:
        ledger.open("orders", "orders", "iceberg", "/lake")
        log.push("a", [2])
        plan = ledger.plan("orders", horizon(ledger))
        assert plan is not None
        log.push("a", [3])
        assert archive(ledger, plan)

        # One purge of an archived message and of another one.
        purge(log, "a")

        assert ledger.missed("orders", 0, plan.end_xid).messages == 1
        assert ledger.missed("orders", plan.end_xid).messages == 1


def test_removals_whose_records_were_deleted_count_as_one(ledger: Ledger, log: Log) -> None:
    log.execute("insert into queen.duties (name, epoch) values ('retention', 1)")
    log.push("a", [1, 2])
    purge(log, "a")
    log.execute("select queen.forget_removals(1, 0, 100)")

    missed = ledger.missed("orders", 0)

    assert missed.messages == 1
    assert json.loads(missed.gaps or "[]")[0]["reason"] == "forgotten"


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
        select 'orders', n, 1, '3', '4', 'archived', 1, 1, 1, queen.now(), queen.now(), 0, null
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
    log.execute("select queen.hold('orders', 'archive:orders', '0')")
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
