"""`queen tail`: follow a queue without consuming it."""

import asyncio
import json
import signal

from queen import Queen
from queen.cli.commands.data.tail import Reader
from tests.cli.shell import Shell
from tests.support.server import Server


async def _push(server: Server, *payloads: object, partition: str = "Default") -> None:
    items = [{"queue": "orders", "payload": each, "partition": partition} for each in payloads]
    assert (await server.post("/push", {"items": items})).status == 201


async def test_new_messages_are_printed_in_order_and_not_consumed(
    server: Server, shell: Shell
) -> None:
    await _push(server, {"x": 1}, {"x": 2}, {"x": 3})
    told = ("tail", "orders", "-n", "2", "--format", "{partition} {offset} {data}")
    async with shell.started(*told, "--interval", "100ms") as process:
        assert process.stdout is not None
        async with asyncio.timeout(20):
            first = [await process.stdout.readline() for _ in range(2)]
            await _push(server, {"x": 4}, partition="b")
            await _push(server, {"x": 5})
            rest = [await process.stdout.readline() for _ in range(2)]
        process.send_signal(signal.SIGINT)
        await process.wait()

    assert process.returncode == 130
    assert first == [b'Default 1 {"x": 2}\n', b'Default 2 {"x": 3}\n']
    assert rest == [b'b 0 {"x": 4}\n', b'Default 3 {"x": 5}\n']
    assert (await server.get("/resources/queues/orders/deliveries")).body["deliveries"] == []
    assert (await server.get("/consumer-groups")).body["consumerGroups"] == []


async def test_filters_and_start_positions(server: Server, shell: Shell) -> None:
    await _push(server, {"x": 1, "who": {"name": "ann"}}, {"x": "1"}, {"x": True}, [7])
    await _push(server, {"x": 1}, partition="b")

    async def seen(*options: str) -> list[object]:
        ended = await shell.run("tail", "orders", "--no-follow", "-o", "jsonl", *options)
        assert ended.code == 0
        return [json.loads(line)["data"] for line in ended.lines]

    one, text = {"x": 1, "who": {"name": "ann"}}, {"x": "1"}
    assert await seen("--where", "payload.x=1") == [one, text, {"x": 1}]
    assert await seen("--where", "payload.x=1", "--where", "partition=Default") == [one, text]
    assert await seen("--where", "payload.who.name=ann") == [one]
    assert await seen("--where", "payload.x!=1") == [{"x": True}, [7]]
    assert await seen("--where", "payload.0=7") == [[7]]
    assert await seen("-p", "b") == [{"x": 1}]
    assert len(await seen("--from=-10m")) == 5
    assert await seen("--from=2100-01-01") == []
    assert len(await seen("-n", "2")) == 2
    assert await seen("-n", "0") == []
    assert (await shell.run("tail", "orders", "--where", "payload.x")).code == 2


async def test_payloads_cannot_control_the_terminal(server: Server, shell: Shell) -> None:
    await _push(server, "\x1b[2J\n")

    ended = await shell.run("tail", "orders", "--no-follow", "--format", "{partition} {payload}")

    assert ended.out == "Default \\x1b[2J\\n\n"


async def test_a_queue_can_be_created_later(server: Server, shell: Shell) -> None:
    async with shell.started("tail", "orders", "--interval", "100ms", "--format", "{data}") as tail:
        assert tail.stderr is not None
        assert tail.stdout is not None
        async with asyncio.timeout(20):
            assert b"queue orders does not exist yet" in await tail.stderr.readline()
            await _push(server, 1, 2)
            assert await tail.stdout.readline() == b"1\n"
            assert await tail.stdout.readline() == b"2\n"


async def test_skipped_messages_are_reported(server: Server) -> None:
    async with Queen(server.base_url) as queen:
        reader = Reader(queen, "orders", most=10)
        await _push(server, *range(3))
        assert [each["data"] for each in await reader.first(None, 2, [])] == [1, 2]
        await _push(server, *range(3, 8))
        assert [each["data"] for each in await reader.next()] == [3, 4, 5, 6, 7]
        assert reader.skipped == ""
        await _push(server, *range(8, 30))

        assert [each["data"] for each in await reader.next()] == list(range(20, 30))
        assert reader.skipped == "at least 12 messages"
        await _push(server, 30)
        assert [each["data"] for each in await reader.next()] == [30]
        assert reader.skipped == ""


async def test_skipped_messages_of_new_partitions_are_counted_as_unknown(
    server: Server,
) -> None:
    async with Queen(server.base_url) as queen:
        reader = Reader(queen, "orders", most=5)
        await reader.first(None, 2, [])
        for number in range(8):
            await _push(server, number, partition=f"p{number}")
        assert len(await reader.next()) == 5
        assert reader.skipped == "an unknown number of messages"


async def test_an_unknown_field_or_queue_is_an_error(server: Server, shell: Shell) -> None:
    await _push(server, {"x": 1})
    slip = await shell.run("tail", "orders", "--no-follow", "--format", "{nope} {data}")
    assert (slip.code, slip.out) == (2, "")
    assert slip.err.startswith("queen: {nope}: a message has payload, id,")
    deep = await shell.run("tail", "orders", "--no-follow", "--format", "{payload.y} {createdAt}")
    assert (deep.code, deep.out[:2]) == (0, "- ")
    assert (await shell.run("tail", "none", "--no-follow")).code == 3
