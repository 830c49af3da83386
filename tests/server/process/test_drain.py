"""A stopping server finishes running calls and rejects new ones."""

import asyncio
import contextlib
import json
import os
import signal

import aiohttp
import pytest

from tests.support.calls import (
    configure,
    data,
    held_partitions,
    items,
    pop,
    posted,
    push,
    until_blocked,
)
from tests.support.exercised import note_code
from tests.support.postgres import Postgres
from tests.support.server import Server, until


async def test_long_polls_return_without_messages(dsn: str) -> None:
    async with Server(dsn) as server:
        await configure(server, "q")
        waiting = [
            asyncio.create_task(server.post("/pop/queue/q", {"wait": True})) for _ in range(20)
        ]
        await _asleep(server)

        await server.stop()

        assert {(await each).status for each in waiting} == {204}


async def test_running_calls_finish_and_new_ones_are_rejected(dsn: str) -> None:
    async with Server(dsn) as server:
        await push(server, "q", 0)
        kept = await asyncio.open_connection("127.0.0.1", server.port)
        probe = await asyncio.open_connection("127.0.0.1", server.port)
        for _, writer in (kept, probe):
            writer.write(b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n")
        for reader, _ in (kept, probe):
            await reader.readuntil(b"}")
        async with held_partitions(dsn) as connection:
            running = asyncio.create_task(server.post("/push", {"items": items("q", 1)}))
            await until_blocked(connection)
            os.kill(server.pid, signal.SIGTERM)

            async def is_unready() -> bool:
                probe[1].write(b"GET /readyz HTTP/1.1\r\nhost: localhost\r\n\r\n")
                return (await probe[0].readuntil(b"}")).startswith(b"HTTP/1.1 503 ")

            await until(is_unready)
            kept[1].write(posted("/push", b'{"items":[{"queue":"q","payload":2}]}'))
            refused = await kept[0].read(-1)
        assert refused.startswith(b"HTTP/1.1 503 ")
        problem = json.loads(refused.partition(b"\r\n\r\n")[2])
        note_code(problem["code"])
        assert (problem["code"], problem["applied"]) == ("draining", False)
        assert b"retry-after" in refused.lower()
        assert (await running).status == 201
        for _, writer in (kept, probe):
            writer.close()
        await server.stop()
        await server.start()
        assert data(await pop(server, "q", batch=5)) == [0, 1]


async def test_a_server_stops_within_a_bounded_time(dsn: str) -> None:
    async with Server(dsn, {"QUEEN_SHUTDOWN_SECONDS": "1"}) as server:
        await push(server, "q", 0)
        async with held_partitions(dsn) as connection:
            running = asyncio.create_task(server.post("/push", {"items": items("q", 1)}))
            await until_blocked(connection)

            async with asyncio.timeout(20):
                await server.stop()

            # The connection is closed, or the outcome is reported as unknown.
            with contextlib.suppress(aiohttp.ClientError):
                assert (await running).status in (500, 503)


async def test_all_processes_of_a_server_stop(dsn: str) -> None:
    async with Server(dsn, {"NUM_WORKERS": "2"}) as server:
        await push(server, "q", 1)

        assert await server.stop() == 0


async def test_a_worker_that_dies_is_replaced(dsn: str) -> None:
    async with Server(dsn, {"NUM_WORKERS": "2"}) as server:
        for child in _children(server.pid):
            os.kill(child, signal.SIGKILL)
        await server.hang_up()

        async def is_back() -> bool:
            try:
                return (await server.post("/push", {"items": items("q", 1)})).status == 201
            except aiohttp.ClientError:
                return False

        await until(is_back, seconds=20)


@pytest.mark.nightly
async def test_a_worker_that_dies_in_an_outage_does_not_stop_the_others() -> None:
    with Postgres(in_memory=True) as postgres:
        async with Server(postgres.create_database("away"), {"NUM_WORKERS": "2"}) as server:

            async def is_logged(event: str, times: int) -> bool:
                return server.log.count(event) >= times

            await until(lambda: is_logged("worker.started", 2), seconds=30)
            await asyncio.to_thread(postgres.stop)
            os.kill(_children(server.pid)[0], signal.SIGKILL)
            # The worker, and its replacement that found no database.
            await until(lambda: is_logged("worker.ended", 2), seconds=30)
            await server.hang_up()
            assert (await server.get("/livez")).status == 200

            await asyncio.to_thread(postgres.start)
            await until(lambda: is_logged("worker.started", 3), seconds=60)
            assert (await server.post("/push", {"items": items("q", 1)})).status == 201


async def test_without_its_database_a_server_is_unready() -> None:
    with Postgres(in_memory=True) as postgres:
        dsn = postgres.create_database("away")
        async with Server(dsn) as server:
            await push(server, "q", 1)
            await asyncio.to_thread(postgres.stop)

            async def is_unready() -> bool:
                return (await server.get("/readyz")).status == 503

            await until(is_unready)
            reply = await server.post("/pop/queue/q", {})
            health = await server.get("/health")

            assert (reply.status, reply.code) in (
                (503, "database_unavailable"),
                (503, "outcome_unknown"),
            )
            assert "Retry-After" in reply.headers
            assert (health.status, health.body["database"]) == (503, "disconnected")
            assert (await server.get("/livez")).status == 200
            await asyncio.to_thread(postgres.start)
            await until(lambda: _is_ready(server), seconds=30)
            assert data(await pop(server, "q")) == [1]


async def _is_ready(server: Server) -> bool:
    return (await server.get("/readyz")).status == 200


async def _asleep(server: Server) -> None:
    """Wait until earlier long polls are registered: calls of one queue run in order."""
    for _ in range(3):
        await pop(server, "q")


def _children(parent: int) -> list[int]:
    with open(f"/proc/{parent}/task/{parent}/children") as file:
        return [
            pid for pid in map(int, file.read().split()) if b"resource_tracker" not in _command(pid)
        ]


def _command(pid: int) -> bytes:
    with open(f"/proc/{pid}/cmdline", "rb") as file:
        return file.read()
