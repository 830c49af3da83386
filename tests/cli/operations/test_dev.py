"""`queen dev`: start a server and send the first message."""

import asyncio
import os
import re
import signal
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import asyncpg
import pytest

from queen import Message, Queen
from queen.cli.commands.dev import announcement
from queen.jobs import QueueManager
from queen.settings import Settings
from tests.support.dev import SOURCE, started, stopped
from tests.support.server import until

COLUMNS = 80


def _ignore(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    del reader, writer


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


async def test_the_output_starts_with_the_dashboard_fits_80_columns_and_its_commands_run() -> None:
    process, url = await started("--ephemeral")
    assert process.stderr is not None
    said = ""
    try:
        async with asyncio.timeout(60):
            while "/start" not in said:
                said += (await process.stderr.readline()).decode()
            push, pop = re.findall(r"^curl (?:.*\\\n)?.*$", said, flags=re.MULTILINE)
            export = re.search(r"^export DATABASE_URL=.*$", said, flags=re.MULTILINE)
            assert export is not None
            assert '"status":"queued"' in await shell(push)
            assert '{"hello":"world"}' in await shell(pop)
            dsn = await shell(f'{export[0]}; echo "$DATABASE_URL"')
            database = await asyncpg.connect(dsn.strip())
            assert await database.fetchval("select name from queen.queues") == "demo"
            await database.close()
    finally:
        await stopped(process)
    assert f"queen top --server {url}\n" in said
    assert [line for line in said.splitlines() if len(line) > COLUMNS] == []


async def shell(command: str) -> str:
    process = await asyncio.create_subprocess_exec(
        "sh", "-c", command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, said = await process.communicate()
    assert process.returncode == 0, said
    return out.decode()


@pytest.mark.parametrize(
    ("is_demo", "auth"), [(False, None), (True, None), (False, "keys")], ids=str
)
@pytest.mark.parametrize(
    "folder", ["/tmp", "/var/folders/zz/zyxvpxvq6csfxvn_n0000000000000/T"], ids=["linux", "macos"]
)
async def test_the_output_fits_80_columns_on_other_systems(
    folder: str, is_demo: bool, auth: str | None
) -> None:
    dsn = f"postgresql://queen@/postgres?host={folder}/queen-0123456789ab"
    text = announcement(
        "http://localhost:65535",
        "PostgreSQL in /var/lib/queen-dev, ephemeral",
        dsn,
        Settings(auth=auth),
        demo=is_demo,
    )

    lines = text.splitlines()
    assert lines[:2] == ["", "  Dashboard      http://localhost:65535"]
    assert [line for line in lines if len(line) > COLUMNS] == []
    command = text[text.index("export ") :].partition("\n\n")[0]
    assert await shell(f'{command}; echo "$DATABASE_URL"') == f"{dsn}\n"


@pytest.mark.parametrize(
    ("settings", "reason", "needs_key"),
    [
        (Settings(), ": no authentication, loopback only", False),
        (Settings(insecure=True), ": no authentication, and QUEEN_INSECURE is on", False),
        (Settings(auth="keys"), "", True),
    ],
    ids=["open", "insecure", "keys"],
)
def test_the_output_fits_the_settings(settings: Settings, reason: str, needs_key: bool) -> None:
    text = announcement(
        "http://localhost:6632", "the one that you named", None, settings, demo=False
    )

    assert f"Not for production{reason}. " in text
    assert text.count("Bearer $QUEEN_TOKEN") == (2 if needs_key else 0)
    assert ("queen token create" in text) == needs_key


async def test_a_demo_with_authentication_is_rejected() -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "queen", "dev", "--ephemeral", "--demo", "--port", "0"),
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(SOURCE), "QUEEN_AUTH": "keys"},
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(60):
        _, said = await process.communicate()

    assert process.returncode
    assert b"Unset QUEEN_AUTH, or omit --demo." in said
    assert b"Traceback" not in said


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


async def _is_consumed(queen: Queen, queue: str) -> bool:
    return bool([each async for each in queen.admin.messages(queue, status="completed", limit=1)])


async def _has_runs(queen: Queen, states: set[str]) -> bool:
    """Whether there are workflow runs in all these states."""
    return states <= {each.state async for each in QueueManager(queen).list_workflows()}


@pytest.mark.nightly  # Its load needs the machine for itself.
async def test_a_demo_has_a_day_of_history_and_load_and_stops_quickly() -> None:
    process, url = await started("--ephemeral", "--demo")
    try:
        async with Queen(url) as queen:
            day_ago = datetime.now(UTC) - timedelta(hours=23)
            series = await queen.admin.series(
                "pushed,popped,nacked,depth,waitMillis", from_=day_ago, bucket_seconds=3600
            )
            points = [each for each in series.series if each.t > day_ago]
            assert len(points) >= 22
            assert all(each.pushed and each.popped and each.nacked for each in points)
            assert all(each.depth and each.wait_millis for each in points)
            overview = await queen.admin.overview(worst=20)
            assert (overview.pushed_per_second or 0) > 1000
            assert (overview.popped_per_second or 0) > 1000
            await until(lambda: _is_consumed(queen, "demo.orders"), seconds=40)
            queues = [each async for each in queen.admin.queues()]
            assert [each.name for each in queues if each.dead_letters] == ["demo.payments"]
            assert [each.name for each in queues if each.paused or not each.consumer_groups] == []
            settings = {each.name: each.value for each in (await queen.admin.settings()).settings}
            assert settings["QUEEN_ENVIRONMENT"] == "demo"
            await until(lambda: _has_runs(queen, {"completed", "failed"}), seconds=60)
    finally:
        began = time.monotonic()
        code = await stopped(process)
    assert code == 0
    assert time.monotonic() - began < 20
