"""`queen top` in a real terminal."""

import asyncio
import json

from queen.cli.commands import top
from tests.cli.commands import queen
from tests.cli.shell import Shell
from tests.cli.terminal import WIDTH, Terminal
from tests.support.callers import KEYS
from tests.support.server import Server


async def _filled(server: Server) -> None:
    for queue, count in (("orders", 3), ("invoices", 1), ("[red]" + "long-" * 12 + "name", 2)):
        items = [{"queue": queue, "payload": n, "partition": f"p{n}"} for n in range(count)]
        assert (await server.post("/push", {"items": items})).status == 201
    assert (await server.post("/pop/queue/orders", {"consumerGroup": "billing"})).status == 200
    assert (await server.post("/resources/queues/invoices/pause")).status == 200


async def test_a_user_sorts_filters_pauses_and_opens_a_queue(server: Server, shell: Shell) -> None:
    await _filled(server)
    await asyncio.to_thread(_use, shell)


def _use(shell: Shell) -> None:
    with Terminal("top", "--interval", "200ms", environment=shell.environment) as terminal:
        screen = terminal.until(lambda screen: "orders" in screen and "invoices" in screen)
        lines = screen.splitlines()
        assert max(map(len, lines)) <= WIDTH
        assert lines[0].startswith("queen top  http://127.0.0.1:")
        assert "live" in lines[0]
        assert lines[1].startswith("queues 3  lag 6")
        assert "waiting pops 0" in lines[2]
        heads = lines[5].split()
        assert heads == ["QUEUE", "LAG", "IN/s", "OUT/s", "OLDEST", "HELD", "RETRY", "DEAD"]
        rows = [line.split() for line in lines[6:9]]
        assert rows[0][:2] == ["orders", "3"]
        assert rows[1][1] == "2"
        assert rows[1][0].startswith("[red]long-")
        assert rows[1][0].endswith("…")
        assert "invoices (paused)" in screen

        terminal.press("s", "s")
        terminal.until(lambda screen: "sort: out" in screen)
        terminal.press("/", "i", "n", "v", "Enter")
        screen = terminal.until(lambda screen: "filter: inv" in screen)
        assert "orders" not in screen
        terminal.press("Escape")
        terminal.until(lambda screen: "orders" in screen)
        terminal.press("S", "S", "j", "k")
        terminal.until(lambda screen: "sort: lag" in screen)
        terminal.press("p")
        terminal.until(lambda screen: "PAUSED" in screen)
        terminal.press("p")
        terminal.press("Enter")
        screen = terminal.until(lambda screen: "billing" in screen)
        assert max(map(len, screen.splitlines())) <= WIDTH
        assert "held" in screen
        assert "PARTITION WITH MESSAGES" in screen
        terminal.press("Escape")
        terminal.until(lambda screen: "invoices" in screen)
        terminal.press("?")
        terminal.until(lambda screen: "this help" in screen)
        terminal.press("?")
        terminal.press("q")
        # The original screen is restored.
        terminal.until(lambda screen: screen.startswith("ended with 0"))


async def test_without_its_server_the_last_statistics_stay_with_a_notice(
    server: Server, shell: Shell
) -> None:
    await _filled(server)

    def use() -> None:
        with Terminal("top", "--interval", "200ms", environment=shell.environment) as terminal:
            terminal.until(lambda screen: "orders" in screen)
            server.kill()
            terminal.until(
                lambda screen: all(word in screen for word in ("STALE", "cannot reach", "orders"))
            )

    await asyncio.to_thread(use)


async def test_programs_get_a_single_snapshot(server: Server, shell: Shell) -> None:
    await _filled(server)

    told = (await shell.run("top", "--once", "-o", "json", "--sort", "name")).json

    assert [(each["name"][:6], each["lag"], each["paused"]) for each in told["queues"]] == [
        ("[red]l", 2, False),
        ("invoic", 1, True),
        ("orders", 3, False),
    ]
    assert told["queues"][2]["held"] == 1
    assert told["servers"]["processes"] == 1
    assert told["servers"]["databaseBytes"] > 0
    printed = await shell.run("top", "--once", "--filter", "ord", COLUMNS="80")
    assert printed.lines[-1].split()[:2] == ["orders", "3"]
    assert "quit" not in printed.out
    assert max(map(len, printed.lines)) <= WIDTH


async def test_snapshots_follow_each_other_as_lines(server: Server, shell: Shell) -> None:
    async with shell.started("top", "-o", "jsonl", "--interval", "100ms") as process:
        assert process.stdout is not None
        async with asyncio.timeout(20):
            looks = [json.loads(await process.stdout.readline()) for _ in range(3)]
    assert looks[0]["at"] < looks[1]["at"] < looks[2]["at"]


async def test_rates_are_computed_from_message_counts(
    dsn: str, shell: Shell, server: Server
) -> None:
    items = [{"queue": "orders", "payload": n} for n in range(600)]
    await server.post("/push", {"items": items})

    async with asyncio.timeout(30):
        while True:
            (row,) = (await shell.run("top", "--once", "-o", "json")).json["queues"]
            if row["pushedPerSecond"]:
                break
    # Since the minute before the last: 600 in one to two minutes.
    assert 4 < row["pushedPerSecond"] < 11
    assert row["ackedPerSecond"] == 0


async def test_values_that_a_reader_may_not_see_are_unknown(dsn: str, shell: Shell) -> None:
    key = (await queen("token", "create", "eyes", "--role", "read-only", dsn=dsn)).out.strip()
    async with Server(dsn, KEYS) as locked:
        told = {"QUEEN_BASE_URL": locked.base_url, "QUEEN_TOKEN": key}
        looked = await shell.run("top", "--once", "-o", "json", **told)
        assert looked.json["servers"]["processes"] is None
        printed = await shell.run("top", "--once", **told)
        assert "processes -" in printed.out
        doctor = await shell.run("doctor", **told)
        assert (doctor.code, "use an admin key" in doctor.out) == (1, True)


def test_keys_that_arrive_in_one_read_are_all_processed() -> None:
    assert top.keys_in(b"\x1b[B\x1b[Bs\r") == ["down", "down", "s", "\r"]
    assert top.keys_in(b"\x1b[15~\x1bOAq") == ["up", "q"]
    assert top.keys_in(b"\x1b") == ["esc"]
