"""What windows and transforms share: the settings of their streaming queries, and declarations."""

# pyright: basic
import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from typing import Any, Final

import msgspec
from pyspark.sql import SparkSession

from queen import errors
from queen.arrow.database import Connection, call, connect

SHUFFLE_PARTITIONS: Final = "spark.sql.shuffle.partitions"
_STATE_STORE: Final = "spark.sql.streaming.stateStore"
_DEFAULTS: Final = {
    # State on local disks instead of JVM memory, and only its changes per batch.
    f"{_STATE_STORE}.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    f"{_STATE_STORE}.rocksdb.changelogCheckpointing.enabled": "true",
}
"""Settings of a query that its session does not set."""
_ALWAYS: Final = {"spark.sql.streaming.noDataMicroBatches.enabled": "false"}
"""The source plans all batches. An additional one would shift the numbers of the others."""
_REMOTE_CORES: Final = 8
_MOST_TASKS: Final = 64
"""Default tasks on a large cluster. Each has a store and commits it in every batch."""
_OPERATIONAL: Final = frozenset(
    {"name", "checkpoint", "dsn", "read_dsn", "every", "once", "max_messages_per_trigger", "tasks"}
)
"""Fields of a declaration that don't change its results."""


def settings(spark: SparkSession, tasks: int | None = None) -> dict[str, str]:
    """
    Return Spark's settings for a query, without those that the session sets itself.

    Spark's own default of 200 shuffle partitions would be 200 tasks and state stores per batch.
    The checkpoint keeps the number and the kind of the stores, so later runs don't change them.
    """
    context = getattr(spark, "sparkContext", None)  # A session of Spark Connect has none.
    cores = _REMOTE_CORES if context is None else context.defaultParallelism
    defaults = {SHUFFLE_PARTITIONS: str(tasks or min(cores, _MOST_TASKS)), **_DEFAULTS}
    chosen = set(spark.conf.getAll) - ({SHUFFLE_PARTITIONS} if tasks else set())
    return _ALWAYS | {name: value for name, value in defaults.items() if name not in chosen}


@contextmanager
def with_settings(spark: SparkSession, changes: Mapping[str, str]) -> Iterator[None]:
    """Change the session's settings for a query that starts in the block and copies them."""
    before = spark.conf.getAll
    for name, value in changes.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name in changes:
            if name in before:
                spark.conf.set(name, before[name])
            else:
                spark.conf.unset(name)


def declare(kind: str, config: Any) -> None:  # noqa: ANN401 - its Config
    """Check a declaration before its query starts, on the database of the driver."""
    dsn = config.dsn or os.environ.get("DATABASE_URL")
    if dsn is not None:  # With Spark Connect, only the server may have one.
        with connect(dsn) as connection:
            check_declaration(connection, kind, config.name, config)


def check_declaration(
    connection: Connection, kind: str, name: str, declaration: msgspec.Struct
) -> None:
    """Store the declaration of a pipeline. Raises InvalidOption if it began with another one."""
    fields = _hashes(declaration)
    stored = msgspec.json.encode(fields).decode()
    (row,) = call(connection, "declare", f"{kind}:{name}", stored)
    before: dict[str, str] = msgspec.json.decode(row["fields"])
    changed = [each for each in sorted({*before, *fields}) if before.get(each) != fields.get(each)]
    if changed:
        raise errors.InvalidOption(
            f"{', '.join(changed)}: the {kind} {name} began with {_other(changed)}, and its"
            " checkpoint and batches belong to that declaration: restore it, or choose another"
            " name and another checkpoint"
        )


def _other(changed: Collection[str]) -> str:
    return "another value" if len(changed) == 1 else "other values"


def _hashes(declaration: msgspec.Struct) -> dict[str, str]:
    """Return a hash of each field that decides the results. A default has none."""
    hashes: dict[str, str] = {}
    for field in msgspec.structs.fields(declaration):
        value = getattr(declaration, field.name)
        if field.name not in _OPERATIONAL and value != field.default:
            encoded = msgspec.json.encode(value, order="sorted")
            hashes[field.encode_name] = sha256(encoded).hexdigest()[:32]
    return hashes
