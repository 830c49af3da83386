"""`queen debug bundle`: diagnostics without secrets and payloads."""

import json
import tarfile
from pathlib import Path

import asyncpg
import pytest

from queen.cli.support.redaction import Redaction
from tests.cli.shell import Shell
from tests.support.callers import KEYS, Caller, make_key
from tests.support.server import Server

CANARY = "canary7f3a"
KEY = "c0ffee" * 10 + "c0de"


def texts_of(path: Path) -> dict[str, str]:
    with tarfile.open(path) as archive:
        found: dict[str, str] = {}
        for entry in archive:
            file = archive.extractfile(entry)
            assert file is not None
            found[entry.name.removeprefix("queen-debug/")] = file.read().decode()
        return found


async def scatter(caller: Caller, dsn: str) -> None:
    """Put the canary into every place that users can fill."""
    item = {"queue": "orders", "payload": CANARY, "headers": {"h": CANARY}}
    await caller.post("/configure", {"queue": "orders", "options": {"schema": {"const": CANARY}}})
    await caller.post("/push", {"items": [item]})
    await caller.post("/push", {"items": [{**item, "delaySeconds": 9000}]})
    (message,) = (await caller.post("/pop/queue/orders", {})).body["messages"]
    lease = {"leaseId": message["leaseId"], "partitionId": message["partitionId"]}
    trace = {"transactionId": message["transactionId"], "partitionId": message["partitionId"]}
    await caller.post("/traces", {**trace, "data": CANARY, "traceName": "t"})
    await caller.post("/ack", {"id": message["id"], **lease, "status": "dlq", "error": CANARY})
    made = {"name": "nightly", "queue": "orders", "cron": "0 0 * * *", "payload": CANARY}
    assert (await caller.post("/schedules", made)).status == 200
    connection = await asyncpg.connect(dsn)
    await connection.execute(
        "insert into queen.outbox (item, payload) values ('{}', to_json($1::text))", CANARY
    )
    await connection.close()


async def test_the_bundle_contains_no_secret_and_no_payload(dsn: str, tmp_path: Path) -> None:
    secrets = {"QUEEN_ENCRYPTION_KEY": KEY, "JWT_SECRET": f"{CANARY}-jwt-{'x' * 32}"}
    token = await make_key(dsn)
    async with Server(dsn, {**KEYS, **secrets}) as server:
        await scatter(Caller(server, token), dsn)
        path = tmp_path / "bundle.tar.gz"
        ended = await Shell(server, tmp_path).run(
            *("debug", "bundle", "-f", str(path), "--dsn", dsn),
            QUEEN_TOKEN=token,
            PG_PASSWORD=CANARY,
            **secrets,
        )
        logged = server.log

    assert (ended.code, ended.out) == (0, f"{path}\n"), ended
    assert path.stat().st_mode & 0o077 == 0
    found = texts_of(path)
    assert {"README.txt", "environment.json", "doctor.json", "database.json"} <= set(found)
    assert "server/metrics.txt" in found
    for name, text in {**found, "stdout": ended.out, "stderr": ended.err}.items():
        for secret in (CANARY, KEY, token, token.rpartition("_")[2], dsn):
            assert secret not in text, (name, secret)
    assert CANARY not in logged
    # It still contains useful data.
    assert "orders" in found["server/queues.json"]
    assert "nightly" in found["server/schedules.json"]
    assert all("unknown" not in json.loads(t) for n, t in found.items() if n.endswith(".json"))


async def test_unreachable_parts_are_reported_in_their_place(shell: Shell, tmp_path: Path) -> None:
    path = tmp_path / "bundle.tar.gz"
    nowhere = "http://127.0.0.1:9"
    ended = await shell.run("debug", "bundle", "-f", str(path), QUEEN_BASE_URL=nowhere)

    assert ended.code == 0
    assert "cannot reach" in json.loads(texts_of(path)["server/tables.json"])["unknown"]
    again = await shell.run("debug", "bundle", "-f", str(path), QUEEN_BASE_URL=nowhere)
    assert (again.code, "cannot write" in again.err) == (1, True)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql://shop:hunter2@db/shop", "postgresql://****@db/shop"),
        ("host=db password=hunter2 user=x", "host=db password=**** user=x"),
        ("Authorization: Bearer abc.def", "Authorization: ****"),
        ('{"token": "hunter2"}', '{"token": "****"}'),
        ("qk_abc_Zm9vYmFy is a key", "**** is a key"),
        ("eyJhbGciOi.eyJzdWIi.c2ln", "****"),
        (f"key {KEY}", "key ****"),
        ("from the ring: 0123abcd4567", "from the ring: ****"),
        ("sw/ord and sw%2Ford", "**** and ****"),
        ("orders has 3 messages", "orders has 3 messages"),
    ],
)
def test_secrets_are_masked_by_value_and_by_shape(text: str, shown: str) -> None:
    environ = {
        "QUEEN_ENCRYPTION_KEYS": "k1:0123abcd4567,k2:76543210",
        "DATABASE_URL": "postgresql://queen:sw%2Ford@db/queen",
    }
    assert Redaction(environ)(text) == shown
