"""What commands print: tables for people, JSON for programs; data on stdout, the rest on stderr."""

import csv
import io
import json
import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final, cast

_PLAIN_KEY: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_MASKED: Final = frozenset({"data", "payload", "name"})
"""Fields that say so where they are masked: others may be null besides."""
_WORDS_OF_YAML: Final = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n"})


class Format(StrEnum):
    """How data is printed."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    JSONL = "jsonl"
    YAML = "yaml"
    CSV = "csv"
    NAME = "name"


def show(rows: Iterable[Any], columns: Sequence[str], format_: Format) -> None:
    """Print structs: the columns named as a table, or everything for programs."""
    plain = [plain_of(row) for row in rows]
    if format_ is Format.JSON:
        print(json.dumps(plain, indent=2, ensure_ascii=False))
    elif format_ is Format.JSONL:
        for row in plain:
            print(json.dumps(row, ensure_ascii=False))
    elif format_ is Format.YAML:
        print("\n".join(yaml_lines(plain)))
    elif format_ is Format.NAME:
        for row in plain:
            print(safe(str(row[columns[0]])))
    elif format_ is Format.CSV:
        _csv(plain, columns)
    else:
        _table(plain, _all(plain, columns) if format_ is Format.WIDE else columns, format_)


def show_one(row: Any, format_: Format) -> None:  # noqa: ANN401 - any struct
    """Print one struct: a line a field, or as programs read it."""
    plain = plain_of(row)
    if format_ in (Format.JSON, Format.JSONL):
        print(json.dumps(plain, indent=2 if format_ is Format.JSON else None, ensure_ascii=False))
    elif format_ is Format.YAML:
        print("\n".join(yaml_lines(plain)))
    elif format_ is Format.CSV:
        _csv([plain], [])
    elif format_ is Format.NAME:
        print(safe(str(next(iter(plain.values()), ""))))
    else:
        width = max(map(len, plain), default=0)
        for name in plain:
            print(f"{name:<{width}}  {field(plain, name)}")


def say(text: str) -> None:
    """For people; programs do not read it."""
    if "QUEEN_QUIET" not in os.environ:
        print(text, file=sys.stderr)


def plain_of(row: Any) -> dict[str, Any]:  # noqa: ANN401 - any struct
    """As the wire has it, payloads included."""
    import msgspec

    return json.loads(msgspec.json.encode(row))


def cell(value: Any) -> str:  # noqa: ANN401 - of JSON
    """An unknown is a dash, never a zero."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False)
    return safe(str(value))


def field(row: Mapping[str, Any], name: str) -> str:
    """One cell of a row; what is masked says so."""
    if row.get("masked") is True and name in _MASKED and row.get(name) is None:
        return "masked"
    return cell(row.get(name))


def safe(text: str) -> str:
    """Text of others cannot steer the terminal: what is no printable character is spelt out."""
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in text
    )


def yaml_lines(value: Any, indent: str = "") -> list[str]:  # noqa: ANN401 - of JSON
    """YAML in blocks; strings that could be read as something else are quoted as in JSON."""
    if isinstance(value, dict) and value:
        return list(_yaml_fields(cast("dict[str, Any]", value), indent))
    if isinstance(value, list) and value:
        lines: list[str] = []
        for each in cast("list[Any]", value):
            first, *rest = yaml_lines(each, indent + "  ")
            lines += [f"{indent}- {first.removeprefix(indent + '  ')}", *rest]
        return lines
    return [indent + _yaml_scalar(value)]


def _yaml_fields(fields: dict[str, Any], indent: str) -> Iterator[str]:
    for name, value in fields.items():
        key = _yaml_scalar(name)
        if isinstance(value, dict | list) and value:
            yield f"{indent}{key}:"
            yield from yaml_lines(value, indent + "  ")
        elif isinstance(value, str) and "\n" in value.rstrip("\n") and _is_block(value):
            yield f"{indent}{key}: |" + ("" if value.endswith("\n") else "-")
            yield from (f"{indent}  {line}".rstrip() for line in value.splitlines())
        else:
            yield f"{indent}{key}: {_yaml_scalar(value)}"


def _yaml_scalar(value: Any) -> str:  # noqa: ANN401 - of JSON
    if isinstance(value, str):
        return value if _is_plain(value) else _yaml_text(value)
    text = json.dumps(value)
    # Some read an exponent only behind a point.
    return text.replace("e", ".0e") if isinstance(value, float) and "." not in text else text


def _yaml_text(text: str) -> str:
    """In quotes; what is not printable as YAML escapes it, by code point and not by surrogates."""
    plain = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(x if x.isprintable() else f"\\U{ord(x):08x}" for x in plain) + '"'


def _is_plain(text: str) -> bool:
    return bool(_PLAIN_KEY.fullmatch(text)) and text.lower() not in _WORDS_OF_YAML


def _is_block(text: str) -> bool:
    lines = text.splitlines()
    return all(line.isprintable() and line == line.rstrip() for line in lines) and not (
        lines[0].startswith(" ") or text.endswith("\n\n")
    )


def _all(rows: list[dict[str, Any]], columns: Sequence[str]) -> list[str]:
    """The columns named, then whatever else a row has."""
    return list(dict.fromkeys([*columns, *(name for row in rows for name in row)]))


def _csv(rows: list[dict[str, Any]], columns: Sequence[str]) -> None:
    names = _all(rows, columns)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    for row in rows:
        values = [row.get(name) for name in names]
        # An unknown is an empty cell; what is nested is JSON.
        writer.writerow(
            [
                json.dumps(each, ensure_ascii=False)
                if isinstance(each, dict | list | bool)
                else each
                for each in values
            ]
        )
    print(text.getvalue(), end="")


def _table(rows: list[dict[str, Any]], columns: Sequence[str], format_: Format) -> None:
    if not rows:
        say("nothing there")
        return
    cells = [[field(row, column) for column in columns] for row in rows]
    widths = [max(map(len, column)) for column in zip(columns, *cells, strict=True)]
    room = None
    if format_ is Format.TABLE and sys.stdout.isatty():
        room = shutil.get_terminal_size().columns
    for line in ([*columns], *cells):
        text = "  ".join(f"{each:<{w}}" for each, w in zip(line, widths, strict=True)).rstrip()
        if room is not None and len(text) > room:
            text = text[: room - 1] + "…"
        print(text)


def instant(text: str) -> datetime:
    """An ISO time, or a time ago: ``-15m``."""
    from queen import errors
    from queen.client.durations import seconds_of

    if text.startswith("-"):
        return datetime.fromtimestamp(datetime.now(UTC).timestamp() - seconds_of(text[1:]), UTC)
    try:
        at = datetime.fromisoformat(text)
    except ValueError as error:
        raise errors.BadRequest(f"{text!r} is no time: write 2026-01-31T12:00Z or -15m") from error
    return at if at.tzinfo else at.replace(tzinfo=UTC)
