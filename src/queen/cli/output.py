"""What commands print: tables for people, JSON for programs; data on stdout, the rest on stderr."""

import json
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

import msgspec


class Format(StrEnum):
    """How data is printed."""

    TABLE = "table"
    JSON = "json"
    JSONL = "jsonl"
    NAME = "name"


def show(rows: Iterable[Any], columns: Sequence[str], format_: Format) -> None:
    """Print structs: the columns named as a table, or everything as JSON."""
    plain: list[dict[str, Any]] = [_plain(row) for row in rows]
    if format_ is Format.JSON:
        print(json.dumps(plain, indent=2, ensure_ascii=False))
    elif format_ is Format.JSONL:
        for row in plain:
            print(json.dumps(row, ensure_ascii=False))
    elif format_ is Format.NAME:
        for row in plain:
            print(row[columns[0]])
    else:
        _table(plain, columns)


def show_one(row: Any, format_: Format) -> None:  # noqa: ANN401 - any struct
    """Print one struct: a line a field, or JSON."""
    plain = _plain(row)
    if format_ in (Format.JSON, Format.JSONL):
        print(json.dumps(plain, indent=2 if format_ is Format.JSON else None, ensure_ascii=False))
        return
    width = max(map(len, plain), default=0)
    for name, value in plain.items():
        print(f"{name:<{width}}  {_cell(value)}")


def say(text: str) -> None:
    """For people; programs do not read it."""
    print(text, file=sys.stderr)


def _plain(row: Any) -> dict[str, Any]:  # noqa: ANN401 - any struct
    """As the wire has it, payloads included."""
    return json.loads(msgspec.json.encode(row))


def _table(rows: list[dict[str, Any]], columns: Sequence[str]) -> None:
    if not rows:
        say("nothing there")
        return
    cells = [[_cell(row.get(column)) for column in columns] for row in rows]
    widths = [max(map(len, column)) for column in zip(columns, *cells, strict=True)]
    for line in ([*columns], *cells):
        print("  ".join(f"{cell:<{w}}" for cell, w in zip(line, widths, strict=True)).rstrip())


def _cell(value: Any) -> str:  # noqa: ANN401 - of JSON
    """An unknown is a dash, never a zero."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False)
    return str(value)


def instant(text: str) -> datetime:
    """An ISO time, or a time ago: ``-15m``."""
    from queen.client.durations import seconds_of

    if text.startswith("-"):
        return datetime.fromtimestamp(datetime.now(UTC).timestamp() - seconds_of(text[1:]), UTC)
    at = datetime.fromisoformat(text)
    return at if at.tzinfo else at.replace(tzinfo=UTC)
