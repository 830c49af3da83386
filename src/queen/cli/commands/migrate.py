"""`queen migrate`: migrate a database to this release, or print the steps."""

import asyncio

import typer

from queen.cli.command_table import group
from queen.cli.support.client import Output
from queen.cli.support.environment import settings
from queen.cli.support.output import Format, show

app = group("Create and upgrade the database schema.")


@app.command()
def up() -> None:
    """
    Apply all missing migrations, or none if one fails.

    With QUEEN_DATABASES it migrates each database, and new ones join the first.

    Example: PG_HOST=localhost queen migrate up
    """
    from queen.store.cluster.joining import join

    applied = asyncio.run(join(settings().dsns))
    for name in applied:
        typer.echo(f"applied {name}")
    if not applied:
        typer.echo("nothing to apply", err=True)


@app.command()
def status(output: Output = Format.TABLE) -> None:
    """
    List the migrations of this release, and which are applied.

    Example: queen migrate status
    """
    from queen.store.migrations import status as read

    dsns = settings().dsns
    rows = [
        {
            "database": database,
            "name": step.name,
            "state": "pending" if step.applied_at is None else "applied",
            "appliedAt": step.applied_at,
        }
        for database, dsn in dsns.items()
        for step in asyncio.run(read(dsn))
    ]
    columns = ["name", "state", "appliedAt"]
    show(rows, columns if len(dsns) == 1 else ["database", *columns], output)


@app.command("sql")
def print_sql() -> None:
    """
    Print the SQL that `up` would run, to run it yourself. With QUEEN_DATABASES: for the first.

    Example: queen migrate sql > up.sql
    """
    from queen.store.migrations import script

    typer.echo(asyncio.run(script(settings().dsn)), nl=False)


@app.command()
def check() -> None:
    """
    Check that the database fits this release. Exits with 1 if it doesn't.

    Example: queen migrate check
    """
    from queen.store.cluster.joining import missing
    from queen.store.migrations import ahead

    dsns = settings().dsns
    if steps := asyncio.run(missing(dsns)):
        typer.echo(f"the database lacks {', '.join(steps)}; run `queen migrate up`", err=True)
        raise typer.Exit(1)
    if later := [name for dsn in dsns.values() for name in asyncio.run(ahead(dsn))]:
        typer.echo(f"the database is ahead of this release by {', '.join(later)}", err=True)
    else:
        typer.echo("the database is at this release", err=True)


@app.command()
def roles() -> None:
    """
    Create the database roles of owners, servers, readers, producers and pipelines.

    The roles queen_owner, queen_app, queen_retention, queen_readonly, queen_producer and
    queen_pipeline have no login. Add one: create role server login password '…' in role queen_app.

    Example: queen migrate roles
    """
    from queen import sql
    from queen.store.migrations import make_roles

    for dsn in settings().dsns.values():
        asyncio.run(make_roles(dsn))
    typer.echo(f"created {', '.join(sql.ROLE_NAMES)}", err=True)
