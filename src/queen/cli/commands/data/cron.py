"""`queen cron`: recurring messages."""

from typing import Annotated, Any, Literal

import typer

from queen.cli.command_table import group
from queen.cli.support.client import DryRun, Limit, Output, Reveal, Server, Yes, confirm, run, some
from queen.cli.support.output import Format, json_of, pairs_of, say, show, show_one

app = group("Manage schedules of recurring messages.")


Name = Annotated[str, typer.Argument(help="Name of the schedule.")]
_COLUMNS = ["name", "queue", "cron", "timeZone", "paused", "nextAt", "lastAt", "error"]


@app.command("ls")
def list_(
    queue: Annotated[str | None, typer.Option(help="Only schedules of this queue.")] = None,
    limit: Limit = 1000,
    server: Server = None,
    output: Output = Format.TABLE,
) -> None:
    """
    List schedules with their next and last ticks.

    Example: queen cron ls --queue reports
    """
    rows = run(server, lambda q: some(q.admin.schedules(queue=queue), limit))
    show(rows, _COLUMNS, output)


@app.command("show")
def show_(
    name: Name, reveal: Reveal = False, server: Server = None, output: Output = Format.TABLE
) -> None:
    """
    Show a schedule and the message that it pushes.

    Example: queen cron show nightly
    """
    show_one(run(server, lambda q: q.admin.schedule(name, reveal=reveal)), output)


@app.command("add")
def add(
    name: Name,
    queue: Annotated[str, typer.Argument(help="Name of the queue.")],
    cron: Annotated[str, typer.Argument(help="'0 8 * * 1-5'. Six fields start with seconds.")],
    data: Annotated[str, typer.Argument(help="Payload of each message, as JSON.")] = "null",
    time_zone: Annotated[str, typer.Option("--tz", help="Time zone: Europe/Rome.")] = "UTC",
    missed: Annotated[
        Literal["skip", "once", "all"],
        typer.Option(metavar="HOW", help="Ticks over a minute late: skip, once or all."),
    ] = "once",
    partition: Annotated[str, typer.Option("-p", "--partition", help="Partition.")] = "Default",
    header: Annotated[list[str] | None, typer.Option(help="name=value. Repeatable.")] = None,
    ttl: Annotated[str | None, typer.Option(help="Time until it expires unread: 2h.")] = None,
    priority: Annotated[int | None, typer.Option(help="0 to 9, in unordered queues.")] = None,
    paused: Annotated[bool | None, typer.Option(help="Create it without ticks.")] = None,
    server: Server = None,
    output: Output = Format.TABLE,
) -> None:
    """
    Create a schedule, or change the existing one.

    Example: queen cron add nightly reports '0 8 * * 1-5' '{"kind": "daily"}' --tz Europe/Rome
    """
    from queen.client.durations import seconds_of

    payload = json_of(data)
    options: dict[str, Any] = {
        "time_zone": time_zone,
        "missed": missed,
        "partition": partition,
        "headers": pairs_of(header, "name=value") or None,
        "ttl_seconds": None if ttl is None else seconds_of(ttl),
        "priority": priority,
        "paused": paused,
    }
    made = run(
        server,
        lambda q: q.admin.put_schedule(name, queue=queue, cron=cron, data=payload, **options),
    )
    show_one(made, output)


@app.command("pause")
def pause(name: Name, server: Server = None) -> None:
    """
    Pause a schedule.

    Example: queen cron pause nightly
    """
    run(server, lambda q: q.admin.pause_schedule(name))
    say(f"{name} is paused")


@app.command("resume")
def resume(name: Name, server: Server = None) -> None:
    """
    Resume a schedule with its next tick.

    Example: queen cron resume nightly
    """
    resumed = run(server, lambda q: q.admin.resume_schedule(name))
    say(f"{name} resumes at {resumed.next_at}")


@app.command("run")
def run_now(name: Name, server: Server = None, output: Output = Format.TABLE) -> None:
    """
    Push a schedule's message now. Its ticks don't change.

    Example: queen cron run nightly
    """
    pushed = run(server, lambda q: q.admin.run_schedule(name))
    show([pushed], ["id", "status", "offset"], output)


@app.command("delete")
def delete(name: Name, dry_run: DryRun = False, yes: Yes = False, server: Server = None) -> None:
    """
    Delete a schedule, but not the messages it pushed.

    Example: queen cron delete nightly --yes
    """
    if dry_run:
        found = run(server, lambda q: q.admin.schedule(name))
        say(f"would delete {name}, whose next tick is {found.next_at}")
        return
    confirm(f"delete schedule {name}", yes=yes)
    run(server, lambda q: q.admin.delete_schedule(name))
    say(f"{name} is deleted")
