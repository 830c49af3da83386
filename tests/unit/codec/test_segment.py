"""Body and ends of a segment are, byte for byte, an Arrow string array."""

import struct
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from queen.codec import segment
from queen.codec.segment import Segment

pyarrow: Any = pytest.importorskip("pyarrow")

texts = st.lists(st.text(max_size=20), min_size=1, max_size=30)
blobs = st.lists(st.binary(max_size=20), min_size=1, max_size=30)
extras = st.lists(st.none() | st.binary(min_size=1, max_size=20), min_size=1, max_size=30)


def column_of(kind: Any, body: bytes, ends: bytes) -> list[Any]:  # noqa: ANN401
    """The column that Arrow reads from the two buffers, without a copy."""
    buffers = [None, pyarrow.py_buffer(ends), pyarrow.py_buffer(body)]
    column = pyarrow.Array.from_buffers(kind, len(ends) // 4 - 1, buffers)
    column.validate(full=True)
    return column.to_pylist()


def stored(payloads: list[bytes], beside: list[bytes | None] | None = None) -> Segment:
    body, ends = segment.encode(payloads)
    encoded = segment.encode_extras(beside or [])
    return Segment(xid=1, count=len(payloads), body=body, ends=ends, extras=encoded)


@given(texts)
@settings(max_examples=25, deadline=None)  # Arrow loads pandas on first use.
def test_arrow_reads_a_segment_as_a_string_column(payloads: list[str]) -> None:
    body, ends = segment.encode([payload.encode() for payload in payloads])

    assert column_of(pyarrow.string(), body, ends) == payloads
    array = pyarrow.StringArray.from_buffers(
        len(payloads), pyarrow.py_buffer(ends), pyarrow.py_buffer(body)
    )
    assert array.to_pylist() == payloads


@given(blobs)
@settings(max_examples=25, deadline=None)  # Arrow loads pandas on first use.
def test_arrow_reads_a_segment_as_a_binary_column(payloads: list[bytes]) -> None:
    body, ends = segment.encode(payloads)

    assert column_of(pyarrow.binary(), body, ends) == payloads
    assert pyarrow.array(payloads, pyarrow.binary()).buffers()[1].to_pybytes()[: len(ends)] == ends


def test_ends_are_little_endian_from_zero() -> None:
    body, ends = segment.encode([b"ab", b"", b"cde"])

    assert body == b"abcde"
    assert struct.unpack("<4i", ends) == (0, 2, 2, 5)


@given(blobs, st.integers(0, 2**20))
@settings(max_examples=25)
def test_ends_of_longer_values_are_computed_from_the_ends(payloads: list[bytes], more: int) -> None:
    longer = [payload + bytes(more) for payload in payloads[:8]]
    ends = segment.ends_of(payloads[:8])
    assert segment.ends_with_more(ends, more) == segment.ends_of(longer)


def test_buffers_of_any_kind_are_joined() -> None:
    body, ends = segment.encode([b"a", bytearray(b"bc"), memoryview(b"def")])

    assert (body, struct.unpack("<4i", ends)) == (b"abcdef", (0, 1, 3, 6))


@given(blobs, st.data())
@settings(max_examples=25)
def test_a_slice_of_a_segment_is_a_slice_of_its_payloads(
    payloads: list[bytes], data: st.DataObject
) -> None:
    first = data.draw(st.integers(0, len(payloads)))
    end = data.draw(st.integers(first, len(payloads)))

    assert stored(payloads).payloads(first, end) == payloads[first:end]


@given(extras, st.data())
@settings(max_examples=25)
def test_extras_of_some_messages_round_trip(
    beside: list[bytes | None], data: st.DataObject
) -> None:
    first = data.draw(st.integers(0, len(beside)))
    end = data.draw(st.integers(first, len(beside)))

    assert stored([b"x"] * len(beside), beside).extras(first, end) == beside[first:end]


def test_a_segment_without_extras_stores_none() -> None:
    assert segment.encode_extras([None, None]) is None
    assert segment.encode_extras([None, b""]) is None
    assert stored([b"x"] * 3).extras(0, 3) == [None] * 3


def test_extras_have_the_same_layout_with_positions_first() -> None:
    encoded = segment.encode_extras([None, b"ab", None, b"c"])

    assert encoded is not None
    assert struct.unpack("<5i", encoded[:20]) == (0, 0, 2, 2, 3)
    assert encoded[20:] == b"abc"


def test_the_size_includes_all_stored_bytes() -> None:
    plain, marked = stored([b"x" * 100]), stored([b"x" * 100], [b"y" * 50])

    assert plain.size_bytes >= 100 + 8
    assert marked.size_bytes >= plain.size_bytes + 50 + 8
