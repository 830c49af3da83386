"""`queen pipeline holds` and `queen pipeline archives`: messages kept for, and copied to, lakes."""

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from queen import errors
from queen.cli.command_table import group
from queen.cli.support.client import DryRun, Limit, Output, Server, Yes, confirm, run, some
from queen.cli.support.databases import Dsn, DsnFile, database
from queen.cli.support.environment import with_store
from queen.cli.support.output import Format, say, show

if TYPE_CHECKING:
    from queen.store.connection.database import Record
    from queen.store.store import Store

holds_app = group("List and release the holds that keep messages from retention.")
archives_app = group("List and drop archives, with the messages that each has missed.")

_HOLDS: Final = ["queue", "name", "messages", "ageSeconds", "heldAt", "expiresAt"]
_ARCHIVES: Final = [
    *("name", "queue", "format", "location", "batch", "archivedAt"),
    *("missedMessages", "misfitMessages"),
]

Queue = Annotated[str, typer.Argument(metavar="QUEUE", help="Name of the queue.")]
HoldName = Annotated[str, typer.Argument(metavar="NAME", help="Hold, such as archive:orders.")]
ArchiveName = Annotated[str, typer.Argument(metavar="NAME", help="Name of the archive.")]


@holds_app.command("ls")
def list_holds(
    dsn: Dsn = None,
    dsn_file: DsnFile = None,
    limit: Limit = 1000,
    server: Server = None,
    output: Output = Format.TABLE,
) -> None:
    """
    List holds, with the number and the age of the messages that each keeps.

    If you name a database, the command reads it instead of a server.

    Example: queen pipeline holds ls
    """
    if (where := database(dsn, dsn_file)) is None:
        rows: list[Any] = run(server, lambda q: some(q.admin.holds(), limit))
    else:
        from queen.wire.resources import Hold

        async def read(store: "Store") -> "list[Record]":
            return await store.pipelines.holds(after=("", ""), limit=limit)

        rows = [Hold(**dict(row)) for row in with_store(read, where)]
    show(rows, _HOLDS, output)


@holds_app.command("release")
def release(
    queue: Queue,
    name: HoldName,
    dsn: Dsn = None,
    dsn_file: DsnFile = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    server: Server = None,
) -> None:
    """
    Release a hold, so that retention can delete its messages. A running archive renews its hold.

    Example: queen pipeline holds release orders archive:orders --yes
    """
    if dry_run:
        say(f"would release hold {name} of {queue}")
        return
    confirm(f"release hold {name}, so that retention can delete messages of {queue}", yes=yes)
    if (where := database(dsn, dsn_file)) is None:
        run(server, lambda q: q.admin.release_hold(queue, name))
    else:

        async def drop(store: "Store") -> None:
            if not await store.pipelines.release(queue, name):
                raise errors.NotFound(f"queue {queue} has no hold {name}")
            await _note(store, "queen pipeline holds release", queue=queue, name=name)

        with_store(drop, where)
    say(f"{name} is released")


@archives_app.command("ls")
def list_archives(
    dsn: Dsn = None,
    dsn_file: DsnFile = None,
    limit: Limit = 1000,
    server: Server = None,
    output: Output = Format.TABLE,
) -> None:
    """
    List archives, with the messages that were removed before they were archived.

    If you name a database, the command reads it instead of a server.

    Example: queen pipeline archives ls
    """
    if (where := database(dsn, dsn_file)) is None:
        rows: list[Any] = run(server, lambda q: some(q.admin.archives(), limit))
    else:
        from queen.wire.resources import Archive

        async def read(store: "Store") -> "list[Record]":
            return await store.pipelines.archives(after="", limit=limit)

        rows = [Archive(**dict(row)) for row in with_store(read, where)]
    show(rows, _ARCHIVES, output)


@archives_app.command("drop")
def drop_archive(
    name: ArchiveName,
    dsn: Dsn = None,
    dsn_file: DsnFile = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    server: Server = None,
) -> None:
    """
    Drop an archive and its hold. The lake keeps its data.

    Example: queen pipeline archives drop orders --yes
    """
    if dry_run:
        say(f"would drop archive {name} and its hold")
        return
    confirm(f"drop archive {name} and its hold", yes=yes)
    if (where := database(dsn, dsn_file)) is None:
        run(server, lambda q: q.admin.drop_archive(name))
    else:

        async def drop(store: "Store") -> None:
            if not await store.pipelines.drop_archive(name):
                raise errors.NotFound(f"archive {name} does not exist")
            await _note(store, "queen pipeline archives drop", name=name)

        with_store(drop, where)
    say(f"{name} is dropped")


async def _note(store: "Store", action: str, **before: str) -> None:
    from queen.cli.commands.token import note

    await note(store, action, before=before)
