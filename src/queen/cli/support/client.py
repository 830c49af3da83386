"""Shared by commands that call a server: its client, its options, and confirmation."""

import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from queen import errors
from queen.cli.support import exit_codes
from queen.cli.support.output import Format

if TYPE_CHECKING:
    from queen import Queen

T = TypeVar("T")

Server = Annotated[
    str | None,
    typer.Option("--server", envvar="QUEEN_BASE_URL", show_envvar=False, help="URL of a server."),
]
Output = Annotated[
    Format,
    typer.Option(
        "-o",
        "--output",
        metavar="FORMAT",
        help="table, wide, json, jsonl, yaml, csv or name.",
    ),
]
Yes = Annotated[bool, typer.Option("--yes", help="Don't ask for confirmation.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the effect without making changes.")]
Reveal = Annotated[
    bool, typer.Option("--reveal", help="Show encrypted data unmasked. The audit log records it.")
]
Limit = Annotated[int, typer.Option("-n", "--limit", min=1, help="Maximum number of rows.")]


def client(server: str | None) -> "Queen":
    """Return a client for the server of the flag, environment, context or default."""
    from queen import Queen
    from queen.cli.support.contexts import chosen
    from queen.client.durations import seconds_of

    where = chosen(server)
    options: dict[str, Any] = {"retry_attempts": 2, "retry_delay_millis": 200}
    options |= where.tls._asdict()
    if where.token is not None:
        options["bearer_token"] = where.token
    if timeout := os.environ.get("QUEEN_TIMEOUT"):
        options["timeout_millis"] = max(1, round(seconds_of(timeout) * 1000))
    try:
        return Queen(where.urls, **options)
    except errors.BadSettings as error:
        if where.source != "QUEEN_BASE_URL":
            raise
        raise errors.BadRequest(str(error)) from error


def run(server: str | None, work: Callable[["Queen"], Awaitable[T]]) -> T:
    """Run work with a client. `main` turns its errors into a sentence and an exit code."""
    import asyncio

    async def main() -> T:
        async with client(server) as queen:
            return await work(queen)

    try:
        return asyncio.run(main())
    except KeyboardInterrupt as error:
        raise typer.Exit(exit_codes.INTERRUPTED) from error
    except Exception as error:
        import json

        import msgspec

        if isinstance(error, msgspec.DecodeError | json.JSONDecodeError | UnicodeDecodeError):
            raise errors.TransportError(
                "the response is not from a Queen server of this release: check --server"
            ) from error
        raise


async def some(found: AsyncIterator[T], count: int) -> list[T]:
    """Return the first items of an iterator."""
    rows: list[T] = []
    async for each in found:
        rows.append(each)
        if len(rows) >= count:
            break
    return rows


def confirm(what: str, *, yes: bool) -> None:
    """Ask for confirmation on a terminal. Otherwise require --yes."""
    if yes:
        return
    if not sys.stdin.isatty():
        print(f"queen: {what}: add --yes to confirm", file=sys.stderr)
        raise typer.Exit(exit_codes.USAGE)
    try:
        is_agreed = typer.confirm(f"{what}?", err=True)
    except typer.Abort as error:  # Ctrl-C, or end of input.
        raise typer.Exit(exit_codes.INTERRUPTED) from error
    if not is_agreed:
        print("queen: cancelled, without changes", file=sys.stderr)
        raise typer.Exit(exit_codes.FAILED)
