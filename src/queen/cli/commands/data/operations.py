"""`queen operation`: long operations on the server, and how a command waits for one."""

import asyncio
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from queen.cli.command_table import group
from queen.cli.support import exit_codes
from queen.cli.support.client import Limit, Output, Server, run, some
from queen.cli.support.output import Format, say, show, show_one

if TYPE_CHECKING:
    from queen import Queen
    from queen.wire.resources import Counted, Operation

app = group("Follow and cancel long operations.")

Id = Annotated[str, typer.Argument(metavar="ID", help="Id of the operation.")]


async def follow(queen: "Queen", operation: "Operation") -> "Operation":
    """Wait for the end, with a bar on a terminal. Ctrl-C leaves the operation running."""
    try:
        if sys.stderr.isatty():
            return await _with_bar(queen, operation)
        return await queen.admin.finished(operation)
    except asyncio.CancelledError:
        say(
            f"\noperation {operation.id} continues: `queen operation show {operation.id} --wait` "
            f"follows it, `queen operation cancel {operation.id}` stops it"
        )
        raise


async def _with_bar(queen: "Queen", operation: "Operation") -> "Operation":
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True)) as progress:
        task = progress.add_task(operation.kind, total=operation.total)
        while operation.state == "running":
            progress.update(task, completed=operation.done, total=operation.total)
            await asyncio.sleep(0.2)
            operation = await queen.admin.operation(operation.id)
        progress.update(task, completed=operation.done, total=operation.total)
    return operation


def ended(operation: "Operation", what: str) -> None:
    """Print the outcome of an operation. Any state except done is a failure."""
    say(f"{operation.state}: {operation.done} {what}")
    if operation.state != "done":
        if operation.error:
            say(f"queen: {operation.error}")
        raise typer.Exit(exit_codes.FAILED)


def counted(found: "Counted") -> str:
    """Return the count, or its lower bound if the server stopped counting."""
    return f"{'' if found.complete else 'at least '}{found.count}"


@app.command("ls")
def list_(limit: Limit = 20, server: Server = None, output: Output = Format.TABLE) -> None:
    """
    List operations, newest first.

    Example: queen operation ls
    """
    rows = run(server, lambda q: some(q.admin.operations(), limit))
    show(rows, ["id", "kind", "queue", "state", "done", "total", "error"], output)


@app.command("show")
def show_operation(
    id_: Id,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until it ends.")] = False,
    server: Server = None,
    output: Output = Format.TABLE,
) -> None:
    """
    Show the progress of an operation.

    Example: queen operation show 7 --wait
    """

    async def work(queen: "Queen") -> "Operation":
        operation = await queen.admin.operation(id_)
        return await follow(queen, operation) if wait else operation

    operation = run(server, work)
    show_one(operation, output)
    if wait and operation.state != "done":
        raise typer.Exit(exit_codes.FAILED)


@app.command("cancel")
def cancel(id_: Id, server: Server = None) -> None:
    """
    Cancel an operation. Completed steps are not undone.

    Example: queen operation cancel 7
    """
    done = run(server, lambda q: q.admin.cancel_operation(id_))
    if done.state == "running":
        say(f"operation {id_} ends when the copy of its current slot is erased")
    else:
        say(f"{done.state} after {done.done}")
