"""`queen export` and `queen import`: a queue in a file, byte for byte."""

import asyncio
import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.cli.shell import Shell
from tests.support.server import Server


async def _queue(server: Server, count: int) -> None:
    items = [
        {
            "queue": "orders",
            "payload": {"n": n},
            "partition": f"p{n % 3}",
            "transactionId": f"t{n}",
            "headers": {"n": str(n)},
        }
        for n in range(count)
    ]
    for at in range(0, count, 500):
        reply = await server.post("/push", {"items": items[at : at + 500]})
        assert reply.status == 201


async def test_a_queue_is_copied_through_a_file_in_order_and_once(
    server: Server, shell: Shell, tmp_path: Path
) -> None:
    await _queue(server, 2500)
    file = tmp_path / "orders.jsonl"

    exported = await shell.run("export", "orders", str(file))
    assert (exported.out, exported.err) == ("", "2500 messages\n")
    assert not file.with_name("orders.jsonl.part").exists()
    stored = await shell.run("import", "copies", str(file))
    assert stored.err == "2500 messages stored, 0 existed already\n"
    again = await shell.run("import", "copies", str(file))
    assert again.err == "0 messages stored, 2500 existed already\n"

    back = await shell.run("export", "copies")
    for partition in range(3):
        lines = [json.loads(line) for line in back.lines]
        ours = [each for each in lines if each["partition"] == f"p{partition}"]
        assert [each["data"]["n"] for each in ours] == list(range(partition, 2500, 3))
        assert ours[0]["headers"] == {"n": str(partition)}
    # The export consumed no messages.
    assert (await server.get("/consumer-groups")).body["consumerGroups"] == []


async def test_payloads_are_copied_byte_for_byte(server: Server, shell: Shell) -> None:
    raw = b'{"big":123456789012345678901234567890,"small":1e-400,"float":1.50}'
    body = b'{"items":[{"queue":"orders","payload":' + raw + b"}]}"
    async with server.session.post(
        f"{server.base_url}/api/v1/push", data=body, headers={"content-type": "application/json"}
    ) as answer:
        assert answer.status == 201

    exported = await shell.run("export", "orders")
    assert f'"data":{raw.decode()}' in exported.out
    await shell.run("import", "copies", "--new-ids", given=exported.out)
    async with server.session.get(f"{server.base_url}/api/v1/pop/queue/copies") as popped:
        assert raw in await popped.read()


async def test_scheduled_and_expiring_messages_keep_their_times(
    server: Server, shell: Shell
) -> None:
    def item(payload: str, **times: object) -> dict[str, object]:
        return {"queue": "orders", "payload": payload, **times}

    soon = datetime.now(UTC).replace(microsecond=0) + timedelta(days=1)
    items = [
        item("later", availableAt=(soon + timedelta(days=1)).isoformat(), ttlSeconds=3600),
        item("sooner", availableAt=soon.isoformat(), transactionId="t1"),
        item("brief", ttlSeconds=86400),
        item("plain"),
    ]
    assert (await server.post("/push", {"items": items})).status == 201

    exported = await shell.run("export", "orders")
    assert exported.err == "4 messages, 2 of them scheduled\n"
    lines = [json.loads(line) for line in exported.lines]
    assert [each["data"] for each in lines] == ["brief", "plain", "sooner", "later"]
    # A message that expired before the import must not be stored forever.
    gone = json.dumps({"data": "gone", "expiresAt": "2000-01-01T00:00:00Z"}) + "\n"
    stored = await shell.run("import", "copies", given=exported.out + gone)
    assert stored.err == "4 messages stored, 0 existed already, 1 had expired\n"
    again = await shell.run("import", "copies", given=exported.out)
    assert again.err == "0 messages stored, 4 existed already\n"

    back = [json.loads(line) for line in (await shell.run("export", "copies")).lines]
    assert [each["data"] for each in back] == ["brief", "plain", "sooner", "later"]
    assert [each["availableAt"] for each in back] == [each["availableAt"] for each in lines]
    assert datetime.fromisoformat(back[2]["availableAt"]) == soon
    assert datetime.fromisoformat(back[3]["expiresAt"]) == soon + timedelta(days=1, hours=1)
    assert back[2]["transactionId"] == "t1"
    ends = [datetime.fromisoformat(each[0]["expiresAt"]) for each in (lines, back)]
    assert abs(ends[1] - ends[0]) < timedelta(minutes=1)
    assert len((await shell.run("export", "orders", "--status", "scheduled")).lines) == 2
    assert len((await shell.run("export", "orders", "--status", "pending")).lines) == 2


async def test_messages_are_filtered_and_a_dry_run_pushes_none(
    server: Server, shell: Shell
) -> None:
    await _queue(server, 9)
    one = await shell.run("export", "orders", "-p", "p1")
    assert len(one.lines) == 3
    assert (await shell.run("export", "orders", "--to", "2000-01-01")).out == ""
    dry = await shell.run("import", "copies", "--dry-run", given=one.out)
    assert dry.err == "would push 3 messages to copies\n"
    assert (await shell.run("queue", "show", "copies")).code == 3


async def test_a_pipe_is_accepted_and_a_directory_rejected(
    server: Server, shell: Shell, tmp_path: Path
) -> None:
    await _queue(server, 2)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read, exported = await asyncio.gather(
        asyncio.to_thread(pipe.read_text), shell.run("export", "orders", str(pipe))
    )
    assert (exported.code, len(read.splitlines()), pipe.is_fifo()) == (0, 2, True)
    refused = await shell.run("export", "orders", str(tmp_path))
    assert (refused.code, refused.err.startswith("queen: cannot write")) == (1, True)


async def test_an_invalid_line_is_named(shell: Shell, tmp_path: Path) -> None:
    ended = await shell.run("import", "orders", given='{"data": 1}\n{"payload": 1}\n')
    assert ended.code == 1
    assert ended.err.startswith("queen: line 2: ")
    assert (await shell.run("import", "orders", str(tmp_path / "none"))).code == 1
    assert (await shell.run("export", "none")).code == 3
