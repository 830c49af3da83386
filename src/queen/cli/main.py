"""The `queen` command: each group of commands is a file beside this one."""

import os
import sys
from typing import Annotated

import typer

from queen import errors
from queen.cli import audit, check, dev, manage, messages, migrate, token
from queen.cli.environment import settings

app = typer.Typer(no_args_is_help=True, add_completion=False, help="A message queue on PostgreSQL.")
config_app = typer.Typer(no_args_is_help=True, help="What is set, and by what.")
app.add_typer(config_app, name="config")
app.add_typer(migrate.app, name="migrate")
app.add_typer(token.app, name="token")
app.add_typer(audit.app, name="audit")


@app.command()
def serve() -> None:
    """
    Serve HTTP until stopped. Settings come from the environment.

    Example: PG_HOST=localhost PORT=6632 queen serve
    """
    from queen.server.serve import serve as run

    raise typer.Exit(run(settings()))


app.command()(dev.dev)
app.command()(messages.push)
app.command()(messages.pop)
app.command()(messages.ack)
app.command()(messages.peek)
app.command()(check.health)
app.command()(check.version)
app.command("errors")(check.explain)
app.add_typer(manage.queue_app, name="queue")
app.add_typer(manage.partition_app, name="partition")
app.add_typer(manage.delivery_app, name="delivery")
app.add_typer(manage.group_app, name="group")
app.add_typer(manage.dlq_app, name="dlq")
app.add_typer(manage.message_app, name="message")
app.add_typer(manage.operation_app, name="operation")
app.add_typer(manage.trace_app, name="trace")


@config_app.command()
def show(
    effective: Annotated[bool, typer.Option(help="Also what is set to its default.")] = False,
) -> None:
    """
    Show the settings that this environment gives; secrets are masked.

    Example: queen config show --effective
    """
    for name, value, source in settings().shown(os.environ):
        if effective or source != "default":
            typer.echo(f"{name}={value}  # {source}")


_EXIT_CODES = {401: 4, 403: 4, 404: 3, 409: 7, 412: 7}
_NO_DATABASE = 5


def _exit_code(error: errors.QueenError) -> int:
    """Not found, refused, not reached and in conflict are told apart from what failed."""
    if isinstance(error, errors.DatabaseUnavailable):
        return _NO_DATABASE
    return _EXIT_CODES.get(error.http_status, 1)


def main() -> None:
    """What the installed command runs: our own errors are a sentence, not a traceback."""
    try:
        app()
    except errors.QueenError as error:
        print(f"queen: {error}", file=sys.stderr)
        sys.exit(_exit_code(error))
