"""Events of a queue, and the expected windows over them, computed separately."""

# pyright: basic

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import psycopg

from queen.spark.pipelines import windows
from tests.spark import filling, oracle

BEGIN = datetime(2030, 1, 1, tzinfo=UTC)
SCHEMA = "who string, at timestamp, amount bigint"
AGGREGATE = {"total": "sum(amount)", "times": "count(*)"}


class Event(NamedTuple):
    """An action of a user, some seconds after the beginning."""

    who: str
    second: int
    amount: int


class Result(NamedTuple):
    """The result of a window, in seconds after the beginning."""

    who: str
    start: int
    end: int
    total: int
    times: int


def instant(second: int) -> datetime:
    return BEGIN + timedelta(seconds=second)


def push(dsn: str, *events: Event, queue: str = "events") -> None:
    """Push one transaction, with each event in the partition of its user."""
    by: dict[str, list[bytes]] = defaultdict(list)
    for who, second, amount in events:
        payload = {"who": who, "at": instant(second).isoformat(), "amount": amount}
        by[who].append(json.dumps(payload).encode())
    with psycopg.connect(dsn) as connection:
        ids = filling.partition_ids(connection, queue, list(by))
        filling.push(connection, [ids[who] for who in by], list(by.values()))


def payloads(dsn: str, queue: str) -> Iterator[tuple[str, Any]]:
    """The partition and payload of each message, in the order of partitions."""
    with psycopg.connect(dsn) as connection:
        for name, _, count, body, ends in connection.execute(oracle.SEGMENTS, (queue,)):
            for payload in oracle.payloads_of(body, ends, count):
                yield name, json.loads(payload)


def results(dsn: str, queue: str = "sums") -> list[Result]:
    """The written results, sorted, including duplicates."""
    found: list[Result] = []
    for partition, payload in payloads(dsn, queue):
        assert partition == payload["who"]
        bounds = (datetime.fromisoformat(payload[each]) - BEGIN for each in ("start", "end"))
        start, end = (int(each.total_seconds()) for each in bounds)
        found.append(Result(payload["who"], start, end, payload["total"], payload["times"]))
    return sorted(found)


def tumbling(events: Iterable[Event], size: int) -> list[Result]:
    return sliding(events, size, size)


def sliding(events: Iterable[Event], size: int, every: int) -> list[Result]:
    amounts: dict[tuple[str, int], list[int]] = defaultdict(list)
    for who, second, amount in events:
        last = second - second % every
        for start in range(last, second - size, -every):
            amounts[who, start].append(amount)
    return sorted(
        Result(who, start, start + size, sum(each), len(each))
        for (who, start), each in amounts.items()
    )


def sessions(events: Iterable[Event], gap: int) -> list[Result]:
    found: list[Result] = []
    for event in sorted(events):
        last = found[-1] if found else None
        if last is not None and last.who == event.who and event.second < last.end:
            found[-1] = last._replace(
                end=max(last.end, event.second + gap),
                total=last.total + event.amount,
                times=last.times + 1,
            )
        else:
            found.append(Result(event.who, event.second, event.second + gap, event.amount, 1))
    return sorted(found)


def declared(dsn: str, folder: Path, **changes: Any) -> windows.Config:  # noqa: ANN401
    """A window over `events` into `sums`, one batch per transaction, until everything is read."""
    given: Mapping[str, Any] = {
        "name": "spent",
        "from": "events",
        "to": "sums",
        "window": {"tumbling": "1 minute"},
        "schema": SCHEMA,
        "time": "at",
        "watermark": "30 seconds",
        "by": ["who"],
        "aggregate": AGGREGATE,
        "checkpoint": str(folder / "checkpoint"),
        "dsn": dsn,
        "once": True,
        "max_messages_per_trigger": 1,
        **changes,
    }
    return msgspec.convert(given, windows.Config)


def make(dsn: str, queues: Sequence[str] = ("events", "sums")) -> None:
    for queue in queues:
        filling.make(dsn, queue)
