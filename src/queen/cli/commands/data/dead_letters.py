"""`queen dlq`: dead letters."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from queen.cli.command_table import group
from queen.cli.commands.data.operations import counted, ended, follow
from queen.cli.support.client import DryRun, Limit, Output, Reveal, Server, Yes, confirm, run, some
from queen.cli.support.output import Format, instant, say, show, show_one

if TYPE_CHECKING:
    from queen import Queen
    from queen.wire.resources import Operation

app = group("List, redrive and purge dead letters.")

Queue = Annotated[str, typer.Argument(help="Name of the queue.")]
Group = Annotated[str | None, typer.Option("-g", "--group", help="Only this consumer group.")]
Kind = Annotated[str | None, typer.Option(help="Only this kind of error, from `queen dlq errors`.")]
Since = Annotated[str | None, typer.Option("--from", help="Failed since: ISO time, or -15m.")]
Until = Annotated[str | None, typer.Option("--to", help="Failed before: ISO time, or -15m.")]


def _filter(
    queue: str, group_: str | None, kind: str | None, since: str | None, until: str | None
) -> dict[str, Any]:
    given = {
        "queue": queue,
        "consumerGroup": group_,
        "fingerprint": kind,
        "from": instant(since).isoformat() if since else None,
        "to": instant(until).isoformat() if until else None,
    }
    return {name: value for name, value in given.items() if value is not None}


@app.command("ls")
def list_(
    queue: Queue,
    consumer_group: Group = None,
    fingerprint: Kind = None,
    since: Since = None,
    until: Until = None,
    limit: Limit = 100,
    reveal: Reveal = False,
    server: Server = None,
    output: Output = Format.TABLE,
) -> None:
    """
    List dead letters, newest first.

    Example: queen dlq ls orders --from=-1h
    """
    chosen = _filter(queue, consumer_group, fingerprint, since, until)
    revealed = {"reveal": reveal or None}
    rows = run(server, lambda q: some(q.admin.dead_letters(**chosen, **revealed), limit))
    show(rows, ["id", "consumerGroup", "partition", "attempts", "failedAt", "errorMessage"], output)


@app.command("errors")
def kinds(queue: Queue, server: Server = None, output: Output = Format.TABLE) -> None:
    """
    Count dead letters by error. Errors that differ only in numbers are one kind.

    Example: queen dlq errors orders
    """
    found = run(server, lambda q: q.admin.dead_letter_errors(queue))
    show(found.errors, ["fingerprint", "count", "lastAt", "reason", "sample"], output)
    if not found.complete:
        say(f"counted the newest {found.scanned} only; there are more")


@app.command("show")
def show_letter(
    id_: Annotated[str, typer.Argument(metavar="ID", help="Id of the dead letter.")],
    reveal: Reveal = False,
    server: Server = None,
    output: Output = Format.TABLE,
) -> None:
    """
    Show a dead letter with its payload.

    Example: queen dlq show 42
    """
    show_one(run(server, lambda q: q.admin.dead_letter(id_, reveal=reveal)), output)


@app.command("redrive")
def redrive(
    queue: Queue,
    consumer_group: Group = None,
    fingerprint: Kind = None,
    since: Since = None,
    until: Until = None,
    rate: Annotated[float | None, typer.Option(help="Limit of messages per second.")] = None,
    destination: Annotated[
        str | None, typer.Option("--to-queue", help="Push them to this queue instead.")
    ] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    server: Server = None,
) -> None:
    """
    Redeliver dead letters to the group that they failed in.

    Example: queen dlq redrive orders --rate 10 --yes
    """
    request: dict[str, Any] = {
        "filter": _filter(queue, consumer_group, fingerprint, since, until),
        "dryRun": dry_run,
    }
    if rate is not None:
        request["ratePerSecond"] = rate
    if destination is not None:
        request["destination"] = {"queue": destination}
    if not dry_run:
        confirm(f"redeliver the dead letters of {queue}", yes=yes)

    async def work(queen: "Queen") -> Any:  # noqa: ANN401 - an operation or a count
        from queen.wire.resources import Operation

        answer = await queen.admin.redrive(**request)
        return await follow(queen, answer) if isinstance(answer, Operation) else answer

    done = run(server, work)
    if hasattr(done, "state"):
        ended(done, "dead letters")
        return
    say(f"{counted(done)} dead letters" + (" would be redelivered" if dry_run else ""))


@app.command("purge")
def purge(
    queue: Queue,
    consumer_group: Group = None,
    fingerprint: Kind = None,
    since: Since = None,
    until: Until = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    server: Server = None,
) -> None:
    """
    Delete dead letters permanently.

    Example: queen dlq purge orders --to=-30d --yes
    """
    chosen = _filter(queue, consumer_group, fingerprint, since, until)
    if dry_run:
        would = run(server, lambda q: q.admin.count_dead_letters(**chosen))
        say(f"{counted(would)} dead letters would be deleted")
        return
    confirm(f"delete the dead letters of {queue} permanently", yes=yes)

    async def work(queen: "Queen") -> "Operation":
        return await follow(queen, await queen.admin.purge_dead_letters(**chosen))

    ended(run(server, work), "dead letters deleted")
