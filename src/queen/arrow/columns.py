"""The columns of a message, with their types in Arrow and Spark."""

# pyright: basic
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

import pyarrow as pa


class Column(NamedTuple):
    """A column of a message."""

    name: str
    arrow: pa.DataType = pa.string()
    spark: str = "string"
    is_optional: bool = False


_ALL: Final = (
    Column("queue"),
    Column("partition"),
    Column("offset", pa.int64(), "bigint"),
    Column("id"),
    Column("transactionId"),
    Column("payload"),
    Column("headers", is_optional=True),
    Column("traceId", is_optional=True),
    Column("createdAt", pa.timestamp("us", "UTC"), "timestamp"),
)
BY_NAME: Final[Mapping[str, Column]] = {column.name: column for column in _ALL}
COLUMNS: Final = tuple(BY_NAME)


def spark_schema(names: Iterable[str], **types: str) -> str:
    """Return the schema of some columns as DDL. ``types`` replaces types by name."""
    return ", ".join(f"`{name}` {types.get(name, BY_NAME[name].spark)}" for name in names)
