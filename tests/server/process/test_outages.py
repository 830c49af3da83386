"""A server without its database: it writes pushes to disk, is unready, and loses no message."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from uuid import uuid4

import aiohttp
import pytest

from queen.store.migrations import migrate
from tests.support.calls import data, items, pop, push
from tests.support.postgres import Postgres
from tests.support.server import SOURCE, Reply, Server, until


@pytest.fixture(scope="module")
def own() -> Iterator[Postgres]:
    """A database server that these tests stop and start."""
    with Postgres(in_memory=True) as postgres:
        yield postgres


@pytest.fixture
async def dsn(own: Postgres) -> str:
    if own.is_stopped:
        await asyncio.to_thread(own.start)
    dsn = own.create_database(f"t{uuid4().hex}")
    await migrate(dsn)
    return dsn


@pytest.fixture
async def server(dsn: str, tmp_path: Path) -> AsyncIterator[Server]:
    async with Server(dsn, {"FILE_BUFFER_DIR": str(tmp_path / "buffer")}) as server:
        yield server


async def put(server: Server, *values: object, **fields: object) -> Reply:
    return await server.post("/push", {"items": items("orders", *values), **fields})


async def drained(server: Server) -> None:
    async def is_drained() -> bool:
        return (await server.get("/status/buffers")).body["buffering"] is False

    await until(is_drained, seconds=30)


async def test_a_server_accepts_pushes_without_its_database_and_survives_a_kill(
    own: Postgres, server: Server
) -> None:
    await push(server, "orders", 0)
    waiting = asyncio.create_task(server.post("/pop/queue/other", {"wait": True}))
    await asyncio.to_thread(own.stop)
    replies = [await put(server, n, producerId="p", sequence=n) for n in range(1, 6)]
    status = (await server.get("/status/buffers")).body
    ready = await server.get("/readyz", verbose="")
    refused = await server.post("/pop/queue/orders", {})
    flushed = await server.post("/system/buffer/flush")

    assert {reply.status for reply in replies} == {202}
    (message,) = replies[0].body["messages"]
    assert (message["status"], message["id"], message["offset"]) == ("buffered", None, None)
    assert (status["messages"], status["dbHealthy"], status["enabled"]) == (5, False, True)
    assert status["bytes"] > 0 <= status["oldestSeconds"] < 60
    assert (ready.status, "unavailable" in ready.body["checks"]["database"]) == (503, True)
    assert (refused.status, refused.code, flushed.status) == (503, "database_unavailable", 503)
    assert not waiting.done()
    assert server.log.count("database.lost") == 1
    await put_to_other(server)

    server.kill()
    server.launch()
    await server.hang_up()
    await until(lambda: is_up(server), seconds=30)
    assert (await put(server, 6)).status == 202
    await asyncio.to_thread(own.start)
    await drained(server)
    assert (await put(server, 7)).status == 201
    assert data(await pop(server, "orders", batch=20)) == [*range(8)]
    assert data(await pop(server, "other")) == ["other"]
    with pytest.raises(Exception):  # noqa: B017, PT011 - its server was killed
        await waiting


async def put_to_other(server: Server) -> None:
    assert (await server.post("/push", {"items": items("other", "other")})).status == 202


async def is_up(server: Server) -> bool:
    try:
        return (await server.get("/livez")).status == 200
    except aiohttp.ClientError:
        return False


async def test_a_server_that_never_reached_its_database_does_not_start(
    own: Postgres, dsn: str, tmp_path: Path
) -> None:
    await asyncio.to_thread(own.stop)
    server = Server(dsn, {"FILE_BUFFER_DIR": str(tmp_path / "new")})
    with pytest.raises(RuntimeError, match="ended while starting"):
        await server.start()
    await server.close()


async def test_push_maintenance_sends_pushes_to_disk_in_all_processes(
    dsn: str, server: Server, tmp_path: Path
) -> None:
    await push(server, "orders", 0)
    async with Server(dsn, {"FILE_BUFFER_DIR": str(tmp_path / "other")}) as other:
        assert (await server.post("/system/maintenance", {"enabled": True})).status == 200
        assert (await put(server, 1)).status == 202
        transaction = {"operations": [{"type": "push", "items": items("orders", 9)}]}
        assert (await server.post("/transaction", transaction)).code == "database_unavailable"

        async def is_on() -> bool:
            reply = await other.post("/push", {"items": items("elsewhere", 1)})
            return reply.status == 202

        await until(is_on, seconds=5)
        assert data(await pop(server, "orders", batch=20)) == [0]
        assert (await server.post("/system/buffer/flush")).status == 503
        assert (await server.post("/system/maintenance", {"enabled": False})).status == 200
        assert (await server.post("/system/buffer/flush")).body["messages"] == 0
        await drained(other)
        assert (await put(server, 2)).status == 201
        assert data(await pop(server, "elsewhere")) == [1]


async def test_a_full_buffer_rejects_pushes_as_not_applied(
    own: Postgres, dsn: str, tmp_path: Path
) -> None:
    environment = {"FILE_BUFFER_DIR": str(tmp_path / "small"), "FILE_BUFFER_MAX_BYTES": "2000"}
    async with Server(dsn, environment) as server:
        await push(server, "orders", 0)
        await asyncio.to_thread(own.stop)
        replies = [await put(server, "x" * 100, producerId="p", sequence=n) for n in range(1, 40)]
        statuses = [reply.status for reply in replies]
        taken = statuses.count(202)
        assert statuses == [202] * taken + [503] * (39 - taken)
        assert 5 < taken < 20
        last = replies[-1]
        assert (last.code, last.body["applied"]) == ("database_unavailable", False)
        await asyncio.to_thread(own.start)
        await drained(server)
        assert len(await pop(server, "orders", batch=100)) == 1 + taken


FAILING = """
import errno, os, sys
really = {{name: getattr(os, name) for name in ("fsync", "write", "ftruncate")}}
def failing(name, error):
    def call(*arguments):
        if os.path.exists({flag!r}) and (arguments[0] > 2):
            if name == "write":
                really[name](*arguments)
            raise OSError(getattr(errno, error), "injected")
        return really[name](*arguments)
    return call
if "serve" in sys.argv:
    for name, error in {calls!r}.items():
        setattr(os, name, failing(name, error))
"""
"""Loaded by the server's Python at start: the disk fails while a file exists."""


@pytest.mark.parametrize(
    ("calls", "is_certain"),
    [
        ({"write": "ENOSPC"}, True),
        ({"fsync": "EIO"}, False),
        ({"write": "EIO", "ftruncate": "EIO"}, False),
        ({"fsync": "EIO", "ftruncate": "EIO"}, False),
    ],
    ids=str,
)
async def test_a_failing_disk_returns_503_and_rejected_pushes_are_never_stored(
    own: Postgres, dsn: str, tmp_path: Path, calls: dict[str, str], is_certain: bool
) -> None:
    flag = tmp_path / "fails"
    (tmp_path / "sitecustomize.py").write_text(FAILING.format(flag=str(flag), calls=calls))
    environment = {
        "FILE_BUFFER_DIR": str(tmp_path / "buffer"),
        "PYTHONPATH": f"{tmp_path}:{SOURCE}",
    }
    async with Server(dsn, environment) as server:
        await push(server, "orders", 0)
        await asyncio.to_thread(own.stop)
        assert (await put(server, 1, producerId="p", sequence=1)).status == 202
        flag.touch()
        refused = [await put(server, -n, producerId="q", sequence=n) for n in range(1, 6)]
        answers = {(each.status, each.code, each.body["applied"]) for each in refused}
        # Without a known end of the first record, the next one needs a new file, which fails too.
        rejected, unknown = (503, "database_unavailable", False), (503, "outcome_unknown", None)
        assert (refused[0].code == "database_unavailable") is is_certain
        assert answers <= ({rejected} if is_certain else {rejected, unknown})
        flag.unlink()
        assert (await put(server, 2, producerId="p", sequence=2)).status == 202
        await asyncio.to_thread(own.start)
        await drained(server)
        stored = data(await pop(server, "orders", batch=100))
        may_be = {-n for n, each in enumerate(refused, 1) if each.body["applied"] is None}
        assert [each for each in stored if each not in may_be] == [0, 1, 2]


async def test_failed_requests_can_be_retried(server: Server) -> None:
    assert (await server.post("/system/buffer/failed/retry")).body == {"messages": 0}


async def test_a_file_with_a_torn_end_is_stored_up_to_it_and_counted_as_failed(
    own: Postgres, dsn: str, tmp_path: Path
) -> None:
    environment = {"FILE_BUFFER_DIR": str(tmp_path / "buffer")}
    async with Server(dsn, environment) as server:
        await push(server, "orders", 0)
        await asyncio.to_thread(own.stop)
        assert (await put(server, 1, producerId="p", sequence=1)).status == 202
        (path,) = (tmp_path / "buffer").glob("*.buf")
        with path.open("ab") as file:
            file.write(b"torn")
        await asyncio.to_thread(own.start)
        await drained(server)

        assert (await server.get("/status/buffers")).body["failedFiles"] == 1
        assert data(await pop(server, "orders", batch=100)) == [0, 1]


async def test_without_a_buffer_directory_the_status_is_empty(dsn: str) -> None:
    async with Server(dsn) as server:
        status = (await server.get("/status/buffers")).body
        assert (status["enabled"], status["messages"]) == (False, 0)
        assert (await server.post("/system/buffer/flush")).code == "not_found"
