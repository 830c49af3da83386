"""Queues, groups, deliveries, dead letters, messages and operations from the command line."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.cli.shell import Shell
from tests.cli.terminal import WIDTH, Terminal
from tests.support.server import Server


async def _popped(shell: Shell, *options: str) -> dict[str, Any]:
    ended = await shell.run("pop", "orders", "-o", "json", *options)
    (message,) = ended.json
    return message


async def _dead_lettered(shell: Shell, count: int = 1) -> None:
    await shell.run("push", "orders", "-", given="".join(f"{n}\n" for n in range(count)))
    for _ in range(count):
        message = await _popped(shell)
        lease = message["leaseId"]
        ended = await shell.run(
            "nack", message["id"], lease, "--dead", "--error", "card 7 declined"
        )
        assert ended.err == "dead-lettered\n"


async def test_a_message_is_nacked(shell: Shell) -> None:
    await shell.run("push", "orders", "1")
    first = await _popped(shell)
    back = await shell.run("nack", first["id"], first["leaseId"], "--uncounted", "-o", "json")
    assert (back.code, back.json["success"]) == (0, True)
    again = await _popped(shell)
    assert (again["id"], again["attempt"]) == (first["id"], 1)
    later = await shell.run("nack", again["id"], again["leaseId"], "--delay", "1h", "--error", "no")
    assert later.err.startswith("returned, due 20")
    assert (await shell.run("pop", "orders", "--fail-empty")).code == 6
    assert (await shell.run("message", "retry", first["id"])).code == 0
    third = await _popped(shell)
    assert third["attempt"] == 2
    both = await shell.run("nack", "a", "b", "--uncounted", "--dead")
    assert both.code == 2


async def test_a_delivery_is_released(shell: Shell) -> None:
    await shell.run("push", "orders", "1")
    message = await _popped(shell, "-g", "billing", "--lease", "2h")
    (held,) = (await shell.run("delivery", "ls", "orders", "-g", "billing", "-o", "json")).json
    assert (held["state"], held["messages"]) == ("held", 1)
    assert (await shell.run("delivery", "release", message["leaseId"])).code == 2
    dry = await shell.run("delivery", "release", message["leaseId"], "--dry-run")
    assert dry.err.startswith("would release")
    assert (await shell.run("delivery", "release", message["leaseId"], "--yes")).code == 0
    assert (await shell.run("delivery", "release", message["leaseId"], "--yes")).code == 7
    assert (await _popped(shell, "-g", "billing"))["attempt"] == 1


async def test_lag_is_shown_by_partition_and_a_group_seeks_to_an_offset(shell: Shell) -> None:
    for partition in ("a", "b"):
        lines = "".join(f"{n}\n" for n in range(3))
        await shell.run("push", "orders", "-", "-p", partition, given=lines)
    await shell.run("pop", "orders", "-p", "a", "-g", "billing", "-n", "3", "--ack")
    await shell.run("pop", "orders", "-p", "b", "-g", "billing", "--ack")

    (behind,) = (await shell.run("group", "lag", "billing", "orders", "-o", "json")).json
    assert (behind["partition"], behind["lag"], behind["position"]) == ("b", 2, 1)

    dry = await shell.run("group", "seek", "billing", "orders", "--to", "start", "--dry-run")
    assert dry.err == "would move billing on orders to start; its lag is 2 now\n"
    seek = ("group", "seek", "billing", "orders", "-p", "a", "--to", "2", "--yes")
    assert (await shell.run(*seek)).code == 0
    again = await shell.run("pop", "orders", "-p", "a", "-g", "billing", "-o", "json")
    assert [each["offset"] for each in again.json] == [2]
    nonsense = await shell.run("group", "seek", "billing", "orders", "--to", "soon", "--yes")
    assert (nonsense.code, "is not a time" in nonsense.err) == (2, True)

    dry = await shell.run("group", "delete", "billing", "--dry-run")
    assert dry.err == "would delete billing on orders\n"
    assert (await shell.run("group", "delete", "billing", "--yes")).code == 0
    assert (await shell.run("group", "ls", "-o", "json")).json == []


async def test_dead_letters_are_counted_by_error_shown_and_purged(shell: Shell) -> None:
    await _dead_lettered(shell, 2)
    (kind,) = (await shell.run("dlq", "errors", "orders", "-o", "json")).json
    assert (kind["count"], kind["sample"]) == (2, "card 7 declined")
    listed = await shell.run(
        "dlq", "ls", "orders", "--fingerprint", kind["fingerprint"], "-o", "json"
    )
    assert len(listed.json) == 2
    shown = await shell.run("dlq", "show", listed.json[0]["id"], "-o", "json")
    assert shown.json["data"] == 1
    assert (await shell.run("dlq", "ls", "orders", "--to=-1h", "-o", "json")).json == []

    dry = await shell.run("dlq", "purge", "orders", "--dry-run")
    assert dry.err == "2 dead letters would be deleted\n"
    assert (await shell.run("dlq", "purge", "orders")).code == 2
    purged = await shell.run("dlq", "purge", "orders", "--yes")
    assert purged.err == "done: 2 dead letters deleted\n"
    assert (await shell.run("dlq", "ls", "orders", "-o", "json")).json == []


async def test_a_queue_is_created_without_options(shell: Shell) -> None:
    ended = await shell.run("queue", "configure", "revenue", "-o", "json")
    assert (ended.code, ended.json["queue"]) == (0, "revenue")


async def test_dead_letters_are_redriven_to_another_queue(shell: Shell) -> None:
    await _dead_lettered(shell)
    await shell.run("queue", "configure", "second", "leaseTime=60")
    told = ("dlq", "redrive", "orders", "--to-queue", "second", "--yes")
    assert (await shell.run(*told)).code == 0
    (message,) = (await shell.run("pop", "second", "--wait", "-o", "json")).json
    assert message["data"] == 0


async def test_an_operation_is_followed_shown_and_cancelled(shell: Shell) -> None:
    await shell.run("push", "orders", "-", given="1\n2\n")
    await shell.run("queue", "purge", "orders", "--all", "--older-than", "1h", "--yes")
    (listed,) = (await shell.run("operation", "ls", "-o", "json")).json
    assert (listed["kind"], listed["state"], listed["done"]) == ("purge", "done", 0)
    shown = await shell.run("operation", "show", listed["id"], "--wait", "-o", "json")
    assert shown.json == listed
    assert (await shell.run("operation", "show", "999999")).code == 3
    assert (await shell.run("operation", "cancel", "999999")).code == 3


async def test_a_message_is_shown_redacted_and_traced(shell: Shell, server: Server) -> None:
    pushed = await shell.run(
        "push", "orders", '{"card": 1}', "--header", "who=ann", "--ttl", "1h", "-o", "json"
    )
    (sent,) = pushed.json
    body = {
        "transactionId": sent["transactionId"],
        "partitionId": sent["partitionId"],
        "traceName": "order-1",
        "data": {"step": 1},
    }
    await server.post("/traces", body)
    shown = await shell.run("message", "show", sent["id"], "-o", "json")
    assert (shown.json["headers"], len(shown.json["traces"])) == ({"who": "ann"}, 1)
    (event,) = (await shell.run("trace", "show", "order-1", "-o", "json")).json
    assert event["data"] == {"step": 1}

    dry = await shell.run("message", "delete", sent["id"], "--dry-run")
    assert dry.err == "would erase offset 0 of orders/Default\n"
    assert (await shell.run("message", "delete", sent["id"], "--yes")).code == 0
    assert (await shell.run("message", "show", sent["id"], "-o", "json")).json["redacted"] is True


async def test_payloads_come_from_a_file(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "orders.jsonl").write_text('{"n": 1}\n\n{"n": 2}\n')
    pushed = await shell.run("push", "orders", f"@{tmp_path}/orders.jsonl", "-o", "name")
    assert len(pushed.lines) == 2
    assert (await shell.run("push", "orders", "@/none")).code == 1
    assert (await shell.run("push", "orders", "{")).err.startswith("queen: '{' is not JSON")
    twice = await shell.run("push", "orders", "-", "--transaction-id", "t", given="1\n2\n")
    assert twice.code == 2
    once = await shell.run("push", "orders", "3", "--transaction-id", "t", "-o", "json")
    assert once.json[0]["transactionId"] == "t"


async def test_partitions_are_listed_by_state(shell: Shell) -> None:
    await shell.run("push", "orders", "1", "-p", "a")
    await shell.run("push", "orders", "1", "-p", "b")
    await _popped(shell, "-p", "a")
    leased = await shell.run("partition", "ls", "orders", "--state", "leased", "-o", "name")
    assert leased.lines == ["a"]
    begun = await shell.run("partition", "ls", "orders", "--prefix", "b", "-o", "json")
    assert [each["name"] for each in begun.json] == ["b"]
    assert (await shell.run("queue", "delete", "orders", "--dry-run")).err == (
        "would delete orders; 2 messages are not acknowledged\n"
    )
    slip = await shell.run("queue", "configure", "orders", "leaseTme=1")
    assert slip.code == 2
    assert "did you mean" in slip.err


async def test_a_closed_pipe_ends_the_command_quietly(shell: Shell) -> None:
    lines = "".join(json.dumps({"n": n, "x": "x" * 500}) + "\n" for n in range(2000))
    await shell.run("push", "orders", "-", given=lines)
    command = f"{sys.executable} -m queen export orders | head -n 1; echo ${{PIPESTATUS[0]}}"
    answer = await asyncio.to_thread(
        subprocess.run,
        ["bash", "-c", command],
        env=shell.environment,
        capture_output=True,
        text=True,
        check=True,
    )
    first, code = answer.stdout.splitlines()
    assert json.loads(first)["data"]["n"] == 0
    # As with `yes | head`: the signal ends it without any output.
    assert (code, answer.stderr) == ("141", "")


async def test_an_operation_shows_a_progress_bar_and_continues_without_its_viewer(
    shell: Shell,
) -> None:
    await _dead_lettered(shell, 4)

    def use() -> str:
        told = ("dlq", "redrive", "orders", "--rate", "0.05", "--yes")
        with Terminal(*told, environment=shell.environment) as terminal:
            screen = terminal.until(lambda screen: "redrive" in screen and "/4" in screen)
            assert max(map(len, screen.splitlines())) <= WIDTH
            terminal.press("C-c")
            return terminal.until(lambda screen: "ended with" in screen)

    screen = await asyncio.to_thread(use)

    assert "ended with 130" in screen
    (operation,) = (await shell.run("operation", "ls", "-o", "json")).json
    assert operation["state"] == "running"
    assert f"operation {operation['id']} continues" in screen
    cancelled = await shell.run("operation", "cancel", operation["id"])
    assert cancelled.err.startswith("cancelled after ")
    waited = await shell.run("operation", "show", operation["id"], "--wait", "-o", "json")
    assert (waited.code, waited.json["state"]) == (1, "cancelled")


async def test_a_user_is_asked_and_can_decline(shell: Shell) -> None:
    await shell.run("push", "orders", "1")

    def use(answer: str) -> str:
        with Terminal("queue", "delete", "orders", environment=shell.environment) as terminal:
            terminal.until(lambda screen: "delete orders with its messages? [y/N]" in screen)
            terminal.press(answer, "Enter")
            return terminal.until(lambda screen: "ended with" in screen)

    assert "ended with 1" in await asyncio.to_thread(use, "n")
    assert (await shell.run("queue", "show", "orders")).code == 0
    assert "ended with 0" in await asyncio.to_thread(use, "y")
    assert (await shell.run("queue", "show", "orders")).code == 3


async def test_an_unreachable_server_has_its_own_exit_code(shell: Shell) -> None:
    gone = {"QUEEN_BASE_URL": "http://127.0.0.1:1"}
    for words in (["push", "orders", "1"], ["pop", "orders"], ["queue", "ls"], ["top", "--once"]):
        ended = await shell.run(*words, **gone)
        assert (words, ended.code) == (words, 5)
        assert ended.err.startswith("queen: ")
        assert len(ended.err.splitlines()) == 1
