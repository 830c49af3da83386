"""`queen top`: live view of queues."""

import asyncio
import contextlib
import os
import re
import sys
from collections.abc import Generator
from typing import TYPE_CHECKING, Annotated, Final

import typer

from queen import errors
from queen.cli.support.client import Output, Server, run
from queen.cli.support.output import Format, show, show_one

if TYPE_CHECKING:
    from queen import Queen
    from queen.cli.top.sampler import Detail, Sampler, Snapshot
    from queen.cli.top.screen import Screen

_KEYS: Final = {
    b"\x1b[A": "up",
    b"\x1b[B": "down",
    b"\x1bOA": "up",
    b"\x1bOB": "down",
    b"\x1b": "esc",
}
_KEY: Final = re.compile(rb"\x1b\[[0-9;?]*[@-~]|\x1bO[@-~]|\x1b|[^\x1b]+")
"""Arrow keys and some others send several bytes, and Escape sends only their first one."""
_COLUMNS: Final = [
    "name", "lag", "pushedPerSecond", "ackedPerSecond", "oldestAgeSeconds", "held", "waiting",
    "deadLetters", "paused",
]  # fmt: skip


def top(
    once: Annotated[bool, typer.Option("--once", help="Print one sample and exit.")] = False,
    interval: Annotated[str, typer.Option(help="Time between samples: 2s, 500ms.")] = "2s",
    sort: Annotated[
        str, typer.Option(help="Sort by lag, in, out, oldest, held, retry, dead or name.")
    ] = "lag",
    filter_: Annotated[str, typer.Option("--filter", help="Only names with this text.")] = "",
    server: Server = None,
    output: Output = Format.TABLE,
) -> None:
    """
    Watch queues live: lag, rates, ages, deliveries, waiting pops, the database.

    Press ? for the keys. -o jsonl prints one line per sample. Without a terminal, it prints once.

    Example: queen top --once --sort oldest -o json
    """
    from queen.cli.top.screen import SORTS, Screen
    from queen.client.durations import seconds_of

    if sort not in SORTS:
        raise typer.BadParameter(f"one of {', '.join(SORTS)}", param_hint="--sort")
    is_terminal = sys.stdout.isatty() and sys.stdin.isatty()
    is_live = output is Format.TABLE and is_terminal and not once
    screen = Screen(sort=sort, filter=filter_, is_live=is_live)
    seconds = max(0.1, seconds_of(interval))

    async def work(queen: "Queen") -> None:
        from queen.cli.top.sampler import Sampler

        sampler = Sampler(queen)
        if is_live:
            await _live(sampler, screen, seconds)
            return
        while True:
            _print(await sampler.sample(), screen, output)
            if once or output is not Format.JSONL:
                return
            sys.stdout.flush()
            await asyncio.sleep(seconds)

    run(server, work)


def _print(snapshot: "Snapshot", screen: "Screen", output: Format) -> None:
    import msgspec

    rows = screen.rows(snapshot)
    if output in (Format.JSON, Format.JSONL, Format.YAML):
        show_one(msgspec.structs.replace(snapshot, queues=rows), output)
    elif output is Format.TABLE:
        from rich.console import Console

        console = Console(markup=False, highlight=False)
        console.print(screen.render(snapshot, None, height=len(rows) + 20))
    else:
        show(rows, _COLUMNS, output)


async def _live(sampler: "Sampler", screen: "Screen", seconds: float) -> None:
    from rich.console import Console
    from rich.live import Live

    snapshot = await sampler.sample()  # Before the screen opens, so an error is a plain sentence.
    detail: Detail | None = None
    pressed = asyncio.Event()
    console = Console(markup=False, highlight=False)
    with _keys(screen, pressed), Live(console=console, screen=True, auto_refresh=False) as live:
        look_at = asyncio.get_running_loop().time() + seconds
        while not screen.is_over:
            live.update(screen.render(snapshot, detail, height=console.height), refresh=True)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(look_at):
                    await pressed.wait()
            is_opened = screen.opened is not None and (
                detail is None or detail.name != screen.opened
            )
            is_time = not pressed.is_set()
            pressed.clear()
            if not is_opened and not is_time:
                continue
            if is_time:
                look_at = asyncio.get_running_loop().time() + seconds
            if screen.is_paused and not is_opened:
                continue
            try:
                if is_time:
                    snapshot = await sampler.sample()
                if screen.opened is not None:
                    detail = await sampler.detail(screen.opened)
                screen.trouble = ""
            except errors.NotFound:
                screen.opened = detail = None
            except errors.QueenError as error:
                screen.trouble = str(error)


@contextlib.contextmanager
def _keys(screen: "Screen", pressed: asyncio.Event) -> Generator[None]:
    """Pass each key to the screen when it is pressed, without echo."""
    import termios
    import tty

    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    loop = asyncio.get_running_loop()

    def read() -> None:
        for key in keys_in(os.read(descriptor, 1024)):
            screen.press(key)
        pressed.set()

    tty.setcbreak(descriptor)
    loop.add_reader(descriptor, read)
    try:
        yield
    finally:
        loop.remove_reader(descriptor)
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def keys_in(data: bytes) -> list[str]:
    """Split the bytes of a terminal into keys. Fast key presses arrive together."""
    keys: list[str] = []
    for found in _KEY.finditer(data):
        key = found[0]
        if key in _KEYS:
            keys.append(_KEYS[key])
        elif not key.startswith(b"\x1b"):  # Otherwise an unknown key.
            keys += key.decode(errors="ignore")
    return keys
