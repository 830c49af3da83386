"""Without faults, no message is lost or reordered, for any number of producers."""

import asyncio
import contextlib
import json
import time
from array import array
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from queen.engine.engine import Engine
from tests.system.processes import start
from tests.system.tiles import Sampler, behind, torn
from tests.system.worker import Produce, Read, Stream

QUEUES = {"one": 1, "fifty": 50}
GROUP = "readers"
PROCESSES = 4
PRODUCERS_EACH = 4
PRODUCERS = PROCESSES * PRODUCERS_EACH


async def test_concurrent_producers_lose_and_reorder_no_message(dsn: str, tmp_path: Path) -> None:
    await run(dsn, tmp_path, messages=60_000, max_batch=20, seconds=50)


@pytest.mark.slow
async def test_a_million_messages_of_concurrent_producers(dsn: str, tmp_path: Path) -> None:
    await run(dsn, tmp_path, messages=1_000_000, max_batch=100, seconds=900)


async def run(dsn: str, folder: Path, *, messages: int, max_batch: int, seconds: float) -> None:
    """16 producers on one partition, 16 on 50, and a group that reads meanwhile."""
    each = messages // (len(QUEUES) * PRODUCERS)
    total = each * len(QUEUES) * PRODUCERS
    async with await Engine.open(dsn, connections=2) as engine:
        for queue in QUEUES:
            await engine.queues.configure(queue)
    read = Read(dsn, str(folder / "read"), GROUP, [*QUEUES], total, consumers=4)
    produces = [
        Produce(dsn, str(folder / f"pushed{number}"), streams(number, each, max_batch))
        for number in range(PROCESSES)
    ]
    async with asyncio.timeout(seconds), contextlib.AsyncExitStack() as stack:
        connection = await asyncpg.connect(dsn)
        stack.push_async_callback(connection.close)
        async with sampling(connection) as sampler:
            times = await push_and_read(produces, read, seconds=seconds)
        gaps, left = await torn(connection), await behind(connection)
        partitions = await connection.fetchval(
            "select count(distinct partition_id) from queen.segments"
        )

    sent = _pairs(*(Path(produce.output) for produce in produces))
    came = _pairs(Path(read.output))
    counts: dict[str, Any] = {
        "messages": total,
        "partitions": partitions,
        "pushed": len(sent),
        "read": len(came),
        "lost": len(sent.keys() - came.keys()),
        "phantoms": len(came.keys() - sent.keys()),
        "misplaced": sum(came.get(key, where) != where for key, where in sent.items()),
        "gaps": len(gaps),
        "groups_behind": len(left),
        "samples": sampler.samples,
        "sampled_messages": sampler.messages,
        **times,
    }
    print(json.dumps(counts), flush=True)
    assert sent == came, counts
    assert len(sent) == total
    assert (gaps, left) == ([], [])
    assert sampler.messages == total
    # Below these minimums, the check proves nothing.
    assert partitions == sum(QUEUES.values())
    assert sampler.samples >= 10


def streams(process: int, count: int, max_batch: int) -> list[Stream]:
    """The producers of one process, with `count` messages each."""
    return [
        Stream(
            producer=which * PRODUCERS + process * PRODUCERS_EACH + at,
            queue=queue,
            partitions=partitions,
            count=count,
            max_batch=max_batch,
        )
        for which, (queue, partitions) in enumerate(QUEUES.items())
        for at in range(PRODUCERS_EACH)
    ]


@contextlib.asynccontextmanager
async def sampling(
    connection: "asyncpg.Connection[asyncpg.Record]",
) -> AsyncGenerator[Sampler]:
    """Sample the segments until the end of the block, and once more at its end."""
    sampler = Sampler(connection)
    task = asyncio.create_task(sampler.run())
    yield sampler
    assert not task.done(), task.exception()
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    await sampler.sample()


async def push_and_read(
    produces: Sequence[Produce], read: Read, *, seconds: float
) -> dict[str, float]:
    """Run the processes until all messages are read. Returns how long that took."""
    started = time.monotonic()
    progress = Progress(read.total)
    async with contextlib.AsyncExitStack() as stack:
        reader = await stack.enter_async_context(start(read, heard=progress.of("reader")))
        workers = [
            await stack.enter_async_context(start(produce, heard=progress.of(f"producer{number}")))
            for number, produce in enumerate(produces)
        ]
        for worker in (reader, *workers):
            await worker.expect("ready")
        for worker in (reader, *workers):
            worker.tell("go")
        for worker in workers:
            await worker.finish(seconds=seconds)
        pushed_seconds = time.monotonic() - started
        await reader.finish(seconds=seconds)
        read_seconds = time.monotonic() - started
    return {"pushed_seconds": round(pushed_seconds, 1), "read_seconds": round(read_seconds, 1)}


class Progress:
    """Prints the progress of the processes, one line per 5 %."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._said: dict[str, dict[str, Any]] = {}
        self._step = 0

    def of(self, name: str) -> Any:  # noqa: ANN401 - a callback
        def heard(said: dict[str, Any]) -> None:
            self._said[name] = said
            pushed = sum(each.get("pushed", 0) for each in self._said.values())
            came = sum(each.get("read", 0) for each in self._said.values())
            if came * 20 // self._total > self._step:
                self._step = came * 20 // self._total
                print(f"{pushed:,} pushed, {came:,} read of {self._total:,}", flush=True)

        return heard


def _pairs(*files: Path) -> dict[int, int]:
    """
    Maps identities to places, from the output of the processes. A repeated identity is an error.
    """
    found: dict[int, int] = {}
    for file in files:
        values = array("q")
        values.frombytes(file.read_bytes())
        keys, places = values[::2], values[1::2]
        found.update(zip(keys, places, strict=True))
        if len(files) == 1 and len(found) != len(keys):
            raise AssertionError(f"{len(keys) - len(found)} messages came twice")
    return found
