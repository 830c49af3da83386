"""Keys in memory, compared with a dictionary."""

import random
from datetime import UTC, datetime, timedelta

import pytest

from queen.engine.caches import key_window
from queen.engine.caches.key_window import KEY, KeyWindow

START = datetime(2030, 1, 1, tzinfo=UTC)


def keys(rng: random.Random, count: int) -> list[bytes]:
    return [rng.randbytes(KEY) for _ in range(count)]


@pytest.mark.parametrize("seed", range(8))
def test_a_window_finds_the_last_offset_of_each_valid_key(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_window, "_FEW", 8)
    rng = random.Random(seed)
    window = KeyWindow(seconds=100.0)
    seen: dict[bytes, tuple[int, datetime]] = {}
    offset, now = 0, START
    for _ in range(300):
        now += timedelta(seconds=rng.random() * 10)
        since = now - timedelta(seconds=100)
        expired = [key for key, (_, at) in seen.items() if at <= since]
        block = keys(rng, rng.randrange(1, 40)) + rng.sample(expired, min(len(expired), 2))
        offset += rng.randrange(3)
        window.add(offset, block, now)
        seen |= {key: (at, now) for at, key in enumerate(block, offset)}
        offset += len(block)
        window.pack(rng.randrange(40))
        asked = [*rng.sample(list(seen), min(len(seen), 20)), *keys(rng, 5)]

        found = dict(window.find(asked))

        for index, key in enumerate(asked):
            last, at = seen.get(key, (None, START))
            if last is not None and at > since:
                assert found[index] == last
            else:
                assert found.get(index, last) == last
    assert window.count < len(seen) / 2


def test_packed_keys_need_the_memory_that_is_counted() -> None:
    rng = random.Random(1)
    window = KeyWindow(seconds=100.0)
    for base in range(0, 50_000, 1000):
        window.add(base, keys(rng, 1000), START)
    assert window.size_bytes == key_window.WINDOW_BYTES + 50_000 * key_window.RECENT_BYTES

    while window.recent:
        window.pack(512)

    buckets = window._buckets  # pyright: ignore[reportPrivateUsage]
    size_bytes = sum(bucket.__sizeof__() + 16 for bucket in buckets) + buckets.__sizeof__()
    assert size_bytes < window.size_bytes * 1.2
    assert len(window.find([rng.randbytes(KEY)])) == 0


def test_a_match_across_two_entries_is_not_a_key() -> None:
    window = KeyWindow(seconds=100.0)
    first, second = bytes(range(1, 15)) + b"\0\0", bytes(range(20, 34)) + b"\0\0"
    window.add(0x0102, [first, second], START)
    window.pack(2)
    (bucket,) = window._buckets  # pyright: ignore[reportPrivateUsage]

    crossing = bytes(bucket[10:26])

    assert window.find([crossing, second]) == [(1, 0x0103)]
