"""Windows over a queue: correct results, on a live queue, as declared."""

# pyright: basic

import json
import random
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyspark.sql import SparkSession

from queen import errors
from queen.arrow.database import call, connect
from queen.pipelines.report import Report, reports
from queen.spark.pipelines import queries, windows
from tests.spark import processes, windowing
from tests.spark.windowing import Event, Result, declared, push, results

LATER = Event("later", 100_000, 0)


def some_events() -> list[list[Event]]:
    """Transactions with events out of order, all within the watermark."""
    chance = random.Random(1)
    return [
        [
            Event(chance.choice("abc"), chance.randrange(number * 60, number * 60 + 85), number + 1)
            for _ in range(15)
        ]
        for number in range(4)
    ]


@pytest.mark.parametrize(
    "shape",
    [
        "tumbling",
        *(pytest.param(each, marks=pytest.mark.nightly) for each in ("sliding", "session")),
    ],
)
def test_windows_equal_those_computed_separately(
    spark: SparkSession, dsn: str, tmp_path: Path, shape: str
) -> None:
    windowing.make(dsn)
    transactions = some_events()
    for each in transactions:
        push(dsn, *each)
    for _ in range(2):  # The first moves the watermark, the second closes all earlier windows.
        push(dsn, LATER)
    events = [event for each in transactions for event in each]
    window, expected = {
        "tumbling": ({"tumbling": "1 minute"}, windowing.tumbling(events, 60)),
        "sliding": (
            {"sliding": "1 minute", "every": "20 seconds"},
            windowing.sliding(events, 60, 20),
        ),
        "session": ({"session": "10 seconds"}, windowing.sessions(events, 10)),
    }[shape]

    windows.run(spark, declared(dsn, tmp_path, window=window))

    assert results(dsn) == expected
    assert len(expected) > 10


def test_tasks_and_state_stores_fit_the_cores(
    spark: SparkSession, dsn: str, tmp_path: Path
) -> None:
    chosen = spark.conf.get(queries.SHUFFLE_PARTITIONS)
    config = declared(dsn, tmp_path)

    assert queries.SHUFFLE_PARTITIONS not in queries.settings(spark)  # The session has it.
    assert queries.settings(spark, 7)[queries.SHUFFLE_PARTITIONS] == "7"
    spark.conf.unset(queries.SHUFFLE_PARTITIONS)
    try:
        assert spark.conf.get(queries.SHUFFLE_PARTITIONS) == "200"
        assert queries.settings(spark)[queries.SHUFFLE_PARTITIONS] == "2"
        windowing.make(dsn)
        push(dsn, Event("a", 0, 1))
        windows.run(spark, config)
        assert spark.conf.get(queries.SHUFFLE_PARTITIONS) == "200"
    finally:
        spark.conf.set(queries.SHUFFLE_PARTITIONS, chosen or "2")

    _, metadata, *_ = (tmp_path / "checkpoint" / "offsets" / "0").read_text("utf-8").splitlines()
    kept = json.loads(metadata)["conf"]
    assert kept[queries.SHUFFLE_PARTITIONS] == "2"
    assert kept["spark.sql.streaming.stateStore.providerClass"].endswith(
        "RocksDBStateStoreProvider"
    )


@pytest.mark.parametrize(
    ("field", "value"),
    [("window", windows.Shape(tumbling="2 minutes")), ("where", "amount > 1"), ("mode", "update")],
)
def test_a_changed_declaration_is_rejected_once_it_has_progress(
    dsn: str, tmp_path: Path, field: str, value: object
) -> None:
    windowing.make(dsn)
    config = declared(dsn, tmp_path)
    changed = msgspec.structs.replace(config, **{field: value})
    with connect(dsn) as connection:
        windows.check(connection, changed)
        windows.check(connection, config)  # No batch was planned yet.
        call(connection, "begin_stream", f"window:{config.name}", 1, 3, 3, "{}")
        windows.check(connection, config)

        with pytest.raises(errors.InvalidOption, match=rf"{field}: .*another name"):
            windows.check(connection, changed)
        operational = {"checkpoint": "elsewhere", "tasks": 9, "once": not config.once}
        windows.check(connection, msgspec.structs.replace(config, **operational))


DECLARATION = """
name: spent
from: events
to: sums
window: {tumbling: 1 minute}
schema: who string, at timestamp, amount bigint
time: at
watermark: 30 seconds
by: [who]
aggregate: {total: sum(amount), times: count(*)}
where: amount > 0
every: 1 second
checkpoint: %s
dsn: %s
"""


def test_a_declaration_over_a_live_queue_has_results_within_two_triggers(
    spark: SparkSession, dsn: str, tmp_path: Path
) -> None:
    windowing.make(dsn)
    query = windows.start(spark, windows.load(DECLARATION % (tmp_path / "checkpoint", dsn)))
    try:
        push(dsn, Event("a", 5, 1), Event("a", 50, 2), Event("b", 20, 4), Event("b", 21, 0))
        query.processAllAvailable()
        assert results(dsn) == []
        push(dsn, Event("a", 91, 8))  # The watermark passes the end of the first minute.
        processes.wait(lambda: len(results(dsn)) == 2, 120, lambda: f"{query.lastProgress}")

        # No more events were pushed.
        assert results(dsn) == [Result("a", 0, 60, 3, 2), Result("b", 0, 60, 4, 1)]
        query.processAllAvailable()
        (passed_in,) = (each.batchId for each in query.recentProgress if each.numInputRows == 1)
        assert query.recentProgress[-1].batchId - passed_in <= 2
    finally:
        query.stop()


@pytest.mark.nightly
def test_late_events_count_within_the_watermark_and_are_dropped_after_it(
    spark: SparkSession, dsn: str, tmp_path: Path
) -> None:
    windowing.make(dsn)
    push(dsn, Event("a", 10, 1))
    push(dsn, Event("a", 85, 2))  # Now the watermark is at 55.
    push(dsn, Event("a", 56, 4))  # Late, but within the watermark.
    push(dsn, Event("a", 200, 8))  # Now the watermark is at 170.
    push(dsn, Event("a", 201, 16))
    push(dsn, Event("a", 59, 32), Event("b", 100, 64))  # Both are too late.
    push(dsn, Event("a", 202, 128))

    with Report(dsn, name="spent", kind="window", queues=["events"]) as report:
        windows.run(spark, declared(dsn, tmp_path), report=report)

    assert results(dsn) == [Result("a", 0, 60, 5, 2), Result("a", 60, 120, 2, 1)]
    (row,) = reports(dsn, limit=10)
    assert (row.state, row.rows_total, row.detail) == ("stopped", 8, {"dropped": 2})


@pytest.mark.nightly
def test_an_update_is_written_whenever_a_result_changes(
    spark: SparkSession, dsn: str, tmp_path: Path
) -> None:
    windowing.make(dsn)
    push(dsn, Event("a", 10, 1), Event("b", 10, 5))
    push(dsn, Event("a", 20, 2))

    windows.run(spark, declared(dsn, tmp_path, mode="update"))

    assert results(dsn) == [
        Result("a", 0, 60, 1, 1),
        Result("a", 0, 60, 3, 2),
        Result("b", 0, 60, 5, 1),
    ]


def test_messages_are_aggregated_by_their_own_columns_and_by_unusual_names(
    spark: SparkSession, dsn: str, tmp_path: Path
) -> None:
    windowing.make(dsn)
    push(dsn, Event("", 10, 1), Event("a", 10, 2))
    changes: dict[str, Any] = {
        "schema": "who string, amount bigint, offset string",
        "time": "createdAt",
        "by": ["who", "offset"],
        "aggregate": {"a.b": "max(amount)", "none": "max(cast(null as int))"},
        "mode": "update",
    }

    windows.run(spark, declared(dsn, tmp_path, **changes))

    found = {partition: payload for partition, payload in windowing.payloads(dsn, "sums")}
    assert {name: each["a.b"] for name, each in found.items()} == {"Default": 1, "a": 2}
    # The payload has no offset, and hides the offset of the message.
    assert found["a"]["offset"] is None
    assert found["a"]["none"] is None


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (
            {"by": ["whom"]},
            "by: whom does not exist; the columns are partition, offset, createdAt, who",
        ),
        ({"time": "when"}, "time: when does not exist"),
        ({"time": "who"}, "who"),
        ({"where": "amnt > 1"}, "amnt"),
        ({"aggregate": {"total": "sum(amnt)"}}, "amnt"),
        ({"aggregate": {"total": "amount"}}, "amount"),
        ({"aggregate": {"total": "count(distinct amount)"}}, "(?i)distinct"),
        ({"schema": "who strong"}, "(?i)strong"),
        ({"watermark": "soon"}, "soon"),
        ({"window": {"tumbling": "a while"}}, "a while"),
        ({"every": "often", "once": False}, "often"),
    ],
)
def test_a_declaration_that_does_not_match_is_rejected_before_the_stream_starts(
    spark: SparkSession, dsn: str, tmp_path: Path, change: dict[str, Any], complaint: str
) -> None:
    windowing.make(dsn)
    with pytest.raises(errors.InvalidOption, match=complaint):
        windows.start(spark, declared(dsn, tmp_path, **change))
    assert spark.streams.active == []


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("by:", "bye:", "unknown field `bye`"),
        ("name: spent", "", "missing required field `name`"),
        ("{total: sum(amount), times: count(*)}", "{}", "aggregate: set at least one"),
        ("total:", "who:", "names must be unique"),
        ("{tumbling: 1 minute}", "{session: 1 minute}\nmode: update", "a session has no result"),
        ("{tumbling: 1 minute}", "{session: 1 minute}\nby: []", "by: name a field"),
        ("{tumbling: 1 minute}", "{sliding: 1 minute}", "one of tumbling, sliding with every"),
        ("{tumbling: 1 minute}", "{tumbling: 1 minute}\npartition: whom", "no field whom"),
        ("{tumbling", "{tumbling: [", "the window is invalid"),
    ],
)
def test_an_invalid_declaration_reports_its_error(old: str, new: str, complaint: str) -> None:
    text = DECLARATION % ("checkpoint", "postgresql:///queen")
    if "by: []" in new:
        text = text.replace("by: [who]\n", "")
    with pytest.raises(errors.InvalidOption, match=complaint):
        windows.load(text.replace(old, new, 1))
