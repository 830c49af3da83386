"""`queen bench` in a real terminal."""

import asyncio
import json
import os
import signal

import pytest

from queen.cli.bench.load import latencies
from tests.cli.shell import Shell
from tests.cli.terminal import WIDTH, Terminal
from tests.support.server import Server


async def test_a_terminal_shows_progress_and_a_table(server: Server, shell: Shell) -> None:
    del server

    def use() -> None:
        told = ("bench", "--rate", "200", "--seconds", "2", "--batch", "5")
        with Terminal(*told, environment=shell.environment) as terminal:
            screen = terminal.until(lambda screen: "received" in screen and "/s" in screen)
            assert "pushed" in screen
            assert max(map(len, screen.splitlines())) <= WIDTH
            screen = terminal.until(lambda screen: "ended with" in screen)
        assert "ended with 0" in screen
        lines = screen.splitlines()
        assert max(map(len, lines)) <= WIDTH
        assert "load       200 messages/s, at most 2 s and 400 messages" in lines
        rows = {line.split("  ")[0]: line.split() for line in lines}
        assert rows["pushed"][1] == rows["received"][1] == "400"
        assert rows["lost"][1] == rows["duplicates"][1] == rows["failed"][1] == "0"
        assert rows["ms"][1:] == ["p50", "p95", "p99", "p99.9", "max"]
        assert len(rows["push"]) == 6
        assert "Latencies start at the scheduled time of each push." in lines

    await asyncio.to_thread(use)


async def test_a_program_gets_json_and_the_queue_is_deleted(shell: Shell) -> None:
    ended = await shell.run(
        "bench", "--rate", "0", "--seconds", "30", "--count", "500", "-o", "json"
    )

    assert ended.code == 0
    told = ended.json
    assert (told["pushed"], told["received"], told["lost"], told["duplicates"]) == (500, 500, 0, 0)
    assert told["isCorrected"] is False
    assert told["configuration"]["count"] == 500
    assert told["configuration"]["release"] is not None
    assert set(told["endToEndMillis"]) == {"p50", "p95", "p99", "p99.9", "max"}
    assert (await shell.run("queue", "ls", "-o", "json")).json == []


async def _is_pushed_to(server: Server) -> bool:
    queues = (await server.get("/resources/queues")).body["queues"]
    if not queues:
        return False
    return bool((await server.get("/messages", queue=queues[0]["name"])).body["messages"])


async def test_a_stall_of_the_server_shows_in_the_latencies(server: Server, shell: Shell) -> None:
    """Corrected latencies include messages that were due during the stall but not sent."""
    told = ("bench", "--rate", "100", "--seconds", "3", "--batch", "1", "--producers", "1")
    async with shell.started(*told, "--consumers", "1", "-o", "json") as process:
        async with asyncio.timeout(20):
            while not await _is_pushed_to(server):
                pass
        os.kill(server.pid, signal.SIGSTOP)
        await asyncio.sleep(1.0)
        os.kill(server.pid, signal.SIGCONT)
        out, _ = await process.communicate()
    found = json.loads(out)
    assert found["isCorrected"]
    # One of three hundred pushes met the stall, and a third of them were scheduled inside it.
    assert found["pushMillis"]["max"] > 900
    assert found["pushMillis"]["p95"] > 300
    assert found["lost"] == 0


def test_quantiles_are_measured_latencies() -> None:
    assert latencies([]) is None
    found = latencies([n / 1000 for n in range(1, 1001)])
    assert found is not None
    assert (found.p50, found.p99, found.p999, found.max) == (501, 991, 1000, 1000)


async def test_an_unreachable_server_is_reported_in_one_sentence(
    shell: Shell, server: Server
) -> None:
    server.kill()
    ended = await shell.run("bench")
    assert (ended.code, ended.out) == (5, "")
    assert ended.err.startswith("queen: cannot reach")


@pytest.mark.parametrize("option", [["--size", "5"], ["--seconds", "0"], ["--rate", "-1"]])
async def test_an_invalid_load_is_rejected(shell: Shell, option: list[str]) -> None:
    assert (await shell.run("bench", *option)).code == 2
