"""`queen group`: consumer groups and their lag; seek and delete."""

from typing import Annotated, Any

import typer

from queen.cli.command_table import group
from queen.cli.support.client import DryRun, Limit, Output, Server, Yes, confirm, run, some
from queen.cli.support.output import Format, instant, say, show

app = group("List, move and delete consumer groups.")

Name = Annotated[str, typer.Argument(metavar="GROUP", help="Name of the group.")]
Queue = Annotated[str, typer.Argument(help="Name of the queue.")]


@app.command("ls")
def list_(
    queue: Annotated[str | None, typer.Option(help="Only groups of this queue.")] = None,
    min_lag: Annotated[
        str | None, typer.Option(help="Only if the oldest message is older: 5m.")
    ] = None,
    limit: Limit = 1000,
    server: Server = None,
    output: Output = Format.TABLE,
) -> None:
    """
    List consumer groups and their lag.

    Example: queen group ls --queue orders --min-lag 5m
    """
    from queen.client.durations import seconds_of

    seconds = None if min_lag is None else seconds_of(min_lag)
    rows = run(server, lambda q: some(q.admin.groups(queue=queue, min_lag_seconds=seconds), limit))
    show(rows, ["consumerGroup", "queue", "lag", "lagSeconds", "held", "waiting"], output)


@app.command("lag")
def lag(
    name: Name,
    queue: Queue,
    min_lag: Annotated[int, typer.Option(min=0, help="Minimum lag of a partition.")] = 1,
    limit: Limit = 100,
    server: Server = None,
    output: Output = Format.TABLE,
) -> None:
    """
    Show a group's position and lag per partition.

    Example: queen group lag billing orders --min-lag 100
    """
    rows = run(
        server, lambda q: some(q.admin.group_partitions(name, queue, min_lag=min_lag), limit)
    )
    show(rows, ["partition", "lag", "position", "claimed", "nextOffset", "lease"], output)


@app.command("seek")
def seek(
    name: Name,
    queue: Queue,
    to: Annotated[str, typer.Option(help="start, end, ISO time, -15m, or an offset with -p.")],
    partition: Annotated[
        str | None, typer.Option("-p", "--partition", help="Only this partition.")
    ] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    server: Server = None,
) -> None:
    """
    Move a group's position. Its current leases are lost.

    Example: queen group seek billing orders --to start --yes
    """
    where: dict[str, Any] = {"to_start": True} if to == "start" else {"to_end": True}
    if to not in ("start", "end"):
        is_offset = partition is not None and to.isdecimal()
        where = {"offset": int(to)} if is_offset else {"to": instant(to)}
    if dry_run:
        rows = run(server, lambda q: some(q.admin.groups(queue=queue), 1000))
        lags = [each.lag for each in rows if each.consumer_group == name]
        known = "unknown" if not lags or lags[0] is None else lags[0]
        say(f"would move {name} on {queue} to {to}; its lag is {known} now")
        return
    confirm(f"move {name} on {queue} to {to}", yes=yes)
    run(server, lambda q: q.admin.seek(name, queue, partition=partition, **where))
    say(f"{name} was moved")


@app.command("delete")
def delete(
    name: Name,
    queue: Annotated[str | None, typer.Option(help="Only on this queue.")] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    server: Server = None,
) -> None:
    """
    Delete a group. The next pop creates it again.

    Example: queen group delete billing --queue orders --yes
    """
    if dry_run:
        rows = run(server, lambda q: some(q.admin.groups(queue=queue), 100_000))
        queues = [each.queue for each in rows if each.consumer_group == name]
        say(f"would delete {name} on {', '.join(queues) or 'no queue'}")
        return
    confirm(f"delete group {name}", yes=yes)
    run(server, lambda q: q.admin.delete_group(name, queue))
    say(f"{name} is deleted")
