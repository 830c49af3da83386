"""`queen export` and `queen import`: messages of a queue as JSON lines."""

import sys
import tempfile
import time
from array import array
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import msgspec
import typer

from queen import errors
from queen.cli.support import exit_codes
from queen.cli.support.client import DryRun, Reveal, Server, run
from queen.cli.support.output import instant, say

if TYPE_CHECKING:
    from queen import Queen

_BATCH_ITEMS: Final = 1_000
_BATCH_BYTES: Final = 4 * 2**20


class Line(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A message in a file. The payload is copied byte for byte."""

    partition: str = "Default"
    data: msgspec.Raw
    transaction_id: str | None = None
    headers: dict[str, str] | None = None
    trace_id: str | None = None
    priority: int = 0
    created_at: str | None = None
    offset: int | None = None
    status: str | None = None
    available_at: datetime | None = None
    expires_at: datetime | None = None
    masked: bool = False
    """Set in files of other tools: such a line has no payload to push."""

    def ttl_seconds(self, now: datetime) -> float | None:
        """Return the remaining time to live, from when it is due. 0 or less if it has expired."""
        if self.expires_at is None:
            return None
        begins = now if self.available_at is None else max(now, self.available_at)
        return (self.expires_at - begins).total_seconds()


class Kept(NamedTuple):
    """Where lines end in a file: scheduled messages first, then the rest, newest first."""

    ends: "array[int]"
    scheduled: int

    def order(self) -> Iterator[int]:
        """Yield oldest first, then scheduled messages by their time."""
        yield from range(len(self.ends) - 1, self.scheduled - 1, -1)
        yield from range(self.scheduled)


def export(
    queue: Annotated[str, typer.Argument(help="Name of the queue.")],
    file: Annotated[str, typer.Argument(help="Output file. - is stdout.")] = "-",
    partition: Annotated[
        str | None, typer.Option("-p", "--partition", help="Only this partition.")
    ] = None,
    status: Annotated[
        str | None,
        typer.Option(
            help="pending, processing, failed, completed, dead_letter or scheduled. Default: all."
        ),
    ] = None,
    since: Annotated[str | None, typer.Option("--from", help="Since: ISO time, or -15m.")] = None,
    until: Annotated[str | None, typer.Option("--to", help="Before: ISO time, or -15m.")] = None,
    reveal: Reveal = False,
    server: Server = None,
) -> None:
    """
    Write the messages of a queue as JSON lines, oldest first, without consuming them.

    Messages of an encrypted queue need --reveal, and are decrypted in the file.

    Messages pushed meanwhile are not exported. Scheduled messages come last, sorted by their time,
    which --from and --to filter. If one becomes due meanwhile, it is in the file twice, and import
    stores it once.

    Example: queen export orders orders.jsonl --from=-1d
    """
    filters = {
        "partition": partition,
        "status": status,
        "from_": instant(since) if since else None,
        "to": instant(until) if until else None,
        "reveal": reveal or None,
        "limit": 1000,
    }
    # The server returns the newest first, so a file on disk holds them until they are reversed.
    with tempfile.TemporaryFile() as kept:
        ends, scheduled = found = run(server, lambda queen: _keep(queen, queue, filters, kept))
        with _opened(file) as out:
            for at in found.order():
                kept.seek(ends[at - 1] if at else 0)
                out.write(kept.read(ends[at] - kept.tell()))
    say(f"{len(ends)} messages" + (f", {scheduled} of them scheduled" if scheduled else ""))


async def _keep(queen: "Queen", queue: str, filters: dict[str, Any], kept: IO[bytes]) -> Kept:
    wanted = filters["status"]
    ends = array("Q")
    scheduled = 0
    with _counting("messages read") as counted:
        # Scheduled ones first: they can become due meanwhile, but never the reverse.
        for status in ("scheduled", None) if wanted is None else (wanted,):
            async for each in queen.admin.messages(queue, **{**filters, "status": status}):
                kept.write(msgspec.json.encode(_line(each)) + b"\n")
                ends.append(kept.tell())
                scheduled += each.status == "scheduled"
                counted(len(ends))
    return Kept(ends, scheduled)


def _line(message: Any) -> Line:  # noqa: ANN401 - MessageInfo, loaded with the client
    if message.masked:
        raise errors.Masked(f"message {message.transaction_id} is masked: export it with --reveal")
    if message.data_error is not None:
        of_error = errors.of_code(message.data_error) or errors.QueenError
        raise of_error(f"message {message.transaction_id} cannot be read: {message.data_error}")
    return Line(
        partition=message.partition,
        data=message.data,
        transaction_id=message.transaction_id or None,
        headers=message.headers or None,
        trace_id=message.trace_id,
        priority=message.priority,
        created_at=message.created_at and message.created_at.isoformat(),
        offset=message.offset,
        status=message.status,
        available_at=message.available_at,
        expires_at=message.expires_at,
    )


def import_(
    queue: Annotated[str, typer.Argument(help="Name of the queue.")],
    file: Annotated[str, typer.Argument(help="File of `queen export`. - is stdin.")] = "-",
    new_ids: Annotated[
        bool, typer.Option("--new-ids", help="Ignore transactionIds, and so deduplication.")
    ] = False,
    dry_run: DryRun = False,
    server: Server = None,
) -> None:
    """
    Push messages from a `queen export` file, in order. Messages that exist are not duplicated.

    Times don't change: scheduled messages keep their time, and expired messages are skipped.

    Example: queen import orders orders.jsonl
    """
    if dry_run:
        count = sum(1 for _ in _lines(file))
        say(f"would push {count} messages to {queue}")
        return

    async def work(queen: "Queen") -> tuple[int, int, int]:
        stored = known = expired = 0
        with _counting("messages pushed") as counted:
            for batch in _batches(_lines(file)):
                now = datetime.now(UTC)
                items = [_item(queue, each, now, new_ids) for each in batch]
                alive = [each for each in items if each is not None]
                pushed = await queen.push(alive) if alive else []
                known += sum(each.status == "duplicate" for each in pushed)
                stored += sum(each.status != "duplicate" for each in pushed)
                expired += len(items) - len(alive)
                counted(stored + known + expired)
        return stored, known, expired

    stored, known, expired = run(server, work)
    lost = f", {expired} had expired" if expired else ""
    say(f"{stored} messages stored, {known} existed already{lost}")


def _item(queue: str, line: Line, now: datetime, new_ids: bool) -> Any:  # noqa: ANN401 - PushItem
    """Return the item to push, or None if it has expired."""
    from queen.wire.messages import PushItem

    ttl_seconds = line.ttl_seconds(now)
    if ttl_seconds is not None and ttl_seconds <= 0:
        return None
    return PushItem(
        queue=queue,
        partition=line.partition,
        payload=line.data,
        transaction_id=None if new_ids else line.transaction_id,
        trace_id=line.trace_id,
        headers=line.headers,
        available_at=line.available_at,
        ttl_seconds=ttl_seconds,
        priority=line.priority or None,
    )


def _lines(file: str) -> Iterator[Line]:
    decode = msgspec.json.Decoder(Line).decode
    number = 0
    try:
        with sys.stdin.buffer if file == "-" else Path(file).expanduser().open("rb") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    decoded = decode(line)
                    if decoded.masked:
                        raise exit_codes.FileTrouble(f"line {number}: the payload is masked")
                    yield decoded
    except OSError as error:
        raise exit_codes.FileTrouble(f"cannot read {file}: {error.strerror}") from error
    except msgspec.DecodeError as error:
        raise exit_codes.FileTrouble(f"line {number}: {error}") from error


def _batches(lines: Iterator[Line]) -> Iterator[list[Line]]:
    batch: list[Line] = []
    size = 0
    for line in lines:
        batch.append(line)
        size += len(line.data)
        if len(batch) >= _BATCH_ITEMS or size >= _BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


@contextmanager
def _opened(file: str) -> Generator[IO[bytes]]:
    """Open stdout, or a file that appears only when it is complete."""
    if file == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    path = Path(file).expanduser()
    # Write to a pipe or a device, never replace it.
    is_replaced = path.is_file() or not path.exists()
    draft = path.with_name(path.name + ".part") if is_replaced else path
    try:
        with draft.open("wb") as out:
            yield out
        if is_replaced:
            draft.replace(path)
    except OSError as error:
        raise exit_codes.FileTrouble(f"cannot write {path}: {error.strerror}") from error
    finally:
        if is_replaced:
            draft.unlink(missing_ok=True)


@contextmanager
def _counting(what: str) -> Generator[Callable[[int], None]]:
    """Show the count and the rate, on a terminal only."""
    if not sys.stderr.isatty():
        yield lambda count: None
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    text = TextColumn("{task.completed:,} {task.description}, {task.fields[rate]:,.0f}/s")
    began = time.monotonic()
    with Progress(
        SpinnerColumn(), text, TimeElapsedColumn(), console=Console(stderr=True)
    ) as progress:
        task = progress.add_task(what, total=None, rate=0.0)

        def counted(count: int) -> None:
            progress.update(task, completed=count, rate=count / (time.monotonic() - began + 1e-9))

        yield counted
