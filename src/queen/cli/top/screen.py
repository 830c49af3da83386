"""The screen of `queen top`: its content and its keys."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from queen.cli.support.output import safe
from queen.cli.top.sampler import Detail, QueueRow, Snapshot

if TYPE_CHECKING:
    from rich.console import Group, RenderableType
    from rich.table import Table

SORTS: Final = {
    "lag": "lag",
    "in": "pushed_per_second",
    "out": "acked_per_second",
    "oldest": "oldest_age_seconds",
    "held": "held",
    "retry": "waiting",
    "dead": "dead_letters",
    "name": "name",
}
_HELP: Final = (
    "q      leave",
    "p      pause or resume",
    "s S    sort by the next or previous column",
    "r      reverse the order",
    "/      show only names with this text; Enter keeps it, Esc drops it",
    "j k    down, up (arrows too)",
    "Enter  open a queue: groups, deliveries, partitions; Esc closes it",
    "?      this help",
)
_HEAD_LINES: Final = 6


@dataclass(kw_only=True)
class Screen:
    """The user's selection: sort order, filter, cursor and open queue."""

    sort: str = "lag"
    is_turned: bool = False
    filter: str = ""
    is_typing: bool = False
    selected: int = 0
    is_paused: bool = False
    is_help: bool = False
    opened: str | None = None
    is_over: bool = False
    is_live: bool = True
    """There is a keyboard."""
    trouble: str = ""
    """Why the data is stale. Empty while it is current."""
    names: list[str] = field(default_factory=list[str])
    """Names of the queues in display order."""

    def press(self, key: str) -> None:
        """Handle a key press."""
        if self.is_typing:
            self._type(key)
        elif key in ("q", "\x03"):
            self.is_over = True
        elif self.is_help or key == "?":
            self.is_help = not self.is_help
        elif key in ("esc", "b", "\x7f"):
            self.opened, self.filter = None, self.filter if self.opened else ""
        elif key in ("p", " "):
            self.is_paused = not self.is_paused
        elif self.opened is None:
            self._press_in_list(key)

    def _press_in_list(self, key: str) -> None:
        sorts = list(SORTS)
        if key in ("s", "S"):
            step = 1 if key == "s" else -1
            self.sort = sorts[(sorts.index(self.sort) + step) % len(sorts)]
            self.is_turned = False
        elif key == "r":
            self.is_turned = not self.is_turned
        elif key == "/":
            self.is_typing = True
        elif key in ("j", "down"):
            self.selected += 1
        elif key in ("k", "up"):
            self.selected -= 1
        elif key in ("\r", "\n") and self.names:
            self.opened = self.names[self.selected]
        self.selected = max(0, min(self.selected, len(self.names) - 1))

    def _type(self, key: str) -> None:
        if key in ("\r", "\n"):
            self.is_typing = False
        elif key == "esc":
            self.is_typing, self.filter = False, ""
        elif key == "\x7f":
            self.filter = self.filter[:-1]
        elif len(key) == 1 and key.isprintable():
            self.filter += key
        self.selected = 0

    def rows(self, snapshot: Snapshot) -> list[QueueRow]:
        """Return the visible queues in display order. Unknown values are last."""
        text = self.filter.lower()
        rows = [each for each in snapshot.queues if text in each.name.lower()]
        attribute = SORTS[self.sort]
        rows.sort(key=lambda each: each.name, reverse=self.sort == "name" and self.is_turned)
        if self.sort != "name":
            rows.sort(
                key=lambda each: _known(getattr(each, attribute), self.is_turned),
                reverse=not self.is_turned,
            )
        self.names = [each.name for each in rows]
        self.selected = max(0, min(self.selected, len(rows) - 1))
        return rows

    def render(self, snapshot: Snapshot, detail: Detail | None, *, height: int) -> "Group":
        from rich.console import Group

        parts: list[RenderableType] = [*_head(snapshot, self)]
        if self.is_help:
            parts += _HELP
        elif self.opened is not None:
            parts += _detail(self.opened, detail)
        else:
            parts.append(self._table(snapshot, height - _HEAD_LINES))
        return Group(*parts)

    def _table(self, snapshot: Snapshot, room: int) -> "Table":
        from rich.text import Text

        rows = self.rows(snapshot)
        first = max(0, min(self.selected - room // 2, len(rows) - room))
        table = _columns(
            ["QUEUE", "LAG", "IN/s", "OUT/s", "OLDEST", "HELD", "RETRY", "DEAD"],
            marked={"in": "IN/s", "out": "OUT/s", "name": "QUEUE"}.get(
                self.sort, self.sort.upper()
            ),
        )
        for at, row in enumerate(rows[first : first + max(1, room)], first):
            cells = [
                count(row.lag),
                rate(row.pushed_per_second),
                rate(row.acked_per_second),
                age(row.oldest_age_seconds),
                count(row.held),
                count(row.waiting),
                count(row.dead_letters),
            ]
            name = safe(row.name) + (" (paused)" if row.paused else "")
            style = "reverse" if at == self.selected else ""
            table.add_row(Text(name, overflow="ellipsis", no_wrap=True), *cells, style=style)
        if not rows:
            table.add_row("no queue matches the filter" if self.filter else "no queues yet")
        return table


def _known(value: float | None, is_turned: bool) -> tuple[bool, float]:
    return (value is not None) != is_turned, value or 0


def _head(snapshot: Snapshot, screen: Screen) -> "list[RenderableType]":
    from rich.text import Text

    queues, servers = snapshot.queues, snapshot.servers
    state = "PAUSED" if screen.is_paused else screen.trouble and "STALE"
    title = Text(f"queen top  {snapshot.server}  {snapshot.at:%H:%M:%S} UTC  ", "bold")
    if screen.is_live:
        title.append(state or "live", "bold red" if state else "green")
    first = (
        f"queues {len(queues)}{'' if snapshot.is_complete else '+'}"
        f"  lag {count(_sum(each.lag for each in queues))}"
        f"  in {rate(_sum(each.pushed_per_second for each in queues))}/s"
        f"  out {rate(_sum(each.acked_per_second for each in queues))}/s"
        f"  held {count(_sum(each.held for each in queues))}"
        f"  dead {count(_sum(each.dead_letters for each in queues))}"
    )
    second = (
        f"processes {count(servers.processes)}  waiting pops {count(servers.waiters)}"
        f"  database {size(servers.database_bytes)}  dead rows {count(servers.dead_rows)}"
        f"  oldest tx {age(servers.oldest_transaction_seconds)}"
    )
    lines: list[RenderableType] = [title, first, second]
    if screen.is_live:
        lines.append(Text(_keys(screen), "dim"))
    if screen.trouble:
        lines.append(Text(screen.trouble, "red", no_wrap=True, overflow="ellipsis"))
    return [*lines, ""]


def _keys(screen: Screen) -> str:
    if screen.is_typing:
        return f"/{screen.filter}_   Enter keeps it, Esc drops it"
    if screen.opened is not None:
        return "Esc back  p pause  q quit"
    shown = f"  filter: {screen.filter}" if screen.filter else ""
    order = "up" if screen.is_turned else "down"
    return f"q quit  p pause  s sort: {screen.sort} {order}  / filter  Enter open  ? help{shown}"


def _detail(name: str, detail: Detail | None) -> "list[RenderableType]":
    from rich.text import Text

    parts: list[RenderableType] = [Text(safe(name), "bold")]
    if detail is None or detail.name != name:
        return [*parts, "reading…"]
    groups = _columns(["GROUP", "LAG", "OLDEST", "HELD", "RETRY"])
    for each in detail.groups:
        row = (count(each.lag), age(each.lag_seconds), count(each.held), count(each.waiting))
        groups.add_row(safe(each.consumer_group), *row)
    out = _columns(["DELIVERY OF", "GROUP", "STATE", "TRY", "MESSAGES"], left=3)
    for each in detail.deliveries[:8]:
        row = (each.state, str(each.attempt), count(each.messages))
        out.add_row(safe(each.partition), safe(each.consumer_group), *row)
    ready = _columns(["PARTITION WITH MESSAGES", "PENDING", "NEXT"])
    for each in detail.partitions[:8]:
        ready.add_row(safe(each.name), count(each.pending), count(each.next_offset))
    for table, nothing in (
        (groups, "no consumer group"),
        (out, "no leases"),
        (ready, "no partition has messages to deliver"),
    ):
        parts += [table if table.row_count else nothing, ""]
    return parts


def _columns(names: list[str], *, left: int = 1, marked: str = "") -> "Table":
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, expand=True, pad_edge=False, padding=(0, 1), header_style="")
    for at, name in enumerate(names):
        style = "bold underline" if name == marked else "bold"
        is_left = at < left
        table.add_column(
            Text(name, style),
            justify="left" if is_left else "right",
            ratio=1 if at == 0 else None,
            min_width=0 if at == 0 else 6,
            no_wrap=True,
            overflow="ellipsis",
        )
    return table


def _sum(values: Any) -> float | None:  # noqa: ANN401 - of numbers that may be unknown
    """Return the sum, or None if a value is unknown."""
    total = 0.0
    for each in values:
        if each is None:
            return None
        total += each
    return total


def count(value: float | None) -> str:
    """Format 1234567 as 1.2M, and an unknown value as a dash."""
    if value is None:
        return "-"
    for unit in ("", "k", "M", "G"):
        if value < 10_000 or unit == "G":
            return f"{value:.0f}{unit}" if not unit or value >= 100 else f"{value:.1f}{unit}"
        value /= 1000
    return "-"


def rate(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.1f}" if value < 100 else count(value)


def age(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    for unit, length in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f}{unit}"
    return f"{seconds:.0f}s"


def size(value: float | None) -> str:
    if value is None:
        return "-"
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.0f}{unit}"
        value /= 1000
    return f"{value:.1f}TB"
