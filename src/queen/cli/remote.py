"""What commands share that speak to a server: where it is, and what an error's exit code is."""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, TypeVar

import typer

from queen import errors
from queen.cli.output import Format

T = TypeVar("T")

Server = Annotated[
    str | None, typer.Option("--server", envvar="QUEEN_BASE_URL", help="URL of a server.")
]
Output = Annotated[Format, typer.Option("-o", "--output", help="table, json, jsonl or name.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done.")]


def run(server: str | None, work: Callable[[Any], Awaitable[T]]) -> T:
    """Do something with a client; errors end the command with a sentence and their exit code."""
    from queen import Queen

    async def main() -> T:
        options: dict[str, Any] = {"retry_attempts": 2, "retry_delay_millis": 200}
        if "QUEEN_TOKEN" in os.environ:
            options["bearer_token"] = os.environ["QUEEN_TOKEN"]
        async with Queen(server or "http://localhost:6632", **options) as queen:
            return await work(queen)

    try:
        return asyncio.run(main())
    except errors.QueenError as error:
        print(f"queen: {error}", file=sys.stderr)
        raise typer.Exit(exit_code(error)) from error
    except KeyboardInterrupt as error:
        raise typer.Exit(130) from error


def exit_code(error: errors.QueenError) -> int:
    """0 done, 1 failed, 3 not found, 4 auth, 5 unreachable, 6 timeout, 7 conflict."""
    if isinstance(error, errors.NotFound):
        return 3
    if isinstance(error, errors.Unauthorized | errors.Forbidden):
        return 4
    if isinstance(error, errors.ServerUnreachable):
        return 5
    if error.http_status == 409 or isinstance(error, errors.VersionMismatch):
        return 7
    return 1


def confirm(what: str, *, yes: bool) -> None:
    """Ask on a terminal; elsewhere --yes is needed."""
    if yes:
        return
    if not sys.stdin.isatty():
        print(f"queen: {what}: say --yes", file=sys.stderr)
        raise typer.Exit(2)
    typer.confirm(f"{what}?", abort=True)
