"""A stream without a session: the driver's calls, in the order in which Spark makes them."""

# pyright: basic

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pyspark.sql.streaming.datasource import ReadMaxRows
from pyspark.sql.types import StructType

from queen.spark.format.cluster_reader import ClusterReader
from queen.spark.format.cluster_stream import ClusterStreamReader
from queen.spark.format.options import source_options
from tests.cluster.places import ONE

Row = tuple[str, int, Any]
"""A partition, an offset and a payload."""

FEW = ReadMaxRows(100)


def named(databases: Mapping[str, str]) -> str:
    """The option of the source."""
    return " ".join(f"{name}={dsn}" for name, dsn in databases.items())


class Reader:
    """
    Reads a stream to its end.

    Usage::

        reader = Reader(databases)
        reader.read()  # the messages since the last call, in batches
    """

    def __init__(self, databases: Mapping[str, str], **options: str) -> None:
        self.databases = databases
        self._given = {"databases": named(databases), "queue": ONE, **options}
        self.offset: dict[str, Any] | None = None

    def stream(self, **options: str) -> ClusterStreamReader:
        given = {"maxMessagesPerTrigger": "1000", **self._given, **options}
        return ClusterStreamReader(source_options(given, {}), StructType())

    @contextmanager
    def opened(self, **options: str) -> Iterator[ClusterStreamReader]:
        """A stream that is stopped at the end."""
        stream = self.stream(**options)
        try:
            yield stream
        finally:
            stream.stop()

    def start(self) -> dict[str, Any]:
        """The first offset, or where the last batch ended."""
        if self.offset is None:
            with self.opened() as stream:
                self.offset = stream.initialOffset()
        return self.offset

    def batches(self, **options: str) -> list[list[Row]]:
        """Read all batches."""
        offset = self.start()
        found: list[list[Row]] = []
        with self.opened(**options) as stream:
            while (end := stream.latestOffset(offset, FEW)) != offset:
                end = json.loads(json.dumps(end))
                found.append(self.between(stream, offset, end))
                assert found[-1], "a batch without messages"
                offset = end
        self.offset = offset
        return found

    def read(self, **options: str) -> list[Row]:
        return [row for batch in self.batches(**options) for row in batch]

    def between(
        self, stream: ClusterStreamReader, start: dict[str, Any], end: dict[str, Any]
    ) -> list[Row]:
        return [row for part in stream.partitions(start, end) for row in rows(stream, part)]

    def all(self, **options: str) -> list[Row]:
        """Read everything as a batch."""
        given = {**self._given, **options}
        reader = ClusterReader(source_options(given, {}), StructType())
        return [row for part in reader.partitions() for row in rows(reader, part)]


def rows(reader: ClusterReader | ClusterStreamReader, part: Any) -> list[Row]:  # noqa: ANN401
    """The messages of a task."""
    return [
        (row["partition"], row["offset"], json.loads(row["payload"]))
        for batch in reader.read(part)
        for row in batch.to_pylist()
    ]
