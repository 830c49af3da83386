"""The engine finds the primary among several hosts, and does not wait for unreachable ones."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from queen.errors import DatabaseUnavailable, OutcomeUnknown, QueenError
from queen.store.connection.database import Database
from queen.store.connection.options import Connecting
from queen.store.connection.primary import Hosts
from queen.store.migrations import migrate
from tests.engine.helpers import until
from tests.support.gate import Gate
from tests.support.pair import Pair
from tests.support.postgres import Postgres


@pytest.fixture(scope="module")
def own() -> Iterator[Postgres]:
    """A PostgreSQL server with a port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    with Postgres(port=port) as postgres:
        yield postgres


@pytest.fixture
async def mute() -> AsyncIterator[tuple[int, list[asyncio.StreamWriter]]]:
    """A port that accepts connections and never responds, with the list of its connections."""
    writers: list[asyncio.StreamWriter] = []

    async def keep(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        del reader
        writers.append(writer)

    server = await asyncio.start_server(keep, "127.0.0.1", 0)
    yield server.sockets[0].getsockname()[1], writers
    server.close()
    for writer in writers:
        writer.close()


async def test_a_silent_host_does_not_prevent_a_connection_to_the_next(
    own: Postgres, mute: tuple[int, list[asyncio.StreamWriter]]
) -> None:
    port = own.settings["port"]
    mute_port, came = mute
    hosts = Hosts(f"postgresql://postgres@127.0.0.1:{mute_port},127.0.0.1:{port}/postgres")

    first = await hosts.connect(timeout=1)
    assert len(came) == 1
    second = await hosts.connect(timeout=1)

    assert first.get_server_pid() != second.get_server_pid()
    # The host that responded is tried first.
    assert len(came) == 1
    await first.close()
    await second.close()


async def test_sockets_use_keepalive_probes(own: Postgres) -> None:
    connection = await Hosts(own.dsn()).connect()
    try:
        ours = connection._transport.get_extra_info("socket")  # pyright: ignore
        assert ours.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        idle, every, count = (
            ours.getsockopt(socket.IPPROTO_TCP, option)
            for option in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
        )
        assert idle + every * count < 10
        assert 0 < ours.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) < 10_000
    finally:
        await connection.close()
    database = await Database.open(own.dsn())
    try:
        rows = await database.fetch(
            "server_settings", ["tcp_user_timeout", "client_connection_check_interval"]
        )
        assert {row["name"]: row["amount"] for row in rows} == {
            "tcp_user_timeout": 9_000,
            "client_connection_check_interval": 2_000,
        }
    finally:
        await database.close()


async def test_a_call_without_a_response_fails_and_all_silent_connections_are_closed(
    dsn: str, tmp_path: Path
) -> None:
    async with Gate.open(dsn, tmp_path) as gate:
        database = await Database.open(gate.dsn, Connecting(silence_seconds=0.5, connections=5))
        await asyncio.gather(*(database.fetch("server_state") for _ in range(2)))
        await asyncio.gather(*(database.fetch("now") for _ in range(3)))
        gate.fall_silent()

        with pytest.raises(OutcomeUnknown, match="no response within"):
            await database.fetch("now")

        for _ in range(5):
            await database.fetch("now")
        await database.close()


async def test_a_server_that_no_longer_responds_is_unavailable(dsn: str, tmp_path: Path) -> None:
    async with Gate.open(dsn, tmp_path) as gate:
        how = Connecting(silence_seconds=0.5, timeout_seconds=0.5)
        database = await Database.open(gate.dsn, how)
        gate.swallow(True)
        with pytest.raises(OutcomeUnknown):
            await database.fetch("now")
        with pytest.raises(DatabaseUnavailable):
            await database.fetch("now")
        assert database.is_away
        gate.swallow(False)

        async def is_back() -> bool:
            return not database.is_away

        await until(is_back)
        await database.fetch("now")
        await database.close()


async def test_a_standby_is_rejected_and_so_is_a_former_primary() -> None:
    with Pair() as pair:
        old, new = pair.primary, pair.standby
        old.create_database("queen")
        await migrate(pair.dsn("queen"))
        with pytest.raises(DatabaseUnavailable, match="standby"):
            await Database.open(new.dsn("queen"))
        database = await Database.open(pair.dsn("queen"))

        async def is_answered() -> bool:
            with contextlib.suppress(QueenError):
                return bool(await database.fetch("now"))
            return False

        await asyncio.to_thread(old.kill)
        await asyncio.to_thread(pair.promote)
        await until(is_answered)
        await asyncio.to_thread(new.kill)
        # The former primary starts again, and was not made a standby.
        await asyncio.to_thread(old.start)

        async def is_refused() -> bool:
            return not await is_answered() and "was the primary" in database.away_because

        await until(is_refused)
        await asyncio.to_thread(new.start)
        await until(is_answered)
        await database.close()


async def test_the_error_of_a_single_host_names_it(
    mute: tuple[int, list[asyncio.StreamWriter]],
) -> None:
    port, _ = mute

    with pytest.raises(ConnectionError, match=f"^127.0.0.1:{port}: TimeoutError$"):
        await Hosts(f"postgresql://me:secret@127.0.0.1:{port}/postgres").connect(timeout=0.1)


async def test_migrations_without_a_database_say_where_it_should_be() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        with pytest.raises(DatabaseUnavailable, match=f"PostgreSQL: 127.0.0.1:{port}: .*refused"):
            await migrate(f"postgresql://me:secret@127.0.0.1:{port}/postgres")
