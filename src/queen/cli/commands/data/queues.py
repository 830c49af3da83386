"""`queen queue`, `queen partition`, `queen delivery`: list, show and change them."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from queen.cli.command_table import group
from queen.cli.commands.data.operations import counted, ended, follow
from queen.cli.support.client import DryRun, Limit, Output, Server, Yes, confirm, run, some
from queen.cli.support.output import Format, json_or_text, pairs_of, say, show, show_one

if TYPE_CHECKING:
    from queen import Queen
    from queen.wire.resources import Operation

queue_app = group("List, configure, pause and delete queues.")
partition_app = group("List the partitions of a queue.")
delivery_app = group("List and release leased messages.")

Name = Annotated[str, typer.Argument(help="Name of the queue.")]
Group = Annotated[str | None, typer.Option("-g", "--group", help="Only this consumer group.")]


@queue_app.command("ls")
def queue_ls(
    namespace: Annotated[str | None, typer.Option(help="Only this namespace.")] = None,
    task: Annotated[str | None, typer.Option(help="Only this task.")] = None,
    search: Annotated[str | None, typer.Option(help="Only names with this text.")] = None,
    limit: Limit = 1000,
    server: Server = None,
    output: Output = Format.TABLE,
) -> None:
    """
    List queues.

    Example: queen queue ls --search orders -o json
    """
    filters = {"namespace": namespace, "task": task, "search": search}
    rows = run(server, lambda q: some(q.admin.queues(**filters), limit))
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
    options: Annotated[
        list[str] | None, typer.Argument(help="option=value, as JSON.", show_default=False)
    ] = None,
    namespace: Annotated[str | None, typer.Option(help="Set its namespace.")] = None,
    task: Annotated[str | None, typer.Option(help="Set its task.")] = None,
    server: Server = None,
    output: Output = Format.TABLE,
) -> None:
    """
    Create a queue, or change its options. Options that you don't name keep their values.

    Example: queen queue configure orders leaseTime=60 ordered=false
    """
    pairs = pairs_of(options, "option=value")
    given = {name: json_or_text(value) for name, value in pairs.items()}

    async def work(queen: "Queen") -> Any:  # noqa: ANN401
        target = queen.queue(queue).config(given)
        target = target.namespace(namespace) if namespace is not None else target
        return await (target.task(task) if task is not None else target).create()

    show_one(run(server, work), output)


@queue_app.command("pause")
def queue_pause(queue: Name, server: Server = None) -> None:
    """
    Pause a queue: stop delivery until it is resumed. Pushes continue.

    Example: queen queue pause orders
    """
    run(server, lambda q: q.admin.pause(queue))
    say(f"{queue} is paused")


@queue_app.command("resume")
def queue_resume(queue: Name, server: Server = None) -> None:
    """
    Resume delivery.

    Example: queen queue resume orders
    """
    run(server, lambda q: q.admin.resume(queue))
    say(f"{queue} is resumed")


@queue_app.command("purge")
def queue_purge(
    queue: Name,
    everything: Annotated[bool, typer.Option("--all", help="Also unacknowledged ones.")] = False,
    partition: Annotated[
        str | None, typer.Option("-p", "--partition", help="Only this partition.")
    ] = None,
    older_than: Annotated[str | None, typer.Option(help="Only older messages: 2h.")] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Also messages that a hold keeps, such as an archive's.")
    ] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    server: Server = None,
) -> None:
    """
    Delete messages that every group has acknowledged, or all messages.

    Example: queen queue purge orders --older-than 2h --yes
    """
    request: dict[str, Any] = {
        "scope": "all" if everything else "completed",
        "partition": partition,
        "force": force,
    }
    if older_than is not None:
        from queen.client.durations import seconds_of

        request["older_than_seconds"] = seconds_of(older_than)
    if dry_run:
        would = run(server, lambda q: q.admin.count_purge(queue, **request))
        say(f"would delete {counted(would)} messages of {queue}")
        return
    confirm(f"delete all {'' if everything else 'acknowledged '}messages of {queue}", yes=yes)

    async def work(queen: "Queen") -> "Operation":
        return await follow(queen, await queen.admin.purge(queue, **request))

    ended(run(server, work), "messages deleted")


@queue_app.command("delete")
def queue_delete(
    queue: Name, dry_run: DryRun = False, yes: Yes = False, server: Server = None
) -> None:
    """
    Delete a queue with its messages, but not its dead letters.

    Example: queen queue delete orders --yes
    """
    if dry_run:
        detail = run(server, lambda q: q.admin.queue(queue))
        pending = "an unknown number" if detail.pending is None else detail.pending
        say(f"would delete {queue}; {pending} messages are not acknowledged")
        return
    confirm(f"delete {queue} with its messages", yes=yes)
    run(server, lambda q: q.admin.delete_queue(queue))
    say(f"{queue} is deleted")


@partition_app.command("ls")
def partition_ls(
    queue: Name,
    prefix: Annotated[str | None, typer.Option(help="Only names with this prefix.")] = None,
    state: Annotated[str | None, typer.Option(help="Only ready, leased or idle ones.")] = None,
    limit: Limit = 100,
    server: Server = None,
    output: Output = Format.TABLE,
) -> None:
    """
    List partitions by name.

    Example: queen partition ls orders --prefix customer- --state ready
    """
    found = {"prefix": prefix, "state": state}
    rows = run(server, lambda q: some(q.admin.partitions(queue, **found), limit))
    show(rows, ["name", "state", "firstOffset", "nextOffset", "pending"], output)


@delivery_app.command("ls")
def delivery_ls(
    queue: Name,
    consumer_group: Group = None,
    limit: Limit = 100,
    server: Server = None,
    output: Output = Format.TABLE,
) -> None:
    """
    List leased messages and messages that wait for a retry.

    Example: queen delivery ls orders -g billing
    """
    rows = run(
        server,
        lambda q: some(q.admin.deliveries(queue, consumer_group=consumer_group), limit),
    )
    show(
        rows, ["id", "consumerGroup", "partition", "state", "until", "attempt", "messages"], output
    )


@delivery_app.command("release")
def delivery_release(
    lease_id: Annotated[str, typer.Argument(metavar="LEASE", help="Lease id from the pop.")],
    dry_run: DryRun = False,
    yes: Yes = False,
    server: Server = None,
) -> None:
    """
    Release a lease. Its unacknowledged messages are redelivered now, without counting an attempt.

    Example: queen delivery release LEASE --yes
    """
    if dry_run:
        say(f"would release {lease_id}")
        return
    confirm(f"release {lease_id}", yes=yes)
    run(server, lambda q: q.release(lease_id))
    say("released")
