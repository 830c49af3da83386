"""Queues, partitions, deliveries, groups, dead letters, messages, operations: look and act."""

from collections.abc import AsyncIterator
from typing import Annotated, Any

import typer

from queen.cli.output import Format, instant, say, show, show_one
from queen.cli.remote import DryRun, Output, Server, Yes, confirm, run

queue_app = typer.Typer(no_args_is_help=True, help="Queues.")
partition_app = typer.Typer(no_args_is_help=True, help="Partitions of a queue.")
delivery_app = typer.Typer(no_args_is_help=True, help="What is out or comes again.")
group_app = typer.Typer(no_args_is_help=True, help="Consumer groups.")
dlq_app = typer.Typer(no_args_is_help=True, help="Dead letters.")
message_app = typer.Typer(no_args_is_help=True, help="Single messages.")
operation_app = typer.Typer(no_args_is_help=True, help="Long work on the server.")
trace_app = typer.Typer(no_args_is_help=True, help="What consumers told of messages.")

Name = Annotated[str, typer.Argument(help="Name of the queue.")]
Limit = Annotated[int, typer.Option("-n", "--limit", help="At most so many.")]


async def _some(found: AsyncIterator[Any], count: int) -> list[Any]:
    rows: list[Any] = []
    async for each in found:
        rows.append(each)
        if len(rows) >= count:
            break
    return rows


@queue_app.command("ls")
def queue_ls(
    namespace: Annotated[str | None, typer.Option(help="Of one namespace.")] = None,
    search: Annotated[str | None, typer.Option(help="Part of the name.")] = None,
    limit: Limit = 1000,
    server: Server = None,
    output: Output = Format.TABLE,
) -> None:
    """
    List queues.

    Example: queen queue ls --search orders -o json
    """
    rows = run(server, lambda q: _some(q.admin.queues(namespace=namespace, search=search), limit))
    show(rows, ["name", "namespace", "pending", "held", "deadLetters", "paused"], output)


@queue_app.command("show")
def queue_show(queue: Name, server: Server = None, output: Output = Format.TABLE) -> None:
    """
    Show a queue with its options and groups.

    Example: queen queue show orders
    """
    show_one(run(server, lambda q: q.admin.queue(queue)), output)


@queue_app.command("configure")
def queue_configure(
    queue: Name,
    options: Annotated[list[str], typer.Argument(help="option=value, value as JSON.")],
    server: Server = None,
    output: Output = Format.TABLE,
) -> None:
    """
    Make a queue, or change its options.

    Example: queen queue configure orders leaseTime=60 ordered=false
    """
    import json

    given: dict[str, Any] = {}
    for each in options:
        name, _, value = each.partition("=")
        try:
            given[name] = json.loads(value)
        except ValueError:
            given[name] = value
    show_one(run(server, lambda q: q.queue(queue).config(given).create()), output)


@queue_app.command("pause")
def queue_pause(queue: Name, server: Server = None) -> None:
    """
    Deliver nothing until resumed; pushes go on.

    Example: queen queue pause orders
    """
    run(server, lambda q: q.admin.pause(queue))
    say(f"{queue} is paused")


@queue_app.command("resume")
def queue_resume(queue: Name, server: Server = None) -> None:
    """
    Deliver again.

    Example: queen queue resume orders
    """
    run(server, lambda q: q.admin.resume(queue))
    say(f"{queue} delivers")


@queue_app.command("purge")
def queue_purge(
    queue: Name,
    everything: Annotated[bool, typer.Option("--all", help="Also what is not settled.")] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    server: Server = None,
) -> None:
    """
    Remove messages: those that every group has settled, or all.

    Example: queen queue purge orders --yes
    """
    what = "all messages" if everything else "all settled messages"
    if dry_run:
        detail = run(server, lambda q: q.admin.queue(queue))
        pending = "an unknown number" if detail.pending is None else detail.pending
        say(f"would remove {what} of {queue}; {pending} are not settled")
        return
    confirm(f"remove {what} of {queue}", yes=yes)

    async def work(queen: Any) -> Any:  # noqa: ANN401
        started = await queen.admin.purge(queue, scope="all" if everything else "completed")
        return await queen.admin.finished(started)

    done = run(server, work)
    say(f"{done.state}: {done.done} messages removed")


@queue_app.command("delete")
def queue_delete(queue: Name, yes: Yes = False, server: Server = None) -> None:
    """
    Delete a queue with its messages; dead letters stay.

    Example: queen queue delete orders --yes
    """
    confirm(f"delete {queue} with its messages", yes=yes)
    run(server, lambda q: q.admin.delete_queue(queue))
    say(f"{queue} is deleted")


@partition_app.command("ls")
def partition_ls(
    queue: Name,
    prefix: Annotated[str | None, typer.Option(help="Names that begin so.")] = None,
    limit: Limit = 100,
    server: Server = None,
    output: Output = Format.TABLE,
) -> None:
    """
    List partitions by name.

    Example: queen partition ls orders --prefix customer-
    """
    rows = run(server, lambda q: _some(q.admin.partitions(queue, prefix=prefix), limit))
    show(rows, ["name", "state", "firstOffset", "nextOffset", "pending"], output)


@delivery_app.command("ls")
def delivery_ls(
    queue: Name, limit: Limit = 100, server: Server = None, output: Output = Format.TABLE
) -> None:
    """
    List what is held or waits for its next attempt.

    Example: queen delivery ls orders
    """
    rows = run(server, lambda q: _some(q.admin.deliveries(queue), limit))
    show(
        rows, ["id", "consumerGroup", "partition", "state", "until", "attempt", "messages"], output
    )


@group_app.command("ls")
def group_ls(
    queue: Annotated[str | None, typer.Option(help="Of one queue.")] = None,
    limit: Limit = 1000,
    server: Server = None,
    output: Output = Format.TABLE,
) -> None:
    """
    List groups and how far they are behind.

    Example: queen group ls --queue orders
    """
    rows = run(server, lambda q: _some(q.admin.groups(queue=queue), limit))
    show(rows, ["consumerGroup", "queue", "lag", "lagSeconds", "held", "waiting"], output)


@group_app.command("seek")
def group_seek(
    group: Annotated[str, typer.Argument(help="Name of the group.")],
    queue: Name,
    to: Annotated[str, typer.Option(help="start, end, an ISO time, or -15m.")],
    partition: Annotated[str | None, typer.Option("-p", help="One partition.")] = None,
    yes: Yes = False,
    server: Server = None,
) -> None:
    """
    Move a group; leases that are out are lost.

    Example: queen group seek billing orders --to start --yes
    """
    confirm(f"move {group} on {queue} to {to}", yes=yes)
    where: dict[str, Any] = {"to_start": True} if to == "start" else {"to_end": True}
    if to not in ("start", "end"):
        where = {"to": instant(to)}
    run(server, lambda q: q.admin.seek(group, queue, partition=partition, **where))
    say(f"{group} was moved")


@group_app.command("delete")
def group_delete(
    group: Annotated[str, typer.Argument(help="Name of the group.")],
    queue: Annotated[str | None, typer.Option(help="On one queue only.")] = None,
    yes: Yes = False,
    server: Server = None,
) -> None:
    """
    Delete a group; its next pop makes it anew.

    Example: queen group delete billing --queue orders --yes
    """
    confirm(f"delete group {group}", yes=yes)
    run(server, lambda q: q.admin.delete_group(group, queue))
    say(f"{group} is deleted")


@dlq_app.command("ls")
def dlq_ls(
    queue: Name,
    group: Annotated[str | None, typer.Option("-g", "--group", help="Of one group.")] = None,
    limit: Limit = 100,
    server: Server = None,
    output: Output = Format.TABLE,
) -> None:
    """
    List dead letters, newest first.

    Example: queen dlq ls orders
    """
    rows = run(
        server, lambda q: _some(q.admin.dead_letters(queue=queue, consumer_group=group), limit)
    )
    show(rows, ["id", "consumerGroup", "partition", "attempts", "failedAt", "errorMessage"], output)


@dlq_app.command("show")
def dlq_show(
    id_: Annotated[str, typer.Argument(metavar="ID", help="Id of the dead letter.")],
    server: Server = None,
    output: Output = Format.TABLE,
) -> None:
    """
    Show a dead letter with its payload.

    Example: queen dlq show 42
    """
    show_one(run(server, lambda q: q.admin.dead_letter(id_)), output)


@dlq_app.command("redrive")
def dlq_redrive(
    queue: Name,
    group: Annotated[str | None, typer.Option("-g", "--group", help="Of one group.")] = None,
    rate: Annotated[float | None, typer.Option(help="At most so many a second.")] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    server: Server = None,
) -> None:
    """
    Deliver dead letters again, to the group that gave up.

    Example: queen dlq redrive orders --rate 10 --yes
    """
    request: dict[str, Any] = {"filter": {"queue": queue}, "dryRun": dry_run}
    if group is not None:
        request["filter"]["consumerGroup"] = group
    if rate is not None:
        request["ratePerSecond"] = rate
    if not dry_run:
        confirm(f"deliver the dead letters of {queue} again", yes=yes)

    async def work(queen: Any) -> Any:  # noqa: ANN401
        answer = await queen.admin.redrive(**request)
        return await queen.admin.finished(answer) if hasattr(answer, "state") else answer

    done = run(server, work)
    count = getattr(done, "count", None)
    say(f"{done.done if count is None else count} dead letters" + (" would be" if dry_run else ""))


@message_app.command("show")
def message_show(
    id_: Annotated[str, typer.Argument(metavar="ID", help="Id of the message.")],
    server: Server = None,
    output: Output = Format.TABLE,
) -> None:
    """
    Show a message, its state in each group and its traces.

    Example: queen message show 00000000-0001-8000-8000-000000000000
    """
    show_one(run(server, lambda q: q.admin.message(id_)), output)


@message_app.command("retry")
def message_retry(
    id_: Annotated[str, typer.Argument(metavar="ID", help="Id of the message.")],
    group: Annotated[str | None, typer.Option("-g", "--group", help="For which group.")] = None,
    server: Server = None,
) -> None:
    """
    Let a message that waits or is dead be popped now.

    Example: queen message retry 00000000-0001-8000-8000-000000000000
    """
    run(server, lambda q: q.admin.retry(id_, group))
    say("it may be popped")


@message_app.command("delete")
def message_delete(
    id_: Annotated[str, typer.Argument(metavar="ID", help="Id of the message.")],
    yes: Yes = False,
    server: Server = None,
) -> None:
    """
    Erase a message's payload and headers for ever.

    Example: queen message delete 00000000-0001-8000-8000-000000000000 --yes
    """
    confirm(f"erase message {id_}", yes=yes)
    run(server, lambda q: q.admin.redact(id_))
    say("erased")


@operation_app.command("ls")
def operation_ls(limit: Limit = 20, server: Server = None, output: Output = Format.TABLE) -> None:
    """
    List long work, newest first.

    Example: queen operation ls
    """
    rows = run(server, lambda q: _some(q.admin.operations(), limit))
    show(rows, ["id", "kind", "queue", "state", "done", "total", "error"], output)


@operation_app.command("cancel")
def operation_cancel(
    id_: Annotated[str, typer.Argument(metavar="ID", help="Id of the operation.")],
    server: Server = None,
) -> None:
    """
    Stop long work where it is.

    Example: queen operation cancel 7
    """
    done = run(server, lambda q: q.admin.cancel_operation(id_))
    say(f"{done.state} after {done.done}")


@trace_app.command("show")
def trace_show(
    name: Annotated[str, typer.Argument(help="Name of the trace.")],
    server: Server = None,
    output: Output = Format.TABLE,
) -> None:
    """
    Show the events under a name, in time order.

    Example: queen trace show order-12345
    """
    rows = run(server, lambda q: _some(q.admin.traces(name), 1000))
    show(rows, ["createdAt", "eventType", "queue", "consumerGroup", "data"], output)
