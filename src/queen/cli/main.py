"""The `queen` command."""

import os
import sys
from typing import Annotated, Final

import typer

from queen import errors
from queen.cli.command_table import Commands
from queen.cli.support.exit_codes import FileTrouble, exit_closed_pipe, exit_code

_OF_THE_SERVER: Final = ("asyncpg", "starlette", "structlog", "uvicorn", "uvloop", "cryptography")

app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


@app.callback()
def queen(
    server: Annotated[str | None, typer.Option(help="URL of a server.")] = None,
    context: Annotated[
        str | None, typer.Option(help="Name of a server from `queen context ls`.")
    ] = None,
    ca_file: Annotated[
        str | None, typer.Option(metavar="FILE", help="Trusted certificate authorities.")
    ] = None,
    client_cert: Annotated[
        str | None, typer.Option(metavar="FILE", help="Client certificate.")
    ] = None,
    client_key: Annotated[
        str | None, typer.Option(metavar="FILE", help="Private key of the client certificate.")
    ] = None,
    timeout: Annotated[str | None, typer.Option(help="Time limit of a request: 30s, 5m.")] = None,
    no_color: Annotated[bool, typer.Option("--no-color", help="Print without colors.")] = False,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Only data and errors.")] = False,
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="Log requests.")] = False,
) -> None:
    """
    A message queue on PostgreSQL.

    Data goes to stdout, everything else to stderr. Flags override the environment (QUEEN_BASE_URL,
    QUEEN_TOKEN, QUEEN_CONTEXT, QUEEN_TIMEOUT, QUEEN_CA_FILE, QUEEN_CLIENT_CERTIFICATE,
    QUEEN_CLIENT_KEY). The environment overrides the context, and the context the defaults.

    Exit codes: 0 done, 1 failed, 2 usage, 3 not found, 4 not allowed, 5 server unreachable,
    6 timeout or empty, 7 conflict, 8 differences (diff), 130 interrupted. backup-check, doctor,
    health and shard doctor: 0 ok, 1 warning, 2 critical.
    """
    # Flags become environment variables, which each command reads.
    if context is not None:
        os.environ.pop("QUEEN_BASE_URL", None)
        os.environ.pop("QUEEN_TOKEN", None)
        os.environ["QUEEN_CONTEXT"] = context
    flags = {
        "QUEEN_BASE_URL": server,
        "QUEEN_CA_FILE": ca_file,
        "QUEEN_CLIENT_CERTIFICATE": client_cert,
        "QUEEN_CLIENT_KEY": client_key,
        "QUEEN_TIMEOUT": timeout,
        "NO_COLOR": "1" if no_color else None,
        "QUEEN_QUIET": "true" if quiet else None,
        "QUEEN_CLIENT_LOG": "true" if verbose else None,
    }
    os.environ.update({name: value for name, value in flags.items() if value is not None})


def main() -> None:
    """Run the installed command. Queen's errors are printed as a sentence, not as a traceback."""
    if "_QUEEN_COMPLETE" in os.environ:
        # A shell requests completions. Typer registers its shells when this is called.
        from typer.completion import get_completion_inspect_parameters

        get_completion_inspect_parameters()
    try:
        try:
            app(prog_name="queen")
        finally:
            sys.stdout.flush()  # Now, because an error at exit could not be reported.
    except BrokenPipeError:
        exit_closed_pipe()
    except errors.QueenError as error:
        print(f"queen: {error}", file=sys.stderr)
        sys.exit(exit_code(error))
    except FileTrouble as error:
        sys.exit(f"queen: {error}")
    except ModuleNotFoundError as error:
        if error.name not in _OF_THE_SERVER:
            raise
        sys.exit(f"queen: this needs {error.name}: pip install 'queenmq[server]'")
