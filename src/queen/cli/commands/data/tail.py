"""`queen tail`: follow a queue without consuming its messages."""

import asyncio
import json
import re
import sys
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, Final, cast

import typer

from queen import errors
from queen.cli.support.client import Output, Reveal, Server, run
from queen.cli.support.output import Format, cell, instant, json_or_text, plain_of, safe, say

if TYPE_CHECKING:
    from queen import Queen

_PAGE: Final = 500
_MOST: Final = 10_000
"""Messages to read per poll. Older ones are skipped, with a note."""
_OVERLAP: Final = timedelta(seconds=5)
"""A push becomes visible at its commit, which is later than its timestamp."""
_PARTITIONS: Final = 100_000
"""Maximum partitions to track. The least recently seen one is dropped first."""
_FIELD: Final = re.compile(r"\{([A-Za-z_][\w.-]*)\}")
_SEALED: Final = ("data", "payload", "headers")
_DEFAULT: Final = "{createdAt} {partition} {offset} {data}"

Where = Callable[[Mapping[str, Any]], bool]


def tail(
    queue: Annotated[str, typer.Argument(help="Name of the queue.")],
    partition: Annotated[
        str | None, typer.Option("-p", "--partition", help="Only this partition.")
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(help="payload.x=1, headers.a=b, partition!=c. Repeat it to combine filters."),
    ] = None,
    since: Annotated[
        str | None, typer.Option("--from", help="Start time: ISO time, or -10m.")
    ] = None,
    count: Annotated[
        int | None, typer.Option("-n", min=0, help="Older messages to show. Default: 10.")
    ] = None,
    follow: Annotated[bool, typer.Option(help="Wait for new messages.")] = True,
    format_: Annotated[
        str | None,
        typer.Option("--format", help=f"A line a message: '{_DEFAULT}'."),
    ] = None,
    interval: Annotated[str, typer.Option(help="Time between polls: 500ms, 2s.")] = "500ms",
    reveal: Reveal = False,
    server: Server = None,
    output: Output = Format.TABLE,
) -> None:
    """
    Follow a queue without consuming its messages. Press Ctrl-C to stop.

    If messages arrive faster than they can be read, some are skipped with a note. With --from, -n
    has no default.

    Example: queen tail orders --where payload.total=12 --from=-10m -n 50 --format '{offset} {data}'
    """
    from queen.client.durations import seconds_of

    if output not in (Format.TABLE, Format.JSONL):
        raise typer.BadParameter("table or jsonl", param_hint="-o")
    seconds = seconds_of(interval)
    tests = [_test(each) for each in where or []]
    line = format_ or _DEFAULT
    _check(line)

    def show(message: Mapping[str, Any]) -> None:
        is_json = output is Format.JSONL and format_ is None
        print(json.dumps(message, ensure_ascii=False) if is_json else _line(line, message))

    async def work(queen: "Queen") -> None:
        reader = Reader(queen, queue, partition, is_revealed=reveal)
        begin = 10 if count is None and since is None else count
        start = instant(since) if since else None
        found = await reader.first(start, begin, tests, is_patient=follow)
        _print(reader, found, show)
        while follow:
            await asyncio.sleep(seconds)
            found = [each for each in await reader.next() if all(test(each) for test in tests)]
            _print(reader, found, show)

    run(server, work)


def _print(
    reader: "Reader",
    messages: Sequence[Mapping[str, Any]],
    show: Callable[[Mapping[str, Any]], None],
) -> None:
    for message in messages:
        show(message)
    sys.stdout.flush()
    if reader.skipped:
        say(f"-- skipped {reader.skipped}: messages arrive faster than they can be read --")


class Reader:
    """Polls a queue newest first, and returns new messages oldest first."""

    def __init__(
        self,
        queen: "Queen",
        queue: str,
        partition: str | None = None,
        *,
        most: int = _MOST,
        is_revealed: bool = False,
    ) -> None:
        self._queen = queen
        self._queue = queue
        self._partition = partition
        self._most = most
        self._is_revealed = is_revealed
        self._places: OrderedDict[str, int] = OrderedDict()
        self._newest: datetime | None = None
        self.skipped = ""
        """Description of the messages that the last poll skipped. Empty if it read everything."""

    async def first(
        self,
        since: datetime | None,
        count: int | None,
        tests: Sequence[Where],
        *,
        is_patient: bool = True,
    ) -> list[dict[str, Any]]:
        """Return the newest ``count`` matches since then. If patient, the queue may be missing."""
        self.skipped = ""
        found: list[dict[str, Any]] = []
        read = 0
        try:
            async for message in self._messages(since):
                read += 1
                self._remember(message)
                if len(found) != count and all(test(message) for test in tests):
                    found.append(message)
                # Read past the last match, so that the next poll doesn't return these as new.
                if len(found) == count and self._is_passed(message):
                    break
                if read >= self._most:
                    if len(found) != count:
                        self.skipped = f"messages older than {message['createdAt']}"
                    break
        except errors.QueueNotFound:
            if not is_patient:
                raise
            say(f"queue {self._queue} does not exist yet. Waiting for its first message")
        return found[::-1]

    async def next(self) -> list[dict[str, Any]]:
        """Return messages pushed since the last poll."""
        self.skipped = ""
        before = self._newest
        known = dict(self._places)
        found: list[dict[str, Any]] = []
        read = 0
        try:
            async for message in self._messages(None if before is None else before - _OVERLAP):
                read += 1
                if message["offset"] > known.get(message["partitionId"], -1):
                    found.append(message)
                if read >= self._most:
                    is_short = before is None or _time(message) > before
                    self.skipped = _gaps(known, found, is_short)
                    break
        except errors.QueueNotFound:
            return []
        for message in found:
            self._remember(message)
        return found[::-1]

    async def _messages(self, since: datetime | None) -> AsyncIterator[dict[str, Any]]:
        async for each in self._queen.admin.messages(
            self._queue,
            partition=self._partition,
            from_=since,
            limit=min(_PAGE, self._most),
            reveal=self._is_revealed or None,
        ):
            yield plain_of(each)

    def _is_passed(self, message: dict[str, Any]) -> bool:
        return self._newest is None or _time(message) < self._newest - _OVERLAP

    def _remember(self, message: dict[str, Any]) -> None:
        place = message["partitionId"]
        self._places[place] = max(self._places.get(place, -1), message["offset"])
        self._places.move_to_end(place)
        if len(self._places) > _PARTITIONS:
            self._places.popitem(last=False)
        at_ = _time(message)
        self._newest = at_ if self._newest is None else max(self._newest, at_)


def _time(message: dict[str, Any]) -> datetime:
    return datetime.fromisoformat(message["createdAt"])


def _gaps(known: dict[str, int], found: list[dict[str, Any]], is_short: bool) -> str:
    """Count the offsets between the last poll and this one."""
    oldest = {message["partitionId"]: message["offset"] for message in found}
    missed = sum(first - known[place] - 1 for place, first in oldest.items() if place in known)
    if missed:
        return f"at least {missed} messages"
    # The start of a partition that was not seen before is unknown.
    return "an unknown number of messages" if is_short else ""


def _test(text: str) -> Where:
    """Parse ``payload.x=1``. The value is JSON or a string."""
    path, sign, literal = text.partition("=")
    if not sign or not path.strip("!"):
        raise errors.BadRequest(f"{text!r} is not a filter: write payload.x=1 or payload.x!=1")
    is_equal = not path.endswith("!")
    path = path.rstrip("!")
    wanted = json_or_text(literal)

    def test(message: Mapping[str, Any]) -> bool:
        if message["masked"] and path.partition(".")[0] in _SEALED:
            raise errors.Masked(f"message {message['id']} is masked: use --reveal to filter by it")
        value = at(message, path)
        # 1 must not match true, but "1" matches 1.
        same = value == wanted and isinstance(value, bool) == isinstance(wanted, bool)
        return (same or (isinstance(value, str) and value == literal)) == is_equal

    return test


def at(message: Mapping[str, Any], path: str) -> Any:  # noqa: ANN401 - of JSON
    """Return the value at a dotted path, or None."""
    first, *rest = path.split(".")
    value: Any = message.get("data" if first == "payload" else first)
    for step in rest:
        if isinstance(value, dict):
            value = cast("dict[str, Any]", value).get(step)
        elif (
            isinstance(value, list)
            and step.isdecimal()
            and int(step) < len(cast("list[Any]", value))
        ):
            value = cast("list[Any]", value)[int(step)]
        else:
            return None
    return value


def _check(format_: str) -> None:
    """Raise BadRequest for an unknown field."""
    from queen.wire.resources import MessageInfo

    known = ["payload", *MessageInfo.__struct_encode_fields__]
    for path in _FIELD.findall(format_):
        if path.partition(".")[0] not in known:
            raise errors.BadRequest(f"{{{path}}}: a message has {', '.join(known)}")


def _line(format_: str, message: Mapping[str, Any]) -> str:
    def field(path: str) -> str:
        if message["masked"] and path.partition(".")[0] in _SEALED:
            return "masked"
        return cell(at(message, path))

    return safe(_FIELD.sub(lambda found: field(found[1]), format_))
