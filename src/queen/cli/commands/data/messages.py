"""`queen push`, `pop`, `ack`, `nack`, `peek`: messages from the command line."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from queen import errors
from queen.cli.support import exit_codes
from queen.cli.support.client import Output, Reveal, Server, run, some
from queen.cli.support.output import Format, instant, json_of, pairs_of, say, show, show_one

if TYPE_CHECKING:
    from queen import Queen

Queue = Annotated[str, typer.Argument(help="Name of the queue.")]
Partition = Annotated[str | None, typer.Option("-p", "--partition", help="Partition.")]
Group = Annotated[str | None, typer.Option("-g", "--group", help="Consumer group.")]


def push(
    queue: Queue,
    data: Annotated[
        str, typer.Argument(help="JSON. - reads one message per line from stdin, @FILE a file.")
    ],
    partition: Partition = None,
    transaction_id: Annotated[str | None, typer.Option(help="Id for deduplication.")] = None,
    delay: Annotated[str | None, typer.Option(help="Delay before delivery: 30s, 5m.")] = None,
    ttl: Annotated[str | None, typer.Option(help="Time until it expires unread: 2h.")] = None,
    priority: Annotated[int | None, typer.Option(help="0 to 9, in unordered queues.")] = None,
    header: Annotated[list[str] | None, typer.Option(help="name=value. Repeatable.")] = None,
    server: Server = None,
    output: Output = Format.TABLE,
) -> None:
    """
    Push messages.

    Example: queen push orders '{"total": 12}' -p customer-7
    """
    common = {
        "transactionId": transaction_id,
        "delay": delay,
        "ttl": ttl,
        "priority": priority,
        "headers": pairs_of(header, "name=value") or None,
    }
    given = {name: value for name, value in common.items() if value is not None}
    items = [{"data": each, **given} for each in _payloads(data)]
    if transaction_id is not None and len(items) > 1:
        raise errors.BadRequest("--transaction-id needs exactly one message")

    async def work(queen: "Queen") -> Any:  # noqa: ANN401
        target = queen.queue(queue)
        return await (target.partition(partition) if partition else target).push(items)

    show(run(server, work), ["id", "status", "offset"], output)


def _payloads(text: str) -> list[Any]:
    lines = [text]
    if text == "-":
        lines = list(sys.stdin)
    elif text.startswith("@"):
        try:
            lines = Path(text[1:]).expanduser().read_text("utf-8").splitlines()
        except OSError as error:
            raise exit_codes.FileTrouble(f"cannot read {text[1:]}: {error.strerror}") from error
    return [json_of(line.strip()) for line in lines if line.strip()]


def pop(
    queue: Queue,
    partition: Partition = None,
    group: Group = None,
    batch: Annotated[int, typer.Option("-n", "--batch", min=1, help="Maximum messages.")] = 1,
    wait: Annotated[bool, typer.Option("--wait", help="Wait up to 30 seconds.")] = False,
    ack: Annotated[bool, typer.Option("--ack", help="Acknowledge them immediately.")] = False,
    lease: Annotated[str | None, typer.Option(help="Lease duration: 30s, 5m.")] = None,
    fail_empty: Annotated[
        bool, typer.Option("--fail-empty", help="Exit with 6 if the queue is empty.")
    ] = False,
    server: Server = None,
    output: Output = Format.JSONL,
) -> None:
    """
    Pop messages. Unacknowledged messages are redelivered when their lease expires.

    Example: queen pop orders -n 10 --ack
    """

    async def work(queen: "Queen") -> Any:  # noqa: ANN401
        target = queen.queue(queue).batch(batch).wait(wait).auto_ack(ack)
        target = target if partition is None else target.partition(partition)
        target = target if lease is None else target.lease(lease)
        return await (target if group is None else target.group(group)).pop()

    messages = run(server, work)
    rows = [
        {k: v for k, v in message.items() if k not in ("trace", "payload")} for message in messages
    ]
    show(rows, ["id", "partition", "offset", "attempt", "data"], output)
    if fail_empty and not rows:
        raise typer.Exit(exit_codes.TIMEOUT)


def ack(
    message_id: Annotated[str, typer.Argument(metavar="ID", help="Id of the message.")],
    lease_id: Annotated[str, typer.Argument(metavar="LEASE", help="Lease id from the pop.")],
    failed: Annotated[str | None, typer.Option(help="Report a failure with this error.")] = None,
    server: Server = None,
    output: Output = Format.NAME,
) -> None:
    """
    Acknowledge a message, or report that it failed.

    Example: queen ack ID LEASE --failed "card declined"
    """
    body = {"id": message_id, "leaseId": lease_id}
    if failed is not None:
        body |= {"status": "failed", "error": failed}
    _settle(body, server, output)


def nack(
    message_id: Annotated[str, typer.Argument(metavar="ID", help="Id of the message.")],
    lease_id: Annotated[str, typer.Argument(metavar="LEASE", help="Lease id from the pop.")],
    error: Annotated[str | None, typer.Option(help="Error message.")] = None,
    delay: Annotated[str | None, typer.Option(help="Delay before redelivery: 30s, 5m.")] = None,
    uncounted: Annotated[
        bool, typer.Option("--uncounted", help="Redeliver now, without counting an attempt.")
    ] = False,
    dead: Annotated[bool, typer.Option("--dead", help="Dead-letter it now.")] = False,
    server: Server = None,
    output: Output = Format.NAME,
) -> None:
    """
    Return a message, to be redelivered after its backoff.

    Example: queen nack ID LEASE --error "card declined" --delay 5m
    """
    from queen.client.durations import seconds_of

    if uncounted and dead:
        raise typer.BadParameter("--uncounted and --dead exclude each other")
    body: dict[str, Any] = {"id": message_id, "leaseId": lease_id}
    body["status"] = "retry" if uncounted else "dlq" if dead else "failed"
    if error is not None:
        body["error"] = error
    if delay is not None:
        body["delaySeconds"] = seconds_of(delay)
    _settle(body, server, output)


def _settle(body: dict[str, Any], server: str | None, output: Format) -> None:
    async def work(queen: "Queen") -> dict[str, Any]:
        reply = await queen.transport.exchange("POST", "/api/v1/ack", json.dumps(body).encode())
        return json.loads(reply.body)

    answer = run(server, work)
    if output is not Format.NAME:
        show_one(answer, output)
    if "status" not in body:
        say("acknowledged")
    elif answer.get("dlq"):
        say("dead-lettered")
    else:
        say(f"returned, due {answer['retryAt']}" if answer.get("retryAt") else "returned")


def peek(
    queue: Queue,
    partition: Partition = None,
    group: Group = None,
    status: Annotated[
        str | None,
        typer.Option(help="pending, processing, failed, completed, dead_letter, scheduled."),
    ] = None,
    count: Annotated[int, typer.Option("-n", min=1, help="Number of messages.")] = 10,
    since: Annotated[str | None, typer.Option("--from", help="Since: ISO time, or -15m.")] = None,
    until: Annotated[str | None, typer.Option("--to", help="Before: ISO time, or -15m.")] = None,
    contains: Annotated[str | None, typer.Option(help="Only payloads with this text.")] = None,
    reveal: Reveal = False,
    server: Server = None,
    output: Output = Format.TABLE,
) -> None:
    """
    Show messages without consuming them, newest first.

    Example: queen peek orders -n 5 --from=-10m
    """
    filters = {
        "partition": partition,
        "consumer_group": group,
        "status": status,
        "contains": contains,
        "reveal": reveal or None,
        "from_": instant(since) if since else None,
        "to": instant(until) if until else None,
        "limit": min(count, 1000),
    }
    rows = run(server, lambda q: some(q.admin.messages(queue, **filters), count))
    show(rows, ["id", "partition", "offset", "status", "createdAt", "data"], output)
