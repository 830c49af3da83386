"""Payloads are parsed by a schema: the ones that don't fit become null, and cost little."""

# pyright: basic
import math
from typing import Any

import pyarrow as pa
import pytest

from queen.spark.format import payloads

NUMBERS = pa.struct([("number", pa.int64()), ("at", pa.timestamp("us", "UTC"))])
ODD = (
    *("1", "-0", "1.0", "1.5", "1e3", "1e999", "NaN", "Infinity", "300", "9223372036854775808"),
    *("true", "false", "null", '""', '"a"', '"1"', '"true"', '"\\ud800"', '"\\u0000"', "[]", "[1]"),
    *("[null]", '["a"]', "[1, null]", "{}", '{"a": 1}', '{"a": "x"}', '{"a": null}', '{"b": []}'),
    *('"2026-11-18"', '"2026-11-18T10"', '"2026-11-18 10:00"', '"2026-11-18T10:00:00"'),
    *('"2026-11-18T10:00:00Z"', '"2026-11-18T10:00:00.123456Z"', '"2026-11-18T10:00:00+02:00"'),
    *('"2026-02-30"', '"2026-13-01"', '"2026-11-18T24:00:00Z"', '"20261118"', '"0001-01-01"'),
    *('"2026-11-18T1000"', '"2026-11-18T23:59:60Z"', '"2026-11-18T10:00:00.1234567891Z"'),
)
"""Values at the borders of types."""
TYPES = (
    *(pa.bool_(), pa.int8(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.string()),
    *(pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.decimal128(9, 2), pa.list_(pa.int64())),
    *(pa.list_(pa.struct([("a", pa.int64())])), pa.struct([("a", pa.int64())])),
)


def parse(texts: list[str], type_: pa.StructType) -> list[Any]:
    batch = pa.RecordBatch.from_arrays([pa.array(texts, pa.string())], ["payload"])
    schema = pa.schema([("payload", type_)])
    return payloads.parse_payloads(batch, schema).column(0).to_pylist()


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of all blocks that Arrow parses."""
    sizes: list[int] = []
    parse_lines = payloads._parse_lines

    def counted(texts: pa.Array, wanted: pa.StructType) -> pa.Array:
        sizes.append(len(texts))
        return parse_lines(texts, wanted)

    monkeypatch.setattr(payloads, "_parse_lines", counted)
    return sizes


@pytest.mark.parametrize("every", [2, 40, 400])
def test_payloads_of_another_type_cost_one_more_pass(parsed: list[int], every: int) -> None:
    """Halving parsed half of them 16 times: a stream took two thousand times longer."""
    count = 40_000
    texts = [f'{{"number":{n if n % every else chr(34) * 2}}}' for n in range(count)]

    found = parse(texts, NUMBERS)

    assert [n for n, row in enumerate(found) if row is None] == list(range(0, count, every))
    assert [row["number"] for row in found if row] == [n for n in range(count) if n % every]
    assert sum(parsed) < 2 * count
    assert len(parsed) == 2


def test_payloads_that_only_arrow_rejects_are_searched_by_halves(parsed: list[int]) -> None:
    count = 2_000
    texts = ['{"number":1,"number":2}' if n % 2 else f'{{"number":{n}}}' for n in range(count)]

    found = parse(texts, NUMBERS)

    assert [n for n, row in enumerate(found) if row is None] == list(range(1, count, 2))
    assert sum(parsed) <= count * (math.log2(count) + 1)
    assert len(parsed) <= 1.5 * count


@pytest.mark.parametrize("type_", TYPES, ids=str)
def test_no_payload_that_arrow_reads_is_left_out(type_: pa.DataType) -> None:
    struct = pa.struct([("größe", type_)])
    texts = [f'{{"größe":{value}}}' for value in ODD]
    texts += [f'{{"größe":{value},"größe":{value}}}' for value in ODD]
    texts += [*ODD, '{"größe":1', '{"größe":1} {}', '\n{"größe": \n1}', '{"gr\\u00f6\\u00dfe":1}']

    def alone(text: str) -> Any:  # noqa: ANN401 - of any type
        try:
            return payloads._parse_lines(pa.array([text]), struct).to_pylist()[0]
        except pa.ArrowInvalid:
            return None

    found = parse(texts, struct)

    # NaN differs from itself.
    assert list(map(repr, found)) == [repr(alone(text)) for text in texts]


@pytest.mark.parametrize("count", [1, 100])
def test_all_payloads_can_have_another_type(parsed: list[int], count: int) -> None:
    assert parse(["[1]"] * count, NUMBERS) == [None] * count
    assert parsed == [count]


def test_a_batch_without_payloads_has_the_schema() -> None:
    assert parse([], NUMBERS) == []
