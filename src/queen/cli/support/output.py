"""Output of commands: tables for people, JSON for programs. Data on stdout, the rest on stderr."""

import csv
import io
import json
import math
import os
import re
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final

_MASKED: Final = frozenset({"data", "payload", "name"})
"""Fields that are printed as masked. Other fields may be null for other reasons."""
_NUMBERS: Final = {
    "tag:yaml.org,2002:int": r"^(?:[-+]?[0-9]+|0o[0-7]+)$",
    "tag:yaml.org,2002:float": r"^[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$",
}
"""Numbers of YAML 1.2. PyYAML would write texts such as 08 and 1e3 without quotes."""


class Format(StrEnum):
    """The format of printed data."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    JSONL = "jsonl"
    YAML = "yaml"
    CSV = "csv"
    NAME = "name"


def show(rows: Iterable[Any], columns: Sequence[str], format_: Format) -> None:
    """Print structs: the given columns as a table, or all fields for programs."""
    plain = [plain_of(row) for row in rows]
    if format_ is Format.JSON:
        print(json.dumps(plain, indent=2, ensure_ascii=False))
    elif format_ is Format.JSONL:
        for row in plain:
            print(json.dumps(row, ensure_ascii=False))
    elif format_ is Format.YAML:
        print(yaml_text(plain), end="")
    elif format_ is Format.NAME:
        for row in plain:
            print(safe(str(row[columns[0]])))
    elif format_ is Format.CSV:
        _csv(plain, columns)
    else:
        _table(plain, _all(plain, columns) if format_ is Format.WIDE else columns, format_)


def show_one(row: Any, format_: Format) -> None:  # noqa: ANN401 - any struct
    """Print one struct: one line per field, or in a format for programs."""
    plain = plain_of(row)
    if format_ in (Format.JSON, Format.JSONL):
        print(json.dumps(plain, indent=2 if format_ is Format.JSON else None, ensure_ascii=False))
    elif format_ is Format.YAML:
        print(yaml_text(plain), end="")
    elif format_ is Format.CSV:
        _csv([plain], [])
    elif format_ is Format.NAME:
        print(safe(str(next(iter(plain.values()), ""))))
    else:
        width = max(map(len, plain), default=0)
        for name in plain:
            print(f"{name:<{width}}  {field(plain, name)}")


def say(text: str) -> None:
    """Print a text for people to stderr."""
    if "QUEEN_QUIET" not in os.environ:
        print(text, file=sys.stderr)


def plain_of(row: Any) -> dict[str, Any]:  # noqa: ANN401 - any struct
    """Return the fields as they are on the wire, with payloads."""
    import msgspec

    return json.loads(msgspec.json.encode(row))


def cell(value: Any) -> str:  # noqa: ANN401 - of JSON
    """Format a value. An unknown value is a dash, never a zero."""
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
    """Format one field of a row, or a marker if it is masked."""
    if row.get("masked") is True and name in _MASKED and row.get(name) is None:
        return "masked"
    return cell(row.get(name))


def safe(text: str) -> str:
    """Escape unprintable characters, so that a text can't control the terminal."""
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in text
    )


def yaml_text(value: Any) -> str:  # noqa: ANN401 - of JSON
    """Return YAML in block style, with characters escaped that control a terminal."""
    text = _dumped(value, allow_unicode=True)
    # PyYAML treats some of them as printable, such as those that reverse the text direction.
    if not text.replace("\n", "").isprintable():
        text = _dumped(value, allow_unicode=False)
    return text


def yaml_documents(values: Iterable[Any]) -> str:
    """Return several YAML documents."""
    return "".join(f"---\n{yaml_text(value)}" for value in values)


def _dumped(value: Any, *, allow_unicode: bool) -> str:  # noqa: ANN401 - of JSON
    import yaml  # Not at the top, because it takes 20 ms to import.

    class Dumper(yaml.SafeDumper):
        def ignore_aliases(self, data: object) -> bool:
            return True

    def text(_: Dumper, value: str) -> yaml.ScalarNode:
        style = "|" if "\n" in value else None
        return yaml.ScalarNode("tag:yaml.org,2002:str", value, style=style)

    Dumper.add_representer(str, text)
    for tag, pattern in _NUMBERS.items():
        Dumper.add_implicit_resolver(  # pyright: ignore[reportUnknownMemberType] - it has no types
            tag, re.compile(pattern), list("-+.0123456789")
        )
    dumped = yaml.dump(
        value, Dumper=Dumper, allow_unicode=allow_unicode, sort_keys=False, width=math.inf
    )
    return dumped.removesuffix("...\n")


def _all(rows: list[dict[str, Any]], columns: Sequence[str]) -> list[str]:
    """Return the given columns, then all others of a row."""
    return list(dict.fromkeys([*columns, *(name for row in rows for name in row)]))


def _csv(rows: list[dict[str, Any]], columns: Sequence[str]) -> None:
    names = _all(rows, columns)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    for row in rows:
        values = [row.get(name) for name in names]
        # An unknown value is an empty cell. Nested values are JSON.
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
        say("no results")
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


def json_of(text: str) -> Any:  # noqa: ANN401 - of JSON
    """Parse an argument. Raises BadRequest."""
    from queen import errors

    try:
        return json.loads(text)
    except ValueError as error:
        raise errors.BadRequest(f"{text[:80]!r} is not JSON: {error}") from error


def json_or_text(text: str) -> Any:  # noqa: ANN401 - of JSON
    """Parse JSON. Any other text is a string."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def pairs_of(texts: Sequence[str] | None, usage: str) -> dict[str, str]:
    """Split name=value arguments. Raises BadRequest."""
    from queen import errors

    pairs = [each.partition("=") for each in texts or ()]
    if wrong := [name for name, sign, _ in pairs if not sign]:
        raise errors.BadRequest(f"{wrong[0]!r}: write {usage}")
    return {name: value for name, _, value in pairs}


def instant(text: str) -> datetime:
    """Parse an ISO time, or a time ago: ``-15m``."""
    from queen import errors
    from queen.client.durations import seconds_of

    if text.startswith("-"):
        return datetime.fromtimestamp(datetime.now(UTC).timestamp() - seconds_of(text[1:]), UTC)
    try:
        at = datetime.fromisoformat(text)
    except ValueError as error:
        raise errors.BadRequest(
            f"{text!r} is not a time: write 2026-01-31T12:00Z or -15m"
        ) from error
    return at if at.tzinfo else at.replace(tzinfo=UTC)
