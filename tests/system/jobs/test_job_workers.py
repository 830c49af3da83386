"""Workers take over after a crash, keep and use their rates, and starve no priority."""

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from queen import Queen
from queen.jobs import Job, JobPriority, QueueManager
from tests.cli.shell import Shell
from tests.jobs.lines import lines, most_in_a_window
from tests.jobs.waiting import until
from tests.support.server import Server

APP = "tests.jobs.application:jobs"
ROOT = Path(__file__).parents[3]
Start = Callable[..., "asyncio.Future[asyncio.subprocess.Process]"]
TAKEOVER_SECONDS = 5.0
BACKGROUND_SECONDS = 4.0
"""The bound of docs/reference/jobs.md. Here, one of two priorities always has jobs."""
LEASE_SECONDS = 3.0


@pytest.fixture
async def server(dsn: str) -> AsyncIterator[Server]:
    async with Server(dsn) as server:
        yield server


@pytest.fixture
async def jobs(server: Server) -> AsyncIterator[QueueManager]:
    async with Queen(server.base_url) as queen:
        jobs = QueueManager(queen)
        yield jobs
        await jobs.shutdown()


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "jobs.log"


@pytest.fixture
async def work(server: Server, tmp_path: Path, log: Path) -> AsyncIterator[Start]:
    """Starts `queen worker` processes, which end with the test."""
    shell = Shell(server, tmp_path)
    shell.environment |= {"JOBS_LOG": str(log), "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    async with AsyncExitStack() as stack:

        def start(
            *arguments: str, **environment: str
        ) -> "asyncio.Future[asyncio.subprocess.Process]":
            return asyncio.ensure_future(
                stack.enter_async_context(shell.started("worker", APP, *arguments, **environment))
            )

        yield start


async def take_over(work: Start, jobs: QueueManager, log: Path) -> float:
    """Seconds from the kill of a worker until the last of its jobs has begun elsewhere."""
    first = await work("-c", "5")
    names = {str(600.0 + number) for number in range(5)}
    await jobs.add_bulk("work", [{"name": "pause", "data": float(name)} for name in names])
    await until(lambda: len(lines(log, "began")) == 5, seconds=40)
    second = await work("-c", "6")
    await jobs.add_job("work", "note", 0)  # The first worker has no free slot for it.
    await until(lambda: "0" in {line.data for line in lines(log)}, seconds=40)

    killed = time.time()
    first.kill()

    def taken_over() -> dict[str, float]:
        return {line.data: line.at for line in lines(log, "began") if line.pid == second.pid}

    await until(lambda: taken_over().keys() >= names, seconds=30)
    second.kill()
    return max(taken_over().values()) - killed


async def test_the_jobs_of_a_killed_worker_start_elsewhere_within_five_seconds(
    work: Start,
    jobs: QueueManager,
    log: Path,
) -> None:
    seconds = await take_over(work, jobs, log)
    print(f"taken over in {seconds:.2f} s")
    assert seconds <= TAKEOVER_SECONDS


async def keep_a_rate(
    work: Start,
    jobs: QueueManager,
    log: Path,
    *,
    keys: int,
    rate: int,
    seconds: int,
    share: float = 0.95,
    concurrency: int = 10,
) -> None:
    """Four workers with ``rate`` jobs per second, per queue or per key."""
    environment = {"JOBS_RATE_PER_KEY" if keys else "JOBS_RATE": str(rate)}
    each = rate * seconds
    names = [f"key-{number}" for number in range(keys)] or [""]
    bulk = [
        {"name": "note", "data": n, "options": {"key": name} if name else {}}
        for n in range(each)
        for name in names
    ]
    process = await work("--processes", "4", "-c", str(concurrency), **environment)
    assert process.returncode is None
    probe = await jobs.add_job("work", "note", -1)
    await probe.result(timeout=50)
    began = time.time()
    await jobs.add_bulk("work", bulk)
    await until(lambda: len(lines(log)) > each * len(names) * 0.99, seconds=3 * seconds + 40)
    await until(lambda: len(lines(log)) == each * len(names) + 1, seconds=30)

    claimed: dict[str, list[float]] = defaultdict(list)
    for line in lines(log):
        if line.data != "-1":
            claimed[line.key].append(line.lease_until - LEASE_SECONDS)
    assert len(claimed) == len(names)
    for instants in claimed.values():
        assert len(instants) == each
        assert most_in_a_window(instants) <= rate
    used = [each / (max(of) - min(of) + 1) / rate for of in claimed.values()]
    ended = max(line.at for line in lines(log)) - began
    print(f"used {min(used):.3f} of the rate at the least, {len(bulk)} jobs in {ended:.1f} s")
    assert min(used) >= share


@pytest.mark.nightly
async def test_a_rate_is_never_exceeded_and_nearly_used(
    work: Start,
    jobs: QueueManager,
    log: Path,
) -> None:
    # Each period loses the time of a wake-up, which is short unless the machine is busy.
    await keep_a_rate(work, jobs, log, keys=0, rate=100, seconds=5, share=0.75)


@pytest.mark.nightly
async def test_a_rate_per_key_is_kept(
    work: Start,
    jobs: QueueManager,
    log: Path,
) -> None:
    await keep_a_rate(work, jobs, log, keys=20, rate=5, seconds=4, share=0.5)


@pytest.mark.slow
async def test_a_rate_is_kept_for_half_a_minute(
    work: Start,
    jobs: QueueManager,
    log: Path,
) -> None:
    await keep_a_rate(work, jobs, log, keys=0, rate=100, seconds=30)


@pytest.mark.slow
async def test_a_rate_per_key_is_kept_for_a_thousand_keys(
    work: Start,
    jobs: QueueManager,
    log: Path,
) -> None:
    # 1,000 jobs per second, each a separate delivery, need slots for those that are due together.
    await keep_a_rate(work, jobs, log, keys=1_000, rate=1, seconds=30, concurrency=50)


async def test_a_background_job_starts_within_its_bound_under_any_load(
    jobs: QueueManager,
) -> None:
    began: list[float] = []
    high = 0
    is_over = False

    @jobs.processor("mixed")
    async def step(job: Job[int]) -> None:
        nonlocal high
        if job.priority is JobPriority.BACKGROUND:
            began.append(time.monotonic())
        high += job.priority is JobPriority.HIGH
        await asyncio.sleep(0.001)

    async def flood() -> None:
        one = {"name": "step", "data": 0, "options": {"priority": JobPriority.HIGH}}
        while not is_over:
            if ((await jobs.get_queue_metrics("mixed")).waiting or 0) < 5_000:
                await jobs.add_bulk("mixed", [one] * 2_500)
            await asyncio.sleep(0.02)

    await jobs.configure(("mixed",))
    flooding = asyncio.create_task(flood())
    await jobs.start_workers(concurrency=10)
    await until(lambda: high > 500)
    for number in range(1, 4):
        added, ahead = time.monotonic(), high
        await step.add(1, priority=JobPriority.BACKGROUND)
        await until(lambda: len(began) == number, seconds=15)  # noqa: B023 - awaited here
        seconds = began[-1] - added
        print(f"after {seconds:.2f} s and {high - ahead} jobs of HIGH")
        assert seconds <= BACKGROUND_SECONDS
        assert (await jobs.get_queue_metrics("mixed")).waiting  # There was always more load.
    is_over = True
    await flooding
