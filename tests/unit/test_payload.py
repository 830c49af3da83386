"""A payload is JSON in UTF-8 and not too deep."""

import json

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from queen.codec import payload
from queen.errors import InvalidItem

DEPTH = 64

GOOD = [
    b"null",
    b" 1 ",
    b"-0",
    b"1e131071",
    b"12345678901234567890123456789",
    b'"\\u0000"',
    b'"\\ud83d\\udc22"',
    '"🐢"'.encode(),
    b'{"a":1,"a":2}',
    b"[" * DEPTH + b"]" * DEPTH,
    b'"' + b"[" * 200 + b'\\"' + b"{" * 200 + b'"',
    b"[" + b",".join([b"[]"] * 500) + b"]",
]

BAD = [
    b"",
    b" ",
    b"{",
    b"1 2",
    b"1,2",
    b"1],[1",
    b"nul",
    b"NaN",
    b"Infinity",
    b"01",
    b"+1",
    b"'a'",
    b"{a:1}",
    b"[1,]",
    b'"\x00"',
    b'"\n"',
    b'"\xff"',
    b'"\xc3"',
    b'"\xed\xa0\x80"',
    b'"\\ud800 tail that is long"',
    b'"\\udc00 tail that is long"',
    b"\xef\xbb\xbf1",
    b"[" * (DEPTH + 1) + b"]" * (DEPTH + 1),
    b'{"a":' * (DEPTH + 1) + b"1" + b"}" * (DEPTH + 1),
    b"[" * 100_000 + b"]" * 100_000,
    b"[" * 100_000,
]

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=10),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=10,
)


@pytest.mark.parametrize("good", GOOD, ids=range(len(GOOD)))
def test_good_json_passes(good: bytes) -> None:
    payload.check(good, DEPTH)


@pytest.mark.parametrize("bad", BAD, ids=range(len(BAD)))
def test_bad_json_is_refused_with_a_reason(bad: bytes) -> None:
    with pytest.raises(InvalidItem, match="the payload is"):
        payload.check(bad, DEPTH)


@pytest.mark.parametrize("bad", BAD, ids=range(len(BAD)))
def test_a_bad_payload_is_never_certainly_good(bad: bytes) -> None:
    assert not payload.are_valid([bad], DEPTH)
    assert not payload.are_valid([b"1", bad, b'"x"'], DEPTH)
    assert not payload.are_valid([bad, bad], DEPTH)


@pytest.mark.parametrize(
    "pieces",
    [
        [b'"a', b'b"'],
        [b"[1", b"2]"],
        [b"1,2", b'"x', b'y"'],
        [b'{"a":[1', b"2]}", b"3"],
        [b"1],[1", b"2"],
        [b'"a","b"', b""],
        [b"", b""],
    ],
    ids=range(7),
)
def test_bad_pieces_cannot_make_a_good_whole(pieces: list[bytes]) -> None:
    assert not payload.are_valid(pieces, DEPTH)


@given(st.lists(values, min_size=1, max_size=5))
@settings(max_examples=25)
def test_whatever_json_writes_is_good(several: list[object]) -> None:
    encoded = [msgspec.json.encode(each) for each in several]

    assert payload.are_valid(encoded, DEPTH)
    for each in encoded:
        payload.check(each, DEPTH)


@given(st.lists(st.binary(max_size=6), min_size=1, max_size=4))
@settings(max_examples=100)
def test_all_are_certainly_good_only_if_each_is(several: list[bytes]) -> None:
    if payload.are_valid(several, DEPTH):
        for each in several:
            json.loads(each.decode("utf-8"))


def test_the_depth_counts_brackets_outside_of_strings_alone() -> None:
    payload.check(b'[{"a":["]}]}"]}]', 3)
    with pytest.raises(InvalidItem, match="deeper than 2"):
        payload.check(b'[{"a":["]}]}"]}]', 2)
    payload.check(b'["\\\\", [1]]', 2)


def test_lists_and_objects_in_turn_cannot_hide_their_depth() -> None:
    deep = b'[{"":' * 36 + b"0" + b"}]" * 36

    assert not payload.are_valid([b"0", deep], 64)
    assert payload.are_valid([b"0", deep], 72)
