"""An encrypted queue over HTTP: a canary appears in no table, index, TOAST, WAL or log."""

import asyncio
import os
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from queen.store.migrations import migrate
from tests.cli.commands import queen
from tests.support.postgres import Postgres
from tests.support.prefork import SOURCE, run_queen
from tests.support.server import Server
from tests.support.verbs import bury, pop, push, settle

CANARY = "canary-3c8f51"
CONTROL = "control-3c8f51"
FILLER = "x" * 5_000
KEY = "ab" * 32
KEYED = {"QUEEN_ENCRYPTION_KEY": KEY, "LOG_LEVEL": "debug"}


async def configure(server: Server, queue: str, **options: object) -> None:
    reply = await server.post("/configure", {"queue": queue, "options": options})
    assert reply.status == 200, reply


async def use_every_path(server: Server) -> None:
    """Pass a message with the canary through every feature."""
    secret = {"secret": CANARY, "filler": FILLER}
    marked: dict[str, Any] = {"headers": {"secret": CANARY}}
    for queue in ("orders", "elsewhere"):
        await configure(server, queue, encryptionEnabled=True)
    await push(server, "orders", secret, secret, secret, **marked)
    await push(server, "orders", secret, transactionId="t", traceId="r", **marked)
    await push(server, "orders", secret, delaySeconds=3600, **marked)
    (message,) = await pop(server, "orders")
    assert (message["data"], message["headers"]) == (secret, marked["headers"])
    await settle(server, message, "failed", error="no", delaySeconds=0)
    await bury(server, "orders")
    letter = await bury(server, "orders", consumerGroup="g", subscriptionMode="all")
    letter = (await server.get(f"/dlq/{letter['id']}", reveal="true")).body
    assert (letter["data"], letter["headers"]) == (secret, marked["headers"])
    # One to its own queue, the other to another queue.
    wanted = {"filter": {"ids": [letter["id"]]}}
    assert (await server.post("/dlq/redrive", wanted)).body["count"] == 1
    (message,) = await pop(server, "orders", consumerGroup="g")
    assert (message["data"], message["headers"]) == (secret, marked["headers"])
    (letter,) = (await server.get("/dlq", queue="orders")).body["messages"]
    destination = {"queue": "elsewhere", "partition": "p"}
    wanted = {"filter": {"ids": [letter["id"]]}, "destination": destination}
    assert (await server.post("/dlq/redrive", wanted)).body["count"] == 1
    (message,) = await pop(server, "elsewhere")
    assert message["data"] == secret
    assert message["headers"]["secret"] == CANARY
    reply = await server.delete(f"/messages/{message['partitionId']}/{message['transactionId']}")
    assert reply.status == 200, reply
    for parameters in (
        {"queue": "orders"},
        {"queue": "orders", "contains": CANARY},
        {"queue": "orders", "status": "scheduled"},
    ):
        reply = await server.get("/messages", **parameters, reveal="true")
        assert reply.status == 200, reply
        assert CANARY in str(reply.body)
    operations = [{"type": "push", "items": [{"queue": "elsewhere", "payload": secret}]}]
    assert (await server.post("/transaction", {"operations": operations})).status == 200
    for path in ("/metrics", "/system/config", "/audit", "/dlq", "/queues"):
        reply = await server.get(path)
        assert CANARY not in str(reply.body)


def files_with(folder: Path, word: bytes) -> list[str]:
    """The files in a data directory, including the WAL, that contain a word."""
    return [
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file() and word in path.read_bytes()
    ]


async def test_a_canary_is_never_stored_unencrypted() -> None:
    with Postgres(in_memory=True) as postgres:
        dsn = postgres.create_database("canary")
        await migrate(dsn)
        async with Server(dsn, KEYED) as server:
            await use_every_path(server)
            await push(server, "plain", CONTROL)
            connection = await asyncpg.connect(dsn)
            await connection.execute("vacuum analyze")
            await connection.execute("checkpoint")
            await connection.close()
            log = server.log
            arguments = Path(f"/proc/{server.pid}/cmdline").read_text()  # noqa: ASYNC240
        found = await asyncio.to_thread(files_with, postgres.data, CONTROL.encode())
        # The search works: it finds an unencrypted word in a table and in the WAL.
        assert any("base" in name for name in found)
        assert any("pg_wal" in name for name in found)
        assert await asyncio.to_thread(files_with, postgres.data, CANARY.encode()) == []
        assert CANARY not in postgres.log.read_text()
        for word in (KEY.encode(), bytes.fromhex(KEY)):
            assert not files_with(postgres.data, word)
    assert "orders" in log
    for text in (log, arguments):
        assert CANARY not in text
        assert KEY not in text


@pytest.mark.parametrize(
    "variables",
    [
        {"QUEEN_ENCRYPTION_KEY": KEY[:-1]},
        {"QUEEN_ENCRYPTION_KEY": ""},
        {"QUEEN_ENCRYPTION_KEYS": KEY},
        {"QUEEN_ENCRYPTION_KEYS": f"a:{KEY},b"},
        {"QUEEN_ENCRYPTION_KEYS_FILE": "/does/not/exist"},
    ],
)
async def test_a_malformed_key_stops_the_start(dsn: str, variables: dict[str, str]) -> None:
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(SOURCE),
        "DATABASE_URL": dsn,
        "PORT": "0",
        **variables,
    }
    ended = await asyncio.to_thread(run_queen, "serve", environment=environment)
    assert ended.code != 0
    said = ended.out + ended.err
    assert "QUEEN_ENCRYPTION_KEY" in said
    assert KEY[:-1] not in said


async def test_a_server_without_the_key_reports_it_and_one_with_the_key_continues(dsn: str) -> None:
    async with Server(dsn, KEYED) as keyed, Server(dsn) as keyless:
        await configure(keyed, "orders", encryptionEnabled=True)
        await push(keyed, "orders", 1)
        for path in (
            "pop/queue/orders",
            "pop/queue/orders?autoAck=true",
            "messages?queue=orders&reveal=true",
        ):
            reply = await keyless.get(f"/{path}")
            assert (reply.status, reply.code) == (503, "encryption_unavailable")
            assert reply.body["applied"] is False
        reply = await keyless.post("/push", {"items": [{"queue": "orders", "payload": 2}]})
        assert (reply.status, reply.code) == (503, "encryption_unavailable")
        (message,) = await pop(keyed, "orders")
        assert (message["data"], message["attempt"]) == (1, 1)


async def test_one_undecryptable_message_does_not_hide_the_others(dsn: str) -> None:
    async with Server(dsn, KEYED) as keyed, Server(dsn) as keyless:
        await push(keyed, "orders", "plain", "plain")
        for _ in range(2):
            await bury(keyed, "orders")
        await push(keyed, "orders", "plain", delaySeconds=3600, transactionId="s1")
        await configure(keyed, "orders", encryptionEnabled=True)
        await push(keyed, "orders", "sealed", "forged", headers={"a": "b"})
        for _ in range(2):
            await bury(keyed, "orders")
        for n, value in enumerate(("sealed", "forged"), 2):
            await push(keyed, "orders", value, delaySeconds=3600, transactionId=f"s{n}")
        connection = await asyncpg.connect(dsn)
        for table in ("dead_letters", "scheduled"):
            await connection.execute(
                f"update queen.{table} set payload = "
                "set_byte(payload, 40, 255 - get_byte(payload, 40))"
                f" where id = (select max(id) from queen.{table})"
            )
        await connection.close()

        async def shown(server: Server, path: str, **query: str) -> list[tuple[Any, ...]]:
            reply = await server.get(path, queue="orders", reveal="true", **query)
            assert reply.status == 200, reply
            return [
                (each["data"], each["dataError"], each["headers"])
                for each in reply.body["messages"]
            ]

        lost: tuple[Any, ...] = (None, "encryption_unavailable", {})
        plain: tuple[Any, ...] = ("plain", None, {})
        sealed = ("sealed", None, {"a": "b"})
        assert await shown(keyed, "/dlq") == [lost, sealed, plain, plain]
        assert await shown(keyless, "/dlq") == [lost, lost, plain, plain]
        assert await shown(keyed, "/messages", status="scheduled") == [
            plain,
            ("sealed", None, {}),
            lost,
        ]
        assert await shown(keyless, "/messages", status="scheduled") == [plain, lost, lost]
        assert await shown(keyless, "/messages", status="scheduled", contains="null") == []

        exporting = ("export", "orders", "--status", "scheduled", "--reveal")
        exported = await queen(*exporting, dsn=dsn, QUEEN_BASE_URL=keyless.base_url)
        assert exported.code != 0
        assert "s2 cannot be read: encryption_unavailable" in exported.err

        newest = (await keyed.get("/dlq", queue="orders")).body["messages"][0]
        one = await keyed.get(f"/dlq/{newest['id']}", reveal="true")
        assert (one.status, one.body["dataError"]) == (200, "encryption_unavailable")
        # Redrives skip it too, and it isn't pushed with another payload.
        ids = [each["id"] for each in (await keyed.get("/dlq", queue="orders")).body["messages"]]
        wanted = {"filter": {"ids": ids}, "destination": {"queue": "orders", "partition": "p"}}
        assert (await keyed.post("/dlq/redrive", wanted)).body["count"] == 3
        assert [each["id"] for each in (await keyed.get("/dlq")).body["messages"]] == ids[:1]


async def test_a_master_key_is_rotated_without_a_stop(dsn: str, tmp_path: Path) -> None:
    """The steps of the guide: add the key, make it first, run `rotate`, remove the old one."""
    keys = tmp_path / "keys"
    old, new = f"default:{KEY}", f"k2:{'cd' * 32}"

    def keyring(*lines: str) -> dict[str, str]:
        keys.write_text("\n".join(lines))
        keys.chmod(0o600)
        return {"QUEEN_ENCRYPTION_KEYS_FILE": str(keys)}

    servers = [Server(dsn, keyring(old)), Server(dsn, keyring(old))]
    pushed = 0

    async def load() -> None:
        nonlocal pushed
        for _ in range(20):
            for server in servers:
                await push(server, "orders", pushed)
                pushed += 1

    try:
        for server in servers:
            await server.start()
        await configure(servers[0], "orders", encryptionEnabled=True)
        await load()
        for lines in ((old, new), (new, old)):
            for server in servers:
                await server.stop()
                keyring(*lines)
                await server.start()
                await load()
        environment = keyring(new, old)
        running = asyncio.create_task(load())
        rotated = await queen("key", "rotate", dsn=dsn, **environment)
        await running
        assert (rotated.code, rotated.out) == (0, "1 data keys are wrapped with k2 now.\n")
        status = await queen("key", "status", "-o", "json", dsn=dsn, **environment)
        assert status.code == 0
        assert '"id":"default"' in status.out.replace(" ", "")
        lost = await queen("key", "status", dsn=dsn, **keyring(old))
        assert (lost.code, "k2" in lost.err) == (1, True)
        for server in servers:
            await server.stop()
            keyring(new)
            await server.start()
            await load()
        found: list[int] = []
        while messages := await pop(servers[1], "orders", batch=1000, autoAck="true"):
            found += [each["data"] for each in messages]
        assert found == list(range(pushed))
    finally:
        for server in servers:
            await server.close()
