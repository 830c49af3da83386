"""Exit codes of commands, and errors without tracebacks."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from queen import errors
from queen.cli.support.exit_codes import exit_code
from tests.cli.shell import Ended, Shell
from tests.cli.terminal import Terminal

_SLIPS = [
    ("push", "orders", "{"),
    ("push", "orders", "1", "--header", "x"),
    ("push", "orders", "1", "--delay", "soon"),
    ("push", "orders", "1", "--ttl", "long"),
    ("--timeout", "abc", "queue", "ls"),
    ("tail", "orders", "--where", "foo"),
    ("tail", "orders", "--interval", "often"),
    ("--server", "localhost:6632", "queue", "ls"),
    ("queue", "ls", "--server", "localhost:6632"),
    ("queue", "configure", "orders", "leaseTime"),
    ("queue", "configure", "orders", "nope=1"),
    ("context", "add", "a", "--server", "localhost:6632"),
    ("peek", "orders", "--to", "soon"),
    ("group", "seek", "billing", "orders", "--to", "soon", "--yes"),
]


async def test_a_usage_error_exits_with_2(shell: Shell) -> None:
    for slip in _SLIPS:
        ended = await shell.run(*slip)
        assert ended.code == 2, (slip, ended)
        assert ended.err.startswith("queen: "), (slip, ended)
        assert len(ended.err.splitlines()) == 1, (slip, ended)


async def test_a_question_can_be_declined_or_interrupted(shell: Shell) -> None:
    await shell.run("push", "orders", "1")

    def use(key: str, last: str) -> None:
        told = ("queue", "delete", "orders")
        with Terminal(*told, environment=shell.environment) as terminal:
            terminal.until(lambda screen: "[y/N]" in screen)
            terminal.press(key)
            if key == "n":
                terminal.press("Enter")
            terminal.until(lambda screen: f"ended with {last}" in screen)

    await asyncio.to_thread(use, "C-c", "130")
    await asyncio.to_thread(use, "n", "1")
    assert (await shell.run("queue", "show", "orders")).code == 0


@pytest.fixture
async def elsewhere() -> AsyncIterator[str]:
    """The URL of a server that is not Queen and returns the same page for every path."""
    page = b"<html>welcome</html>"

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(page)}\r\nConnection: close\r\n\r\n"
        writer.write(head.encode() + page)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def test_a_server_that_is_not_queen_is_reported_in_one_sentence(
    shell: Shell, elsewhere: str
) -> None:
    async def run(*arguments: str) -> Ended:
        return await shell.run(*arguments, QUEEN_BASE_URL=elsewhere)

    commands = [
        ("queue", "ls"),
        ("push", "orders", "1"),
        ("pop", "orders"),
        ("ack", "id", "lease"),
        ("top", "--once"),
        ("tail", "orders", "--no-follow"),
        ("export", "orders"),
    ]
    for command in commands:
        ended = await run(*command)
        assert ended.code in (1, 5), (command, ended)
        assert ended.err.startswith("queen: "), (command, ended)
        assert len(ended.err.splitlines()) == 1, (command, ended)
    assert (await run("health")).code == 2


def test_a_transport_error_is_an_unreachable_server() -> None:
    assert exit_code(errors.TransportError("no Queen there")) == 5
    assert exit_code(errors.OutcomeUnknown("no Queen there")) == 1
