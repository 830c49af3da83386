"""A message id is a UUID of version 8 that contains the message's place."""

from hashlib import sha256
from uuid import UUID

import pytest
from hypothesis import given, settings, strategies as st

from queen.codec.ids import (
    Place,
    dedup_key,
    id_runs,
    message_id,
    message_ids,
    place_of,
    places_of,
)

shards = st.integers(0, 2**10 - 1)
partitions = st.integers(0, 2**48 - 1)
offsets = st.integers(0, 2**54 - 1)


@given(shards, partitions, offsets)
@settings(max_examples=50)
def test_an_id_round_trips(shard: int, partition_id: int, offset: int) -> None:
    name = message_id(shard, partition_id, offset)

    assert place_of(name) == Place(shard, partition_id, offset)
    assert (UUID(name).version, UUID(name).variant) == (8, "specified in RFC 4122")
    assert str(UUID(name)) == name


@given(shards, partitions, st.sampled_from([0, 5, 2**42 - 3, 2**42, 2**53]), st.integers(0, 9))
@settings(max_examples=50)
def test_ids_of_a_range_equal_single_ids(
    shard: int, partition_id: int, first: int, count: int
) -> None:
    each = [message_id(shard, partition_id, first + n).encode() for n in range(count)]

    assert message_ids(shard, partition_id, first, first + count) == each


@given(
    shards,
    partitions,
    st.sampled_from([0, 5, 2**42 - 3, 2**42, 2**53 - 1]),
    st.sampled_from([1, 2, 9, 2**42 + 5]),
)
@settings(max_examples=50)
def test_ids_of_a_run_differ_in_their_last_digits(
    shard: int, partition_id: int, first: int, count: int
) -> None:
    runs = id_runs(first, first + count)

    assert [runs[0][0], *(end for _, end in runs)] == [*(start for start, _ in runs), first + count]
    for start, end in runs:
        name, last = (message_id(shard, partition_id, offset) for offset in (start, end - 1))
        assert last == f"{name[:-12]}{int(name[-12:], 16) + end - 1 - start:012x}"


@given(st.tuples(shards, partitions, offsets), st.tuples(shards, partitions, offsets))
@settings(max_examples=50)
def test_ids_are_unique(one: tuple[int, int, int], two: tuple[int, int, int]) -> None:
    assert (message_id(*one) == message_id(*two)) == (one == two)


@pytest.mark.parametrize("place", [(0, 0, 0), (1023, 2**48 - 1, 2**54 - 1), (5, 1, 2**42)])
def test_the_largest_and_smallest_ids_round_trip(place: tuple[int, int, int]) -> None:
    assert place_of(message_id(*place)) == place


def test_ids_of_a_partition_increase_with_the_offset() -> None:
    names = [message_id(3, 7, offset) for offset in (0, 1, 2**20, 2**42 - 1, 2**42, 2**53)]

    assert names == sorted(names)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "order-7",
        "00000000-0001-4000-8000-000000000000",
        "00000000-0001-8000-0000-000000000000",
        "00000000-0001-8000-8000-400000000000",
        "00000000-0001-8000-8000-00000000000",
        "00000000-0001-8000-8000-0000000000000",
        "00000000000180008000000000000000",
        "00000000-0001-8000-8000-00000000000G",
        "00000000-0001-8000-8000-00000000000\n",
        "00000000-0001-8000-8000-00000000000A",
        "\u0660" * 8 + "-0001-8000-8000-000000000000",
    ],
)
def test_a_foreign_id_has_no_place(name: str) -> None:
    assert place_of(name) is None


@given(st.text(max_size=50))
@settings(max_examples=50)
def test_any_text_is_a_valid_id_or_has_no_place(text: str) -> None:
    place = place_of(text)

    assert place is None or message_id(*place) == text


def test_a_dedup_key_has_16_bytes_and_depends_on_every_character() -> None:
    keys = {dedup_key(7, text) for text in ("", "a", "b", "ab", "a\0", "é", "e\u0301")}

    assert len(keys | {dedup_key(8, "a")}) == 8
    assert {len(key) for key in keys} == {16}
    expected = sha256(bytes([0, 0, 0, 0, 0, 0, 0, 7]) + b"order-7").digest()[:16]
    assert dedup_key(7, "order-7") == expected


@given(shards, partitions, st.lists(offsets, min_size=1, max_size=20))
@settings(max_examples=50)
def test_ids_of_one_partition_are_decoded_together_or_not_at_all(
    shard: int, partition_id: int, several: list[int]
) -> None:
    found = places_of([message_id(shard, partition_id, each) for each in several])

    assert found in (None, (partition_id, several))
    assert found is not None or len({each >> 42 for each in several}) > 1


@pytest.mark.parametrize(
    "other",
    [
        message_id(0, 2, 1),
        message_id(1, 1, 1),
        message_id(0, 1, 2**42),
        message_id(0, 1, 10)[:-1] + "A",
        message_id(0, 1, 1) + "0",
        message_id(0, 1, 1)[:-1],
        message_id(0, 1, 1)[:-12] + "+00000000001",
        message_id(0, 1, 1)[:-12] + "0_0000000001",
        message_id(0, 1, 1)[:-12] + "040000000001",
        "mine",
    ],
)
def test_a_different_id_prevents_decoding_together(other: str) -> None:
    assert places_of([message_id(0, 1, 0), other]) is None
