"""Without faults, no message is lost or reordered, for any number of producers."""

import asyncio
import contextlib
import json
import time
from array import array
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from queen.engine.engine import Engine
from tests.system.processes import Worker, start
from tests.system.tiles import Sampler, behind, torn
from tests.system.worker import Produce, Read, Stream

QUEUES = {"one": 1, "fifty": 50}
GROUP = "readers"
PROCESSES = 4
PRODUCERS_EACH = 4


async def test_concurrent_producers_lose_and_reorder_no_message(dsn: str, tmp_path: Path) -> None:
    await run(dsn, tmp_path, messages=60_000, max_batch=20, seconds=50)


@pytest.mark.slow
async def test_a_million_messages_of_concurrent_producers(dsn: str, tmp_path: Path) -> None:
    await run(dsn, tmp_path, messages=1_000_000, max_batch=100, seconds=900)


async def run(dsn: str, folder: Path, *, messages: int, max_batch: int, seconds: float) -> None:
    """16 producers on one partition, 16 on 50, and a group that reads meanwhile."""
    producers = PROCESSES * PRODUCERS_EACH
    each = messages // (len(QUEUES) * producers)
    total = each * len(QUEUES) * producers
    async with await Engine.open(dsn, connections=2) as engine:
        for queue in QUEUES:
            await engine.queues.configure(queue)
    started = time.monotonic()
    progress = Progress(total)
    async with (
        asyncio.timeout(seconds),
        contextlib.AsyncExitStack() as stack,
    ):
        connection = await asyncpg.connect(dsn)
        stack.push_async_callback(connection.close)
        sampler = Sampler(connection)
        sampling = asyncio.create_task(sampler.run())
        read = Read(
            dsn=dsn,
            output=str(folder / "read"),
            group=GROUP,
            queues=[*QUEUES],
            total=total,
            consumers=4,
        )
        reader = await stack.enter_async_context(start(read, heard=progress.of("reader")))
        workers: list[Worker] = []
        for number in range(PROCESSES):
            streams = [
                Stream(
                    producer=which * producers + number * PRODUCERS_EACH + at,
                    queue=queue,
                    partitions=partitions,
                    count=each,
                    max_batch=max_batch,
                )
                for which, (queue, partitions) in enumerate(QUEUES.items())
                for at in range(PRODUCERS_EACH)
            ]
            produce = Produce(dsn=dsn, output=str(folder / f"pushed{number}"), streams=streams)
            heard = progress.of(f"producer{number}")
            workers.append(await stack.enter_async_context(start(produce, heard=heard)))
        for worker in (reader, *workers):
            await worker.expect("ready")
        reader.tell("go")
        for worker in workers:
            worker.tell("go")
        for worker in workers:
            await worker.finish(seconds=seconds)
        pushed_seconds = time.monotonic() - started
        await reader.finish(seconds=seconds)
        read_seconds = time.monotonic() - started

        assert not sampling.done(), sampling.exception()
        sampling.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await sampling
        await sampler.sample()
        gaps, left = await torn(connection), await behind(connection)
        partitions = await connection.fetchval(
            "select count(distinct partition_id) from queen.segments"
        )

    sent = _pairs(*(folder / f"pushed{number}" for number in range(PROCESSES)))
    came = _pairs(folder / "read")
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
        "pushed_seconds": round(pushed_seconds, 1),
        "read_seconds": round(read_seconds, 1),
    }
    print(json.dumps(counts), flush=True)
    assert sent == came, counts
    assert len(sent) == total
    assert (gaps, left) == ([], [])
    assert sampler.messages == total
    # Below these minimums, the check proves nothing.
    assert partitions == sum(QUEUES.values())
    assert sampler.samples >= 10


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
