"""Pattern 7, dead letters: inspect failed jobs, fix their data, and run them again."""

import asyncio
import contextlib

import msgspec

from queen import Queen
from queen.jobs import Backoff, Job, JobFailed, JobPriority, QueueManager

jobs = QueueManager(Queen.from_env())


@jobs.processor("payments", attempts=2, backoff=Backoff("fixed", delay="20ms"))
async def pay(job: Job[dict[str, str]]) -> str:
    if "iban" not in job.data:
        raise KeyError("no account")
    return f"paid {job.data['to']}"


async def main() -> None:
    async with jobs.queen:
        await jobs.start_workers()
        handle = await pay.add({"to": "ann"})
        with contextlib.suppress(JobFailed):
            await handle.result(timeout="30s")
            raise AssertionError("the job must fail")

        # An operator fixes the cause, here the missing account, and adds the jobs again.
        again = []
        async for failed in jobs.list_jobs("payments", status="failed"):
            print("failed:", failed.name, (failed.error or "").splitlines()[0])
            assert failed.attempt == 2
            assert "no account" in (failed.error or "")
            data = msgspec.json.decode(failed.data)
            again.append(await pay.add({**data, "iban": "IT00"}, priority=JobPriority.LOW))
        assert [await each.result(timeout="30s") for each in again] == ["paid ann"]
        assert await jobs.clean_queue("payments", grace=0, status="failed") == 1
        await jobs.shutdown()


asyncio.run(main())
