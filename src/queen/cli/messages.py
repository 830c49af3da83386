"""Push, pop, ack, tail, peek: messages from the command line."""

import json
import sys
from typing import Annotated, Any

import typer

from queen import errors
from queen.cli.output import Format, instant, say, show
from queen.cli.remote import Output, Server, run

Queue = Annotated[str, typer.Argument(help="Name of the queue.")]
Partition = Annotated[str | None, typer.Option("-p", "--partition", help="One partition.")]
Group = Annotated[str | None, typer.Option("-g", "--group", help="Consumer group.")]


def push(
    queue: Queue,
    data: Annotated[str, typer.Argument(help="JSON; - reads a line a message from stdin.")],
    partition: Partition = None,
    transaction_id: Annotated[str | None, typer.Option(help="Stored once under this name.")] = None,
    delay: Annotated[str | None, typer.Option(help="Held back so long: 30s, 5m.")] = None,
    server: Server = None,
    output: Output = Format.TABLE,
) -> None:
    """
    Push messages.

    Example: queen push orders '{"total": 12}' -p customer-7
    """
    lines = [line for line in sys.stdin if line.strip()] if data == "-" else [data]
    items: list[dict[str, Any]] = []
    for line in lines:
        try:
            items.append({"data": json.loads(line)})
        except ValueError as error:
            raise errors.BadRequest(f"{line.strip()[:80]!r} is not JSON: {error}") from error
    if transaction_id is not None or delay is not None:
        for item in items:
            item |= {"transactionId": transaction_id, "delay": delay}

    async def work(queen: Any) -> Any:  # noqa: ANN401
        target = queen.queue(queue)
        return await (target.partition(partition) if partition else target).push(items)

    show(run(server, work), ["id", "status", "offset"], output)


def pop(
    queue: Queue,
    partition: Partition = None,
    group: Group = None,
    batch: Annotated[int, typer.Option("-n", "--batch", help="How many.")] = 1,
    wait: Annotated[bool, typer.Option(help="Wait up to 30 seconds for one.")] = False,
    ack: Annotated[bool, typer.Option(help="Settle them by the pop itself.")] = False,
    fail_empty: Annotated[bool, typer.Option(help="Exit with 6 when there is nothing.")] = False,
    server: Server = None,
    output: Output = Format.JSONL,
) -> None:
    """
    Pop messages; what is not acked comes again after its lease.

    Example: queen pop orders -n 10 --ack
    """

    async def work(queen: Any) -> Any:  # noqa: ANN401
        target = queen.queue(queue).batch(batch).wait(wait).auto_ack(ack)
        if partition is not None:
            target = target.partition(partition)
        if group is not None:
            target = target.group(group)
        return await target.pop()

    messages = run(server, work)
    rows = [
        {k: v for k, v in message.items() if k not in ("trace", "payload")} for message in messages
    ]
    show(rows, ["id", "partition", "offset", "attempt", "data"], output)
    if fail_empty and not rows:
        raise typer.Exit(6)


def ack(
    message_id: Annotated[str, typer.Argument(help="Id of the message.")],
    lease_id: Annotated[str, typer.Argument(help="The lease under which it was popped.")],
    failed: Annotated[str | None, typer.Option(help="It failed, and why.")] = None,
    server: Server = None,
) -> None:
    """
    Say what became of a message.

    Example: queen ack ID LEASE --failed "card declined"
    """

    async def work(queen: Any) -> None:  # noqa: ANN401
        body = {"id": message_id, "leaseId": lease_id}
        if failed is not None:
            body |= {"status": "failed", "error": failed}
        await queen.transport.exchange("POST", "/api/v1/ack", json.dumps(body).encode())

    run(server, work)
    say("settled" if failed is None else "given back")


def peek(
    queue: Queue,
    partition: Partition = None,
    count: Annotated[int, typer.Option("-n", help="How many, newest first.")] = 10,
    since: Annotated[str | None, typer.Option("--from", help="ISO time, or -15m.")] = None,
    contains: Annotated[str | None, typer.Option(help="Only payloads with this text.")] = None,
    server: Server = None,
    output: Output = Format.TABLE,
) -> None:
    """
    Look at messages without taking them.

    Example: queen peek orders -n 5 --from=-10m
    """

    async def work(queen: Any) -> list[Any]:  # noqa: ANN401
        found: list[Any] = []
        filters = {
            "partition": partition,
            "contains": contains,
            "from_": instant(since) if since else None,
            "limit": min(count, 1000),
        }
        async for message in queen.admin.messages(queue, **filters):
            found.append(message)
            if len(found) == count:
                break
        return found

    show(run(server, work), ["id", "partition", "offset", "status", "createdAt", "data"], output)
