"""`queen dev`: start a server and send the first message."""

import asyncio
import os
import re
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

from queen import Message, NotFound, Queen
from tests.support.server import until

SOURCE = Path(__file__).parents[3] / "src"


async def started(*arguments: str) -> tuple[asyncio.subprocess.Process, str]:
    """The process, and the URL that it prints when it is ready."""
    environment = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "queen",
        "dev",
        *arguments,
        "--port",
        "0",
        env={**environment, "PYTHONPATH": str(SOURCE)},
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    said = ""
    async with asyncio.timeout(40):
        while (found := re.search(r"ready at (\S+),", said)) is None:
            line = await process.stderr.readline()
            assert line, f"ended:\n{said}"
            said += line.decode()
    return process, found[1]


def _ignore(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    del reader, writer


async def stopped(process: asyncio.subprocess.Process) -> int:
    process.send_signal(signal.SIGINT)
    async with asyncio.timeout(40):
        await process.communicate()
    assert process.returncode is not None
    return process.returncode


async def test_one_command_is_ready_in_seconds_and_accepts_a_message() -> None:
    began = time.monotonic()
    process, url = await started("--ephemeral")
    seconds = time.monotonic() - began
    try:
        async with Queen(url) as queen:
            await queen.queue("demo").push([{"data": {"hello": "world"}}])
            (message,) = await queen.queue("demo").pop()
            assert message.data == {"hello": "world"}
    finally:
        code = await stopped(process)

    assert code == 0
    assert seconds < 30  # The bound is for a busy machine. Otherwise it takes about three.


async def test_the_printed_examples_run() -> None:
    process, url = await started("--ephemeral")
    assert process.stderr is not None
    said = ""
    try:
        async with asyncio.timeout(60):
            while not said.rstrip().endswith("asyncio.run(main())") or "# worker.py" not in said:
                said += (await process.stderr.readline()).decode()
            shown = re.search(r"export DATABASE_URL='(\S+)'", said)
            assert shown is not None
            database = await asyncpg.connect(shown[1])
            assert await database.fetchval("select count(*) from queen.queues") == 0
            await database.close()
            _, pushing, working = re.split(r"^# \w+\.py: .*$", said, flags=re.MULTILINE)
            assert url in pushing
            environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
            worker = await asyncio.create_subprocess_exec(
                *(sys.executable, "-c", working), env=environment, stdout=asyncio.subprocess.PIPE
            )
            pusher = await asyncio.create_subprocess_exec(
                *(sys.executable, "-c", pushing), env=environment
            )
            assert await pusher.wait() == 0
            assert worker.stdout is not None
            assert await worker.stdout.readline() == b"{'hello': 'world'}\n"
            worker.terminate()
            assert await worker.wait() == 0
    finally:
        await stopped(process)


@pytest.mark.parametrize("sign", ["PG_VERSION", "postmaster.pid"])
async def test_a_signal_during_the_start_leaves_no_process_or_file_behind(
    folder: Path, sign: str
) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "queen", "dev", "--ephemeral", "--port", "0"),
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(SOURCE), "TMPDIR": str(folder)},
        stderr=asyncio.subprocess.PIPE,
    )
    await until(lambda: _there(folder, sign), seconds=40)
    process.send_signal(signal.SIGTERM)
    async with asyncio.timeout(40):
        _, said = await process.communicate()

    assert found(folder, "*") == []
    assert (process.returncode, b"Traceback" in said) == (0, False)


def found(folder: Path, pattern: str) -> list[Path]:
    return list(folder.glob(pattern))


async def _there(folder: Path, name: str) -> bool:
    return bool(found(folder, f"queen-dev-*/data/{name}"))


@pytest.fixture
def folder() -> Iterator[Path]:
    """A directory that PostgreSQL's account can read if this runs as root. Pytest's are closed."""
    path = Path(tempfile.mkdtemp(prefix="queen-test-"))
    path.chmod(0o777)
    yield path
    shutil.rmtree(path, ignore_errors=True)


async def test_data_survives_a_restart(folder: Path) -> None:
    process, url = await started("--data-dir", str(folder / "data"))
    async with Queen(url) as queen:
        await queen.queue("demo").push([{"data": 1}])
    await stopped(process)

    process, url = await started("--data-dir", str(folder / "data"))
    seen: list[int] = []

    async def handler(message: Message[int]) -> None:
        seen.append(message.data)

    try:
        async with Queen(url) as queen:
            await queen.queue("demo").limit(1).consume(handler)
    finally:
        await stopped(process)
    assert seen == [1]


async def test_a_busy_port_is_explained(unused_tcp_port: int) -> None:
    listener = await asyncio.start_server(_ignore, "127.0.0.1", unused_tcp_port)
    async with listener:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "queen",
            "serve",
            env={
                "PATH": os.environ["PATH"],
                "PYTHONPATH": str(SOURCE),
                "PORT": str(unused_tcp_port),
            },
            stderr=asyncio.subprocess.PIPE,
        )
        _, said = await process.communicate()

    assert process.returncode == 1
    assert b"cannot listen on 127.0.0.1 port" in said
    assert b"Traceback" not in said


@pytest.mark.parametrize("variable", [{"QUEEN_MAX_BDY_BYTES": "1"}, {"NUM_WORKERS": "many"}])
async def test_an_invalid_setting_stops_the_start_with_one_sentence(
    variable: dict[str, str],
) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "queen",
        "serve",
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(SOURCE), **variable},
        stderr=asyncio.subprocess.PIPE,
    )
    _, said = await process.communicate()

    assert process.returncode == 1
    assert said.startswith(b"queen: ")
    assert next(iter(variable)).encode() in said
    assert len(said.splitlines()) == 1


async def _is_traffic(queen: Queen) -> bool:
    try:
        settled = [each async for each in queen.admin.messages("demo.orders", status="completed")]
    except NotFound:
        return False
    return bool(settled)


async def test_a_demo_has_traffic_and_stops_quickly() -> None:
    process, url = await started("--ephemeral", "--demo")
    try:
        async with Queen(url) as queen:
            await until(lambda: _is_traffic(queen), seconds=40)
            groups = [each async for each in queen.admin.groups(queue="demo.orders")]
        assert [each.consumer_group for each in groups] == ["billing"]
    finally:
        began = time.monotonic()
        code = await stopped(process)
    assert code == 0
    assert time.monotonic() - began < 20
