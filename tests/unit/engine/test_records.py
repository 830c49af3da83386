"""Records round-trip, and data after a torn record is ignored."""

import io

import pytest

from queen.engine.buffer import records

BODIES = [b"", b"first", b"\0" * 100, b"last"]


def written(bodies: list[bytes] = BODIES) -> bytes:
    file_id = bytes(range(records.FILE_ID_BYTES))
    every = [records.encode(number, body) for number, body in enumerate(bodies, 7)]
    return records.header(file_id) + b"".join(every)


def read(data: bytes) -> list[tuple[int, bytes]]:
    found = records.read(io.BytesIO(data), records.HEADER_BYTES, len(data))
    return [(record.number, record.body) for record in found]


def test_records_round_trip() -> None:
    assert read(written()) == [*enumerate(BODIES, 7)]
    assert records.read_file_id(io.BytesIO(written())) == bytes(range(records.FILE_ID_BYTES))


def test_reading_continues_where_a_record_ended() -> None:
    data = written()
    first, second = list(records.read(io.BytesIO(data), records.HEADER_BYTES, len(data)))[:2]
    rest = records.read(io.BytesIO(data), second.end, len(data))
    assert (first.number, [record.body for record in rest]) == (7, BODIES[2:])


def test_a_tail_torn_anywhere_is_cut() -> None:
    data = written()
    ends = [
        record.end for record in records.read(io.BytesIO(data), records.HEADER_BYTES, len(data))
    ]
    for size in range(records.HEADER_BYTES, len(data)):
        whole = sum(end <= size for end in ends)
        assert read(data[:size]) == [*enumerate(BODIES, 7)][:whole]


@pytest.mark.parametrize("bit", [1, 128])
def test_a_flipped_bit_anywhere_is_detected(bit: int) -> None:
    data = written()
    for at in range(records.HEADER_BYTES, len(data)):
        damaged = bytearray(data)
        damaged[at] ^= bit
        found = read(bytes(damaged))
        assert found == [*enumerate(BODIES, 7)][: len(found)]
        assert len(found) < len(BODIES)


def test_a_torn_header_has_no_name() -> None:
    for size in range(records.HEADER_BYTES):
        assert records.read_file_id(io.BytesIO(written()[:size])) is None
    assert records.read_file_id(io.BytesIO(b"x" * 100)) is None
