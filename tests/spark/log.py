"""A queue's log, written and read by SQL, with which pipelines are compared."""

# pyright: basic
import json
from collections.abc import Iterable, Mapping
from hashlib import sha256
from types import TracebackType
from typing import Any, NamedTuple, Self

import psycopg

from queen.arrow.database import call, connect
from queen.codec.segment import Segment, encode
from tests.support.clock import INSTALL


class Identity(NamedTuple):
    """The fields that identify a message everywhere."""

    partition: str
    offset: int
    digest: str


def identity(partition: str, offset: int, payload: str | bytes) -> Identity:
    data = payload.encode() if isinstance(payload, str) else payload
    return Identity(partition, offset, sha256(data).hexdigest())


class Log:
    """
    Writes and reads a queue's log.

    Usage::

        with Log(dsn, "orders") as log:
            log.push("a", range(10))
            log.messages()
    """

    def __init__(self, dsn: str, queue: str, **options: Any) -> None:  # noqa: ANN401
        self.queue = queue
        self.connection = connect(dsn)
        call(
            self.connection, "configure", queue, None, None, json.dumps(options), False, None, None
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.connection.close()

    def push(self, partition: str, values: Iterable[Any], *, ttl: float | None = None) -> None:
        """Push one segment with these values as JSON."""
        self.push_all({partition: values}, ttl=ttl)

    def push_all(self, values: Mapping[str, Iterable[Any]], *, ttl: float | None = None) -> None:
        """Push one segment per partition, in one transaction."""
        names = list(values)
        rows = call(
            self.connection, "partition_ids", [self.queue] * len(names), names, [0] * len(names),
            True, None,
        )  # fmt: skip
        entries = [[json.dumps(value).encode() for value in values[name]] for name in names]
        stored = [encode(payloads) for payloads in entries]
        answers = call(
            self.connection, "push",
            [row["partition_id"] for row in rows], [len(payloads) for payloads in entries],
            [body for body, _ in stored], [ends for _, ends in stored],
            [None] * len(names), [ttl] * len(names), *[None] * 20, 0, *[None] * 4,
        )  # fmt: skip
        assert all(answer["kind"] == "stored" for answer in answers)

    def fill(self, *, partitions: int = 3, segments: int = 10, messages: int = 20) -> None:
        """Push several transactions to each partition."""
        for number in range(segments):
            self.push_all(
                {
                    f"p{partition}": [
                        {"partition": partition, "segment": number, "message": message}
                        for message in range(messages)
                    ]
                    for partition in range(partitions)
                }
            )

    def messages(self) -> list[Identity]:
        """All messages in the log, ordered by partition and offset."""
        rows = self.connection.execute(
            b"""
            select p.name, s.base_offset, s.message_count, s.body, s.ends
            from queen.segments s
            join queen.partitions p on p.id = s.partition_id
            join queen.queues q on q.id = s.queue_id
            where q.name = $1 and q.deleted_at is null and s.body is not null
              and s.expires_at is distinct from '-infinity'
            """,
            [self.queue],
        ).fetchall()
        found: list[Identity] = []
        for row in rows:
            segment = Segment(
                xid=0,
                count=row["message_count"],
                body=row["body"],
                ends=row["ends"],
                extras=None,
            )
            for place, payload in enumerate(segment.payloads(0, row["message_count"])):
                found.append(identity(row["name"], row["base_offset"] + place, payload))
        return sorted(found)

    def execute(self, statement: str, *arguments: object) -> list[dict[str, Any]]:
        cursor = self.connection.execute(statement.encode(), arguments)
        return cursor.fetchall() if cursor.description else []

    def stop_clock(self) -> None:
        """Stop the clock until the test moves it."""
        psycopg.Cursor(self.connection).execute(INSTALL.encode())

    def advance(self, *, seconds: float) -> None:
        self.execute("update public.clock set at = at + make_interval(secs => $1)", float(seconds))
