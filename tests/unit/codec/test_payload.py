"""A payload is JSON in UTF-8 with a limited depth."""

import json
import time

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

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
def test_valid_json_passes(good: bytes) -> None:
    payload.check(good, DEPTH)


@pytest.mark.parametrize("bad", BAD, ids=range(len(BAD)))
def test_invalid_json_is_rejected_with_a_reason(bad: bytes) -> None:
    with pytest.raises(InvalidItem, match="the payload is"):
        payload.check(bad, DEPTH)


@pytest.mark.parametrize("bad", BAD, ids=range(len(BAD)))
def test_the_fast_check_never_accepts_an_invalid_payload(bad: bytes) -> None:
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
def test_invalid_pieces_do_not_become_valid_together(pieces: list[bytes]) -> None:
    assert not payload.are_valid(pieces, DEPTH)


@given(st.lists(values, min_size=1, max_size=5))
@settings(max_examples=25)
def test_encoded_json_is_valid(several: list[object]) -> None:
    encoded = [msgspec.json.encode(each) for each in several]

    assert payload.are_valid(encoded, DEPTH)
    for each in encoded:
        payload.check(each, DEPTH)


@given(st.lists(st.binary(max_size=6), min_size=1, max_size=4))
@settings(max_examples=100)
def test_the_fast_check_accepts_only_valid_payloads(several: list[bytes]) -> None:
    if payload.are_valid(several, DEPTH):
        for each in several:
            json.loads(each.decode("utf-8"))


def test_only_brackets_outside_strings_count() -> None:
    payload.check(b'[{"a":["]}]}"]}]', 3)
    with pytest.raises(InvalidItem, match="deeper than 2"):
        payload.check(b'[{"a":["]}]}"]}]', 2)
    payload.check(b'["\\\\", [1]]', 2)


def test_alternating_lists_and_objects_count() -> None:
    deep = b'[{"":' * 36 + b"0" + b"}]" * 36

    assert not payload.are_valid([b"0", deep], 64)
    assert payload.are_valid([b"0", deep], 72)


def depth_by_bytes(text: bytes) -> int:
    """The reference: byte by byte."""
    depth = deepest = 0
    is_string = is_escaped = False
    for byte in text:
        if is_string:
            is_string = is_escaped or byte != ord('"')
            is_escaped = byte == ord("\\") and not is_escaped
        elif byte == ord('"'):
            is_string = True
        elif byte in b"{[":
            depth += 1
            deepest = max(deepest, depth)
        elif byte in b"}]":
            depth -= 1
    return deepest


def is_deeper(text: bytes, most: int) -> bool:
    try:
        payload.check(text, most)
    except InvalidItem as error:
        return "deeper" in str(error)
    return False


tricky = st.text(st.sampled_from('[]{}"\\,:n/ é'), max_size=12)
nested = st.recursive(
    st.none() | st.integers() | tricky,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(tricky, inner, max_size=4),
    max_leaves=30,
)


@given(nested, st.booleans(), st.sampled_from([None, 1]))
@settings(max_examples=500)
def test_the_depth_equals_a_byte_by_byte_count(
    value: object, is_ascii: bool, indent: int | None
) -> None:
    text = json.dumps(value, ensure_ascii=is_ascii, indent=indent).encode()
    depth = depth_by_bytes(text)

    assert not is_deeper(text, depth)
    assert depth == 0 or is_deeper(text, depth - 1)


@pytest.mark.parametrize(
    ("text", "depth"),
    [
        (b'"[\\"[["', 0),
        (b'["\\\\",["]"]]', 2),
        (b'["\\\\\\"[",[]]', 2),
        (b'["\\n\\"[["]', 1),
        (b'["","[",""]', 1),
        (b'{"[":{"\\u005b\\\\":[]}}', 3),
    ],
)
def test_brackets_in_strings_and_after_escapes_do_not_count(text: bytes, depth: int) -> None:
    assert depth_by_bytes(text) == depth
    assert not is_deeper(text, depth)
    assert depth == 0 or is_deeper(text, depth - 1)


def test_a_megabyte_with_a_hundred_thousand_brackets_takes_milliseconds() -> None:
    text = b"[" + b",".join([b'{"key":"value, with"}'] * 49_000) + b"]"
    assert len(text) > 1_000_000

    def seconds() -> float:
        begun = time.process_time()
        payload.check(text, DEPTH)
        return time.process_time() - begun

    # The CPU time of the best of five, because other programs use the machine.
    assert min(seconds() for _ in range(5)) < 0.02
