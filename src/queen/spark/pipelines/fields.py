"""What windows and transforms share: fields of payloads, results as JSON, and Spark's errors."""

# pyright: basic
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from pyspark.errors import AnalysisException, IllegalArgumentException, ParseException
from pyspark.sql import Column, DataFrame, functions as F

from queen import errors

_KEPT: Final = ("partition", "offset", "createdAt")
"""Columns of a message, in addition to the fields of its payload."""
_JSON: Final = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSXXX", "ignoreNullFields": "false"}


def fields_of(messages: DataFrame, schema: str | None) -> DataFrame:
    """Return the columns that expressions can use: those of payloads hide those of messages."""
    if schema is None:
        return messages
    parsed = messages.select(*_KEPT, F.from_json("payload", schema).alias("parsed"))
    hidden = {name.lower() for name in parsed.select("parsed.*").columns}
    return parsed.select(*(name for name in _KEPT if name.lower() not in hidden), "parsed.*")


def column(name: str) -> Column:
    """Return a column by its name, which may contain any character."""
    return F.col(f"`{name.replace('`', '``')}`")


def as_partition(value: Column) -> Column:
    """Return a partition. It needs a name, so results without one share a default partition."""
    return F.nullif(value.cast("string"), F.lit("")).alias("partition")


def as_json(names: list[str]) -> Column:
    """Return a payload with these columns."""
    return F.to_json(F.struct(*map(column, names)), _JSON).alias("payload")


@contextmanager
def explained(kind: str, name: str) -> Iterator[None]:
    """Convert Spark's errors about a declaration to InvalidOption."""
    try:
        yield
    except (AnalysisException, IllegalArgumentException, ParseException) as error:
        if "queen.errors." in str(error):
            raise  # An error of the source or the sink.
        lines = [line for line in str(error).splitlines() if line.strip()]
        message = (lines[0] if lines else type(error).__name__).partition(" SQLSTATE:")[0]
        raise errors.InvalidOption(f"the {kind} {name} is invalid: {message}") from error
