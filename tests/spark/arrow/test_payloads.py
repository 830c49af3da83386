"""Payloads become typed columns by layout, exactly as if each was decoded and checked singly."""

# pyright: basic
import json
import math
import re
from datetime import UTC, date, datetime, timedelta
from typing import Any

import jsonschema
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from queen.arrow import payloads
from queen.arrow.json_schema import parse_schema
from queen.arrow.payloads import PayloadParser

TIMES = [
    *("2026-11-18T12:00:00Z", "2026-11-18T12:00:00.123456Z", "2026-11-18T12:00:00.5+00:00"),
    *(
        "2024-02-29T23:59:59Z",
        "2026-02-29T00:00:00Z",
        "2026-11-18T24:00:00Z",
        "2026-11-31T00:00:00Z",
    ),
    *("2026-11-18T12:00:60Z", "2026-11-18T12:00:00", "2026-11-18T12:00Z", "2026-11-18T12:00:00.Z"),
    *("2026-11-18T12:00:00.1234567Z", "2026-11-18T12:00:00+02:00", "0000-01-01T00:00:00Z"),
    *("2026-11-18 12:00:00Z", "2026-11-18T12:00:00+24:00", "2026-11-18T12:00:0xZ", "now", ""),
]
DATES = ["2026-11-18", "2024-02-29", "2026-02-29", "2026-1-1", "0000-01-01", "2026-11-18T", "x"]
NUMBERS = [
    *("0", "1", "-1", "42", "1.0", "1.5", "-0", "-0.0", "1e3", "1E-2", "01", "-", "1.", ".5", "+1"),
    *("9223372036854775807", "9223372036854775808", "-9223372036854775808", "123456789012345678"),
    *("12345678901234567890123", "9007199254740993.0", "9007199254740992.0", "1e400", "NaN"),
    *("0.1", "123456.789012", "1.7976931348623157e308", "0.1234567890123456789", "2.5e-320"),
]
OTHERS = [
    "null",
    "true",
    "false",
    "{}",
    "[]",
    '{"x": 1}',
    "[1, null]",
    '["a"]',
    "nul",
    '{"x": "a"}',
]
STRINGS = ["", "Ada", "a" * 40, "ä", "😀 and more", 'a"b', "a\\b", "tab\t", "null", "\x00", "42"]
TEXTS = [*NUMBERS, *OTHERS, *(json.dumps(each) for each in [*TIMES, *DATES, *STRINGS])] + [
    json.dumps(each, ensure_ascii=False) for each in STRINGS
]
PARTS = [
    *({"type": each} for each in ("string", "integer", "number", "boolean")),
    *({"type": [each, "null"]} for each in ("string", "integer", "number", "boolean")),
    {"type": "string", "format": "date-time"},
    {"type": ["string", "null"], "format": "date-time"},
    {"type": "string", "format": "date"},
    {"oneOf": [{"type": "string"}, {"type": "integer"}, {"type": "object"}]},
    {"type": "object", "properties": {"x": {"type": "integer"}}},
    {"type": "object", "required": ["x"], "properties": {"x": {"type": "integer"}}},
    {"type": "array", "items": {"type": ["integer", "null"]}},
    {"type": "array", "items": {"type": "object", "properties": {"x": {"type": "integer"}}}},
]
FIT = {"string": '"s"', "integer": "7", "number": "1.5", "boolean": "true", "array": "[1]"}


@pytest.fixture(autouse=True)
def _by_layout(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use layouts for a few payloads too."""
    monkeypatch.setattr(payloads, "_LEAST_ROWS", 1)
    monkeypatch.setattr(payloads, "_SKIPPED", 0)


def parser_of(schema: dict[str, Any]) -> PayloadParser:
    return PayloadParser(parse_schema(json.dumps(schema), "orders"))


class Misfit(Exception):
    """The oracle found that a payload doesn't fit."""


def judge(text: str, schema: dict[str, Any]) -> dict[str, Any] | None:
    """Return the row of a payload, or None if it doesn't fit, without code of Queen."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) != len(pairs):
            raise Misfit
        return dict(pairs)

    def constant(_: str) -> None:
        raise Misfit

    try:
        value = json.loads(text, object_pairs_hook=unique, parse_constant=constant)
        if not jsonschema.Draft202012Validator(without_choice(schema)).is_valid(value):
            return None
        return cell(value, schema)
    except (Misfit, json.JSONDecodeError):
        return None


def without_choice(schema: Any) -> Any:  # noqa: ANN401
    """A schema in which a property without one type accepts everything, as in the table."""
    if isinstance(schema, dict):
        return {name: without_choice(each) for name, each in schema.items() if name != "oneOf"}
    return schema


def cell(value: Any, schema: dict[str, Any]) -> Any:  # noqa: ANN401
    """The value in the table."""
    kinds = schema.get("type")
    kind = kinds if isinstance(kinds, str) else next(iter(kinds or ["json"]))
    if value is None:
        return None
    if kind == "json":
        return ("json", value)
    if kind == "object":
        return {name: cell(value.get(name), each) for name, each in schema["properties"].items()}
    if kind == "array":
        return [cell(each, schema["items"]) for each in value]
    if kind == "integer":
        if not -(2**63) <= value < 2**63 or (isinstance(value, float) and abs(value) > 2**53):
            raise Misfit
        return int(value)
    if kind == "number":
        return finite(value)
    return moment(value, schema["format"]) if "format" in schema else value


def finite(value: float) -> float:
    try:
        found = float(value)
    except OverflowError as error:
        raise Misfit from error
    if not math.isfinite(found):
        raise Misfit
    return found


def moment(text: str, format: str) -> date | datetime:
    try:
        if format == "date":
            if not re.fullmatch(r"\d{4}-\d\d-\d\d", text, re.ASCII):
                raise Misfit
            return date.fromisoformat(text)
        form = r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d)(\.\d+)?([Zz]|[+-]\d\d:?\d\d)"
        if not (found := re.fullmatch(form, text, re.ASCII)):
            raise Misfit
        day, clock, fraction, zone = found.groups()
        zone = "+00:00" if zone in "Zz" else zone
        whole = datetime.fromisoformat(f"{day}T{clock}{zone}").astimezone(UTC)
        return whole + timedelta(microseconds=round(float(fraction or 0) * 10**6))
    except ValueError as error:
        raise Misfit from error


def comparable(row: Any, wanted: Any) -> Any:  # noqa: ANN401
    """Replace JSON texts by their meaning."""
    if isinstance(wanted, tuple):
        return ("json", json.loads(row))
    if isinstance(wanted, dict) and isinstance(row, dict):
        return {name: comparable(row[name], wanted.get(name)) for name in row}
    return row


@st.composite
def batches(draw: st.DrawFn) -> tuple[dict[str, Any], list[str]]:
    """A schema, and texts in few layouts, most of which differ in a value or two."""
    names = ["a", "bb", "name-with-20-letters", "ü"][: draw(st.integers(1, 4))]
    parts = {name: draw(st.sampled_from(PARTS)) for name in names}
    required = [name for name in names if draw(st.booleans())]
    schema = {"type": "object", "required": required, "properties": parts}
    comma, colon = draw(st.sampled_from([(",", ":"), (", ", ": ")]))
    base = {name: fitting(part) for name, part in parts.items()}
    if draw(st.booleans()):
        base["other"] = draw(st.sampled_from(TEXTS))
    texts = []
    for _ in range(draw(st.integers(1, 12))):
        row = dict(base)
        for name in draw(st.lists(st.sampled_from(list(row)), max_size=2)):
            row[name] = draw(st.sampled_from(TEXTS))
        if draw(st.integers(0, 5)) == 0:
            row.pop(draw(st.sampled_from(list(row))))
        text = comma.join(
            f"{json.dumps(name, ensure_ascii=False)}{colon}{row[name]}" for name in row
        )
        texts.append(mutated(draw, f"{{{text}}}"))
    return schema, texts


def fitting(part: dict[str, Any]) -> str:
    kinds = part.get("type", "string")
    kind = kinds if isinstance(kinds, str) else kinds[0]
    if "format" in part:
        return '"2026-11-18"' if part["format"] == "date" else '"2026-11-18T12:00:00.25Z"'
    if kind == "array":
        return "[]"
    return FIT.get(kind, '{"x":1}')


def mutated(draw: st.DrawFn, text: str) -> str:
    if draw(st.integers(0, 4)):
        return text
    at = draw(st.integers(0, len(text) - 1))
    return (
        text[:at] + draw(st.sampled_from(["", "0", "x", '"', ",", " ", "-", "}"])) + text[at + 1 :]
    )


@settings(
    max_examples=400,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(batches())
def test_payloads_fit_if_and_only_if_the_schema_allows_them(
    batch: tuple[dict[str, Any], list[str]],
) -> None:
    schema, texts = batch
    parser = parser_of(schema)

    (found,) = parser.parse(pa.array(texts, pa.string()))

    exact = parser.parse_exactly(pa.array(texts, pa.string()))
    assert found.data.equals(exact.data)
    assert found.misfit.equals(exact.misfit)
    wanted = [judge(text, schema) for text in texts]
    rows, reasons = found.data.to_pylist(), found.misfit.to_pylist()
    assert [reason is None for reason in reasons] == [row is not None for row in wanted], texts
    assert [comparable(*pair) for pair in zip(rows, wanted, strict=True)] == wanted
