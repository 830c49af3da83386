"""A message id is a UUID of version 8 that contains the message's place."""

from hashlib import sha256
from uuid import UUID

import pytest
from hypothesis import given, settings, strategies as st

from queen.codec.ids import (
    NUMBER_BITS,
    PARTITION_BITS,
    SLOT_BITS,
    Lease,
    Place,
    dedup_key,
    id_of,
    id_runs,
    message_id,
    message_ids,
    place_of,
    places_of,
    reference,
)
from queen.errors import LeaseLost

SLOTS = (0, 1, 959, 2**SLOT_BITS - 1)
LAST_NUMBER = 2**NUMBER_BITS - 1
LAST_PARTITION = 2**PARTITION_BITS - 1
TOKEN = UUID("00112233-4455-6677-8899-aabbccddeeff")

offsets = st.integers(0, 2**54 - 1)


def an_id(slot: int, number: int) -> int:
    return slot << NUMBER_BITS | number


partitions = st.builds(an_id, st.integers(0, 2**SLOT_BITS - 1), st.integers(0, LAST_PARTITION))
everywhere = pytest.mark.parametrize("slot", SLOTS)


@given(partitions, offsets)
@settings(max_examples=50)
def test_an_id_round_trips(partition_id: int, offset: int) -> None:
    name = message_id(partition_id, offset)

    assert place_of(name) == Place(partition_id, offset)
    assert (UUID(name).version, UUID(name).variant) == (8, "specified in RFC 4122")
    assert str(UUID(name)) == name


@given(partitions, st.sampled_from([0, 5, 2**42 - 3, 2**42, 2**53]), st.integers(0, 9))
@settings(max_examples=50)
def test_ids_of_a_range_equal_single_ids(partition_id: int, first: int, count: int) -> None:
    each = [message_id(partition_id, first + n).encode() for n in range(count)]

    assert message_ids(partition_id, first, first + count) == each


@given(
    partitions,
    st.sampled_from([0, 5, 2**42 - 3, 2**42, 2**53 - 1]),
    st.sampled_from([1, 2, 9, 2**42 + 5]),
)
@settings(max_examples=50)
def test_ids_of_a_run_differ_in_their_last_digits(
    partition_id: int, first: int, count: int
) -> None:
    runs = id_runs(first, first + count)

    assert [runs[0][0], *(end for _, end in runs)] == [*(start for start, _ in runs), first + count]
    for start, end in runs:
        name, last = (message_id(partition_id, offset) for offset in (start, end - 1))
        assert last == f"{name[:-12]}{int(name[-12:], 16) + end - 1 - start:012x}"


@given(st.tuples(partitions, offsets), st.tuples(partitions, offsets))
@settings(max_examples=50)
def test_ids_are_unique(one: tuple[int, int], two: tuple[int, int]) -> None:
    assert (message_id(*one) == message_id(*two)) == (one == two)


@everywhere
@pytest.mark.parametrize("number", [0, 1, LAST_PARTITION])
@pytest.mark.parametrize("offset", [0, 2**42, 2**54 - 1])
def test_the_largest_and_smallest_ids_round_trip(slot: int, number: int, offset: int) -> None:
    place = (an_id(slot, number), offset)

    assert place_of(message_id(*place)) == place
    assert places_of([message_id(*place)] * 2) == (place[0], [offset] * 2)


@everywhere
@pytest.mark.parametrize("number", [1, LAST_PARTITION, LAST_NUMBER])
def test_references_and_leases_round_trip_in_every_slot(slot: int, number: int) -> None:
    id_ = an_id(slot, number)
    lease = Lease(id_, TOKEN, 1_700_000_000_000)

    assert id_ < 2**63
    assert reference(id_) == f"{slot}.{number}"
    assert id_of(reference(id_)) == id_
    assert Lease.parse(str(lease)) == lease


def test_ids_in_slot_0_keep_their_text() -> None:
    lease = f"0.77.1700000000000.{TOKEN.hex}"

    assert message_id(5, 7) == "00000000-0005-8000-8000-000000000007"
    assert message_id(1, 2**42) == "00000000-0001-8001-8000-000000000000"
    assert message_id(LAST_PARTITION, 2**54 - 1) == "ffffffff-ffff-8fff-8000-03ffffffffff"
    assert (reference(5), id_of("0.5")) == ("0.5", 5)
    assert str(Lease(77, TOKEN, 1_700_000_000_000)) == lease
    assert Lease.parse(lease) == (77, TOKEN, 1_700_000_000_000)


def test_a_message_id_has_its_slot_after_the_variant() -> None:
    assert message_id(an_id(1, 5), 7) == "00000000-0005-8000-8010-000000000007"
    assert message_id(an_id(959, 5), 7) == "00000000-0005-8000-bbf0-000000000007"
    assert message_id(an_id(1023, 5), 7) == "00000000-0005-8000-bff0-000000000007"


@pytest.mark.parametrize("ref", ["1024.1", "9999.1", "10000.1", f"0.{2**53}", f"1023.{2**53}"])
def test_an_id_out_of_bounds_is_rejected(ref: str) -> None:
    assert id_of(ref) is None
    with pytest.raises(LeaseLost):
        Lease.parse(f"{ref}.0.{TOKEN.hex}")


@pytest.mark.parametrize("lease_id", ["0.-1.0.", "-1.1.0.", "0.1.", "x.1.0.", "0.0.1.0."])
def test_a_malformed_lease_is_lost(lease_id: str) -> None:
    with pytest.raises(LeaseLost):
        Lease.parse(lease_id + TOKEN.hex)


@pytest.mark.parametrize(
    "ref", ["", "5", "0.", ".5", "0.0", "0.05", "0.-1", "0.1.2", "0.5\n", "0.\u0665"]
)
def test_another_text_is_not_a_reference(ref: str) -> None:
    assert id_of(ref) is None


def test_ids_of_a_partition_increase_with_the_offset() -> None:
    names = [message_id(an_id(3, 7), offset) for offset in (0, 1, 2**20, 2**42 - 1, 2**42, 2**53)]

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


@given(partitions, st.lists(offsets, min_size=1, max_size=20))
@settings(max_examples=50)
def test_ids_of_one_partition_are_decoded_together_or_not_at_all(
    partition_id: int, several: list[int]
) -> None:
    found = places_of([message_id(partition_id, each) for each in several])

    assert found in (None, (partition_id, several))
    assert found is not None or len({each >> 42 for each in several}) > 1


@pytest.mark.parametrize(
    "other",
    [
        message_id(2, 1),
        message_id(an_id(1, 1), 1),
        message_id(1, 2**42),
        message_id(1, 10)[:-1] + "A",
        message_id(1, 1) + "0",
        message_id(1, 1)[:-1],
        message_id(1, 1)[:-12] + "+00000000001",
        message_id(1, 1)[:-12] + "0_0000000001",
        message_id(1, 1)[:-12] + "040000000001",
        "mine",
    ],
)
def test_a_different_id_prevents_decoding_together(other: str) -> None:
    assert places_of([message_id(1, 0), other]) is None
