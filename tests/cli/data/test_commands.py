"""Commands against a server, as a user or a script runs them."""

import json

from tests.cli.shell import Shell
from tests.support.server import Server


async def test_push_pop_and_ack(shell: Shell) -> None:
    pushed = await shell.run("push", "orders", '{"total": 12}', "-p", "customer-7", "-o", "json")
    assert pushed.json[0]["status"] == "queued"

    popped = await shell.run("pop", "orders", "-o", "json")
    (message,) = popped.json
    assert (message["data"], message["partition"]) == ({"total": 12}, "customer-7")

    settled = await shell.run("ack", message["id"], message["leaseId"])
    assert (settled.code, settled.out, settled.err) == (0, "", "acknowledged\n")

    late = await shell.run("ack", message["id"], message["leaseId"], "--failed", "no")
    assert late.code == 7
    empty = await shell.run("pop", "orders", "--fail-empty")
    assert (empty.code, empty.out) == (6, "")


async def test_each_line_of_stdin_is_a_message(shell: Shell) -> None:
    await shell.run("push", "orders", "-", given='{"n": 1}\n{"n": 2}\n')

    peeked = await shell.run("peek", "orders", "-o", "jsonl")

    assert [json.loads(line)["data"] for line in peeked.out.splitlines()] == [{"n": 2}, {"n": 1}]


async def test_queues_are_listed_shown_paused_and_deleted(shell: Shell) -> None:
    await shell.run("queue", "configure", "orders", "leaseTime=60", "ordered=false")
    shown = await shell.run("queue", "show", "orders", "-o", "json")
    assert shown.json["options"]["leaseTime"] == 60

    await shell.run("queue", "pause", "orders")
    listed = await shell.run("queue", "ls")
    assert listed.out.splitlines()[0].split() == [
        "name", "namespace", "pending", "held", "deadLetters", "paused",
    ]  # fmt: skip
    assert listed.out.splitlines()[1].endswith("yes")
    await shell.run("queue", "resume", "orders")

    refused = await shell.run("queue", "delete", "orders")
    assert (refused.code, refused.err) == (
        2,
        "queen: delete orders with its messages: add --yes to confirm\n",
    )
    assert (await shell.run("queue", "delete", "orders", "--yes")).code == 0
    assert (await shell.run("queue", "show", "orders")).code == 3


async def test_dead_letters_are_listed_and_redriven(shell: Shell, server: Server) -> None:
    await shell.run("queue", "configure", "orders", "retryLimit=0")
    await shell.run("push", "orders", "1")
    (message,) = (await shell.run("pop", "orders", "-o", "json")).json
    await shell.run("ack", message["id"], message["leaseId"], "--failed", "card declined")

    letters = await shell.run("dlq", "ls", "orders", "-o", "json")
    assert letters.json[0]["errorMessage"] == "card declined"
    dry = await shell.run("dlq", "redrive", "orders", "--dry-run")
    assert dry.err == "1 dead letters would be redelivered\n"
    await shell.run("dlq", "redrive", "orders", "--yes")

    (again,) = (await shell.run("pop", "orders", "--wait", "-o", "json")).json
    assert (again["id"], again["attempt"]) == (message["id"], 1)


async def test_a_group_seeks(shell: Shell) -> None:
    await shell.run("push", "orders", "1")
    await shell.run("pop", "orders", "-g", "billing", "--ack")
    listed = await shell.run("group", "ls", "--queue", "orders", "-o", "json")
    assert [(row["consumerGroup"], row["lag"]) for row in listed.json] == [("billing", 0)]

    moved = await shell.run("group", "seek", "billing", "orders", "--to", "start", "--yes")

    assert moved.code == 0
    assert len((await shell.run("pop", "orders", "-g", "billing", "-o", "json")).json) == 1


async def test_purge_asks_first_and_reports_its_result(shell: Shell) -> None:
    await shell.run("push", "orders", "-", given="1\n2\n")
    dry = await shell.run("queue", "purge", "orders", "--all", "--dry-run")
    assert dry.err == "would delete 2 messages of orders\n"

    purged = await shell.run("queue", "purge", "orders", "--all", "--yes")

    assert purged.err == "done: 2 messages deleted\n"
    assert (await shell.run("pop", "orders")).out == ""


async def test_health_and_an_unreachable_server(shell: Shell, server: Server) -> None:
    assert (await shell.run("health", "-o", "json")).json["status"] == "healthy"

    server.kill()
    assert (await shell.run("health")).code == 2
    gone = await shell.run("queue", "ls")
    assert gone.code == 5
    assert gone.err.startswith("queen: cannot reach http://127.0.0.1:")


async def test_an_error_code_is_explained(shell: Shell) -> None:
    told = await shell.run("errors", "lease_lost")

    assert told.lines[0].startswith("lease_lost (HTTP 409): The lease ended")
    assert told.lines[1] == "Effect: the request was not applied"
    assert told.lines[2].startswith("What to do: Stop processing these messages")
    local = await shell.run("errors", "job_failed")
    assert local.lines[0] == "job_failed: The job failed for good."
    assert local.lines[1].startswith("What to do: Fix the cause, then run the job again")
    assert (await shell.run("errors", "nonsense")).code == 3
