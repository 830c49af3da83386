"""`queen job`: jobs of a queue."""

from typing import Annotated, Any, Literal

import typer

from queen.cli.command_table import group
from queen.cli.support.client import Limit, Output, Reveal, Server, Yes, confirm, run, some
from queen.cli.support.output import Format, json_of, say, show, show_one

app = group("List, add and cancel jobs.")


Status = Literal["scheduled", "waiting", "active", "completed", "failed", "cancelled"]
Priority = Literal["critical", "high", "normal", "low", "background"]
Queue = Annotated[str, typer.Argument(help="Name of the queue.")]
Id = Annotated[str, typer.Argument(help="Id of the job.")]
Key = Annotated[str | None, typer.Option(help="Key that it was added with, if it is unique.")]


@app.command("ls")
def list_(
    queue: Queue,
    status: Annotated[
        Status | None, typer.Option(metavar="STATUS", help="Only this status.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="Only jobs of this processor.")] = None,
    tag: Annotated[str | None, typer.Option(help="Only jobs with this tag.")] = None,
    key: Annotated[str | None, typer.Option(help="Only jobs with this key.")] = None,
    limit: Limit = 100,
    reveal: Reveal = False,
    server: Server = None,
    output: Output = Format.TABLE,
) -> None:
    """
    List jobs, newest first. --status scheduled lists jobs that are not due yet.

    Example: queen job ls email --status failed
    """
    from queen.jobs.api import JobCalls

    filters = {
        "status": status,
        "name": name,
        "tag": tag,
        "key": key,
        "reveal": reveal or None,
    }
    rows = run(server, lambda q: some(JobCalls(q).jobs(queue, **filters), limit))
    show(rows, ["id", "name", "status", "priority", "attempt", "createdAt", "error"], output)


@app.command("show")
def show_(
    queue: Queue,
    id_: Id,
    key: Key = None,
    reveal: Reveal = False,
    server: Server = None,
    output: Output = Format.TABLE,
) -> None:
    """
    Show a job: its data, state, result, progress and error.

    Example: queen job show email 00000000-0001-8000-8000-000000000007
    """
    from queen.jobs.api import JobCalls

    show_one(run(server, lambda q: JobCalls(q).job(queue, id_, key=key, reveal=reveal)), output)


@app.command("add")
def add(
    queue: Queue,
    name: Annotated[str, typer.Argument(help="Name of the processor.")],
    data: Annotated[str, typer.Argument(help="Data of the job, as JSON.")] = "null",
    priority: Annotated[
        Priority, typer.Option(metavar="LEVEL", help="critical, high, normal, low, background.")
    ] = "normal",
    delay: Annotated[str | None, typer.Option(help="Delay before it runs: 5m.")] = None,
    attempts: Annotated[int | None, typer.Option(help="Maximum attempts.")] = None,
    unique: Annotated[str | None, typer.Option(help="Id for deduplication.")] = None,
    key: Annotated[str | None, typer.Option(help="Key for limits per key.")] = None,
    tag: Annotated[list[str] | None, typer.Option(help="Tag to filter by. Repeatable.")] = None,
    server: Server = None,
    output: Output = Format.TABLE,
) -> None:
    """
    Add a job.

    Example: queen job add email send-welcome '{"to": "a@b.c"}' --priority high
    """
    from queen.jobs import JobPriority, QueueManager

    payload = json_of(data)
    given: dict[str, Any] = {
        "priority": JobPriority[priority.upper()],
        "delay": delay,
        "attempts": attempts,
        "unique": unique,
        "key": key,
        "tags": tag,
    }
    options = {option: value for option, value in given.items() if value is not None}

    async def added(queen: Any) -> dict[str, Any]:  # noqa: ANN401 - a Queen
        handle = await QueueManager(queen).add_job(queue, name, payload, **options)
        return {"id": handle.id, "queue": queue, "duplicate": handle.is_duplicate}

    show([run(server, added)], ["id", "queue", "duplicate"], output)


@app.command("cancel")
def cancel(queue: Queue, id_: Id, key: Key = None, yes: Yes = False, server: Server = None) -> None:
    """
    Cancel a job. A running job is stopped.

    Example: queen job cancel email 00000000-0001-8000-8000-000000000007 --yes
    """
    from queen.jobs.api import JobCalls

    confirm(f"cancel job {id_} of {queue}", yes=yes)
    changed = run(server, lambda q: JobCalls(q).cancel(queue, id_, key=key))
    say(f"{id_} was {changed.was} and is cancelled")
