"""`queen message` and `queen trace`: single messages and their trace events."""

from typing import Annotated

import typer

from queen.cli.command_table import group
from queen.cli.support.client import DryRun, Limit, Output, Reveal, Server, Yes, confirm, run, some
from queen.cli.support.output import Format, say, show, show_one

message_app = group("Show, retry and delete single messages.")
trace_app = group("Show trace events that consumers recorded.")

Id = Annotated[str, typer.Argument(metavar="ID", help="Id of the message.")]


@message_app.command("show")
def message_show(
    id_: Id, reveal: Reveal = False, server: Server = None, output: Output = Format.TABLE
) -> None:
    """
    Show a message, its state in each group and its traces.

    Example: queen message show 00000000-0001-8000-8000-000000000000
    """
    show_one(run(server, lambda q: q.admin.message(id_, reveal=reveal)), output)


@message_app.command("retry")
def message_retry(
    id_: Id,
    consumer_group: Annotated[
        str | None, typer.Option("-g", "--group", help="Consumer group.")
    ] = None,
    server: Server = None,
) -> None:
    """
    Redeliver a message now, if it waits for a retry or is dead-lettered.

    Example: queen message retry 00000000-0001-8000-8000-000000000000
    """
    run(server, lambda q: q.admin.retry(id_, consumer_group))
    say("the message can be popped now")


@message_app.command("delete")
def message_delete(
    id_: Id, dry_run: DryRun = False, yes: Yes = False, server: Server = None
) -> None:
    """
    Erase a message's payload and headers permanently.

    Example: queen message delete 00000000-0001-8000-8000-000000000000 --yes
    """
    if dry_run:
        found = run(server, lambda q: q.admin.message(id_))
        say(f"would erase offset {found.offset} of {found.queue}/{found.partition}")
        return
    confirm(f"erase message {id_}", yes=yes)
    run(server, lambda q: q.admin.redact(id_))
    say("erased")


@trace_app.command("show")
def trace_show(
    name: Annotated[str, typer.Argument(help="Name of the trace.")],
    limit: Limit = 1000,
    server: Server = None,
    output: Output = Format.TABLE,
) -> None:
    """
    Show the events under a name, in time order.

    Example: queen trace show order-12345
    """
    rows = run(server, lambda q: some(q.admin.traces(name), limit))
    show(rows, ["createdAt", "eventType", "queue", "consumerGroup", "data"], output)
