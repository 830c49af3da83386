"""Payloads of encrypted queues are masked on the command line unless you pass --reveal."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.cli.shell import Shell
from tests.support.server import Server
from tests.support.verbs import bury, push

CANARY = "canary-9d10"


@pytest.fixture
async def server(dsn: str) -> AsyncIterator[Server]:
    async with Server(dsn, {"QUEEN_ENCRYPTION_KEY": "ab" * 32}) as server:
        options = {"queue": "orders", "options": {"encryptionEnabled": True, "ordered": False}}
        assert (await server.post("/configure", options)).status == 200
        yield server


async def test_read_commands_mask_and_reveal(server: Server, shell: Shell) -> None:
    (pushed,) = await push(server, "orders", {"who": CANARY}, headers={"who": CANARY})
    await push(server, "orders", {"name": CANARY}, delaySeconds=3600, transactionId="later")
    schedule = {"name": "s", "queue": "orders", "cron": "0 0 1 1 *", "payload": CANARY}
    assert (await server.post("/schedules", schedule)).status == 200
    letter = await bury(server, "orders")
    for command in (
        ("peek", "orders"),
        ("tail", "orders", "--no-follow"),
        ("message", "show", pushed["id"]),
        ("dlq", "show", letter["id"]),
        ("job", "show", "orders", "later"),
        ("cron", "show", "s"),
    ):
        masked = await shell.run(*command)
        assert (masked.code, CANARY in masked.out) == (0, False), command
        assert "masked" in masked.out, command
        revealed = await shell.run(*command, "--reveal")
        assert (revealed.code, CANARY in revealed.out) == (0, True), command
    for command in (("dlq", "ls", "orders"), ("job", "ls", "orders")):
        masked = await shell.run(*command, "-o", "jsonl")
        assert [json.loads(line)["masked"] for line in masked.lines] == [True], command
        revealed = await shell.run(*command, "-o", "jsonl", "--reveal")
        assert [json.loads(line)["masked"] for line in revealed.lines] == [False], command


async def test_a_tail_filter_cannot_search_masked_payloads(server: Server, shell: Shell) -> None:
    await push(server, "orders", {"who": CANARY}, headers={"who": CANARY})
    for test in (f"payload.who={CANARY}", "payload.who!=x", f"headers.who={CANARY}"):
        refused = await shell.run("tail", "orders", "--no-follow", "--where", test)
        assert (refused.code, "--reveal" in refused.err) == (4, True)
        told = ("tail", "orders", "--no-follow", "--where", test, "--reveal")
        assert CANARY in (await shell.run(*told)).out
    plain = await shell.run("tail", "orders", "--no-follow", "--where", "partition=Default")
    assert plain.out.rstrip().endswith("Default 0 masked")


async def test_a_search_in_masked_payloads_needs_reveal(server: Server, shell: Shell) -> None:
    await push(server, "orders", CANARY)
    refused = await shell.run("peek", "orders", "--contains", CANARY)
    assert (refused.code, "reveal=true" in refused.err) == (4, True)
    assert CANARY in (await shell.run("peek", "orders", "--contains", CANARY, "--reveal")).out


async def test_masked_messages_are_neither_exported_nor_imported(
    server: Server, shell: Shell, tmp_path: Path
) -> None:
    await push(server, "orders", CANARY)
    file = tmp_path / "orders.jsonl"
    refused = await shell.run("export", "orders", str(file))
    assert (refused.code, "--reveal" in refused.err) == (4, True)
    assert not file.exists()
    exported = await shell.run("export", "orders", str(file), "--reveal")
    assert (exported.code, json.loads(file.read_text())["data"]) == (0, CANARY)
    assert (await shell.run("import", "copies", str(file))).code == 0

    # The formats of the dashboard's export and of the API.
    await bury(server, "orders")
    masked = await shell.run("dlq", "ls", "orders", "-o", "jsonl")
    file.write_text(masked.out)
    imported = await shell.run("import", "more", str(file))
    assert imported.code == 1
    assert "line 1: the payload is masked" in imported.err
    assert (await server.get("/messages", queue="more")).code == "queue_not_found"
