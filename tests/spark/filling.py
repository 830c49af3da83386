"""Queues with many different messages, pushed with ``queen.push`` as a server does."""

import json
import random
import struct
import threading
from collections.abc import Sequence
from itertools import count
from types import TracebackType
from typing import Any, Self

import psycopg

_PAD = "·" * 8
_PUSH = """
select kind from queen.push(
  %s::bigint[], %s::integer[], %s::bytea[], %s::bytea[],
  array_fill(null::bytea, array[%s]), array_fill(null::double precision, array[%s])
)
"""


def make(dsn: str, queue: str, **options: object) -> None:
    """Create a queue with these options, given by column names."""
    with psycopg.connect(dsn) as connection:
        connection.execute(
            "select queen.configure(%s, null, null, %s::jsonb, false, null, null)",
            (queue, json.dumps(options)),
        )


def partition_ids(
    connection: psycopg.Connection[Any], queue: str, names: Sequence[str]
) -> dict[str, int]:
    """The IDs of partitions, which are created if they are missing."""
    rows = connection.execute(
        "select partition_id from queen.partition_ids(%s, %s, %s::smallint[], true, null)"
        " order by ordinal",
        ([queue] * len(names), list(names), [0] * len(names)),
    )
    return dict(zip(names, (row[0] for row in rows), strict=True))


def push(
    connection: psycopg.Connection[Any], partitions: Sequence[int], payloads: Sequence[list[bytes]]
) -> None:
    """Push one transaction with one segment per partition."""
    bodies = [b"".join(each) for each in payloads]
    number = len(partitions)
    rows = connection.execute(
        _PUSH,
        (
            list(partitions),
            [len(each) for each in payloads],
            bodies,
            [_ends(each) for each in payloads],
            number,
            number,
        ),
    ).fetchall()
    assert [row[0] for row in rows] == ["stored"] * number, rows


def fill(
    dsn: str,
    queue: str,
    messages: int,
    *,
    partitions: int = 8,
    transactions: int = 20,
    start: int = 0,
) -> None:
    """
    Push `messages` messages, evenly over partitions and transactions. ``start`` changes their
    content.
    """
    each, rest = divmod(messages, partitions * transactions)
    assert not rest, "they do not come out even"
    names = [f"p{number}" for number in range(partitions)]
    numbers = count(start)
    with psycopg.connect(dsn, autocommit=True) as connection:
        ids = partition_ids(connection, queue, names)
        for _ in range(transactions):
            payloads = [[payload(name, next(numbers)) for _ in range(each)] for name in names]
            push(connection, [ids[name] for name in names], payloads)


def push_against_each_other(dsn: str, queue: str, partition: str = "p0") -> None:
    """Push two transactions of which the one with the lower ID is later in the partition."""
    with psycopg.connect(dsn) as late, psycopg.connect(dsn) as early:
        partition_id = partition_ids(early, queue, [partition])[partition]
        early.commit()
        late.execute("select pg_current_xact_id()")
        for number, each in enumerate((early, late)):
            push(each, [partition_id], [[payload(partition, -1 - number)]])
            each.commit()


class Producers:
    """
    Connections that push to several partitions per transaction, so they wait for each other's
    locks.

    Usage::

        with Producers(dsn, "orders", connections=4, partitions=6) as producers:
            producers.finish()
    """

    def __init__(
        self, dsn: str, queue: str, *, connections: int, partitions: int, transactions: int
    ) -> None:
        self._dsn, self._transactions = dsn, transactions
        names = [f"p{number}" for number in range(partitions)]
        with psycopg.connect(dsn) as connection:
            self._ids = partition_ids(connection, queue, names)
        self._errors: list[BaseException] = []
        self._is_over = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(number,)) for number in range(connections)
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._is_over.set()
        self.finish()

    def finish(self) -> None:
        """Wait until all messages are pushed."""
        for thread in self._threads:
            thread.join()
        if self._errors:
            raise self._errors[0]

    def _run(self, producer: int) -> None:
        try:
            self._push(producer)
        except BaseException as error:
            self._errors.append(error)

    def _push(self, producer: int) -> None:
        chance = random.Random(producer)
        names = list(self._ids)
        numbers = count(producer * 10**9)
        with psycopg.connect(self._dsn, autocommit=True) as connection:
            for _ in range(self._transactions):
                if self._is_over.is_set():
                    return
                some = chance.sample(names, chance.randint(1, len(names) // 2))
                payloads = [
                    [payload(name, next(numbers)) for _ in range(chance.randint(1, 3))]
                    for name in some
                ]
                push(connection, [self._ids[name] for name in some], payloads)


def payload(partition: str, number: int) -> bytes:
    """The payload of a message with this number."""
    return f'{{"partition": "{partition}", "number": {number}, "pad": "{_PAD}"}}'.encode()


def _ends(payloads: Sequence[bytes]) -> bytes:
    ends = [0]
    for each in payloads:
        ends.append(ends[-1] + len(each))
    return struct.pack(f"<{len(ends)}i", *ends)
