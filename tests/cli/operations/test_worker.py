"""`queen worker`: processes that run jobs, drain on signals and are restarted when they die."""

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from queen import Queen
from queen.jobs import QueueManager
from tests.cli.shell import Shell
from tests.jobs.lines import lines
from tests.jobs.waiting import until
from tests.support.server import Server

ROOT = Path(__file__).parents[3]
APP = "tests.jobs.application:jobs"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "jobs.log"


@pytest.fixture
def shell(server: Server, tmp_path: Path, log: Path) -> Shell:
    shell = Shell(server, tmp_path)
    shell.environment["PYTHONPATH"] += f":{ROOT}"
    shell.environment["JOBS_LOG"] = str(log)
    return shell


@pytest.fixture
async def jobs(server: Server) -> AsyncIterator[QueueManager]:
    async with Queen(server.base_url, retry_attempts=1) as queen:
        yield QueueManager(queen)


async def test_a_signal_lets_a_worker_finish_its_jobs(
    shell: Shell, jobs: QueueManager, log: Path
) -> None:
    async with shell.started("worker", APP, "--concurrency", "2") as process:
        short = await jobs.add_job("work", "note", 1)
        await short.result(timeout=30)
        long = await jobs.add_job("work", "pause", 1.0)
        await until(lambda: lines(log, "began")[1:])
        process.send_signal(signal.SIGTERM)
        _, said = await process.communicate()

    assert process.returncode == 0, said
    assert "work: note (coroutine, 3 attempts)" in said.decode()
    assert "work: hold (thread, 3 attempts)" in said.decode()
    assert "drained: 2 completed" in said.decode()
    assert len(lines(log, "ended")) == 1
    assert await long.status() == "completed"


async def test_a_worker_reads_its_concurrency_and_log_level_from_the_environment(
    shell: Shell, jobs: QueueManager, log: Path
) -> None:
    async with shell.started("worker", APP, WORKER_CONCURRENCY="3", LOG_LEVEL="debug") as process:
        await (await jobs.add_job("work", "note", 1)).result(timeout=30)
        process.send_signal(signal.SIGTERM)
        _, said = await process.communicate()

    assert process.returncode == 0, said
    assert "3 concurrent jobs per queue" in said.decode()
    assert "DEBUG exchange: " in said.decode()


@pytest.mark.parametrize("name", ["pause", "hold"])
async def test_unfinished_jobs_are_released_without_counting(
    shell: Shell, jobs: QueueManager, log: Path, name: str
) -> None:
    async with shell.started("worker", APP, "--shutdown-timeout", "100ms") as process:
        slow = await jobs.add_job("work", name, 30.0)
        await until(lambda: lines(log, "began"))
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(10):
            await process.communicate()

    assert process.returncode == 0
    assert len(lines(log, "cancelled")) == (1 if name == "pause" else 0)
    assert await slow.status() == "waiting"
    (again,) = await jobs.queen.queue("work").pop()
    assert again.attempt == 1


@pytest.mark.parametrize("processes", ["1", "2"])
async def test_a_second_signal_stops_immediately(
    shell: Shell, jobs: QueueManager, log: Path, processes: str
) -> None:
    async with shell.started("worker", APP, "--processes", processes) as process:
        slow = await jobs.add_job("work", "pause", 50.0)
        await until(lambda: lines(log, "began"), seconds=30)
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGTERM)
        await asyncio.sleep(0.1)  # Two signals in a row may arrive as one.
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(15):
            _, said = await process.communicate()

    # The third may arrive when the process is already ending.
    assert process.returncode in (0, -signal.SIGTERM), said
    assert len(lines(log, "cancelled")) == 1
    assert await slow.status() == "waiting"


async def test_a_worker_process_that_dies_is_restarted_and_its_job_continues(
    shell: Shell, jobs: QueueManager, log: Path
) -> None:
    async with shell.started("worker", APP, "--processes", "2", "-c", "1") as process:
        deadly = await jobs.add_job("work", "die", 2)
        await deadly.result(timeout=50)
        began = lines(log, "began")
        assert [line.attempt for line in began] == [1, 2, 3]
        process.send_signal(signal.SIGTERM)
        _, said = await process.communicate()

    assert process.returncode == 0, said
    assert said.decode().count("jobs.process_died") == 2


async def test_workers_end_when_their_supervisor_is_killed(
    shell: Shell, jobs: QueueManager, log: Path
) -> None:
    async with shell.started("worker", APP, "--processes", "2") as process:
        await jobs.add_bulk("work", [{"name": "pause", "data": 2.0} for _ in range(2)])
        await until(lambda: len(lines(log, "began")) == 2, seconds=30)
        process.kill()
        pids = {line.pid for line in lines(log)}
        await until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), seconds=20)

    assert len(lines(log, "ended")) == 2  # They were drained, not killed.


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere:jobs"], "module nowhere is neither"),
        (["tests.jobs.nowhere:jobs"], "module tests.jobs.nowhere is neither"),
        (["tests.jobs.application"], "write MODULE:app"),
        (["tests.jobs.application:app"], "has no app; did you mean tests.jobs.application:jobs?"),
        (["tests.jobs.application:note"], "is not a QueueManager but a Processor"),
        (["tests.jobs.application:empty"], "has no processor"),
        ([APP, "--queues", "other"], "no processor is registered for queue other; there are work"),
        ([APP, "--queues", ","], "--queues contains no queue name"),
        ([APP, "--autoscale", "5..2"], "write 1..16"),
        ([APP, "--autoscale", "1..2", "--processes", "2"], "not both"),
        ([APP, "--shutdown-timeout", "soon"], "'soon' is not a duration"),
    ],
)
async def test_errors_are_reported_in_one_sentence(
    shell: Shell, arguments: list[str], said: str
) -> None:
    ended = await shell.run("worker", *arguments)
    assert ended.code == 2
    assert said in ended.err
    assert "Traceback" not in ended.err


async def test_an_unreachable_server_is_named(shell: Shell) -> None:
    for extra in ([], ["--processes", "2"]):
        ended = await shell.run("worker", APP, *extra, QUEEN_BASE_URL="http://127.0.0.1:1")
        assert ended.code == 5
        assert "Traceback" not in ended.err
