"""
Run many pipelines in one process.

The main thread polls, starts runs in threads, and waits for their ends. A pipeline that fails is
retried with growing pauses, and the others continue.
"""

# pyright: basic
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple, Protocol, Self

import psycopg

from queen import errors
from queen.pipelines.fleet.declaration import Declaration, Entry
from queen.pipelines.fleet.member import Member, Stopped
from queen.pipelines.fleet.planner import Planner
from queen.pipelines.kinds import name_of
from queen.pipelines.lineage import Lineage
from queen.pipelines.report import counted
from queen.pipelines.report_writer import ReportWriter
from queen.pipelines.runs import report_of

_STOP_SECONDS: Final = 30.0
"""How long runs may take to reach the end of their step."""
_DONE: Final = {
    "archive": "archived",
    "compact": "compacted",
    "recall": "recalled",
    "replay": "replayed",
    "rollup": "rolled up",
    "window": "aggregated",
    "transform": "transformed",
}
_UNAVAILABLE: Final = (errors.QueenError, psycopg.Error)


class Runner(Protocol):
    """An engine that runs many pipelines at once."""

    ui_url: str | None

    def engine(self, *, has_query: bool) -> Any:  # noqa: ANN401 - a session or the local engine
        """Return the engine of a run, in the thread of the run."""
        ...

    def stop(self) -> None:
        """Stop streams and running tasks."""
        ...


class _Ended(NamedTuple):
    member: Member
    result: Any
    error: BaseException | None


class Fleet:
    """
    The pipelines of a file.

    Usage::

        with Fleet(declaration, runner, print_line=print, lineage=Lineage(os.environ)) as fleet:
            fleet.run()
        fleet.summary()
    """

    def __init__(
        self,
        declaration: Declaration,
        runner: Runner,
        *,
        print_line: Callable[[str], object],
        lineage: Lineage,
        trace: Callable[[BaseException], object] | None = None,
    ) -> None:
        self._settings = declaration.settings
        self._entries = declaration.entries
        self._runner = runner
        self._print_line = print_line
        self._lineage = lineage
        self._trace = trace
        self.members: dict[str, Member] = {}
        self._planners: dict[str, Planner] = {}
        self._writers: dict[str, ReportWriter] = {}
        self._ready: deque[Member] = deque()
        self._running: dict[Member, threading.Thread] = {}
        self._ended: deque[_Ended] = deque()
        self._changed = threading.Condition()
        self._stopping = threading.Event()
        self._search_at = 0.0
        self._has_started = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def run(self) -> None:
        """Run until every pipeline has ended, or forever."""
        for entry in self._entries:
            if entry.queues is None:
                self._add(entry, entry.config_of())
        while True:
            if time.monotonic() >= self._search_at:
                self._search()
            self._poll()
            self._start()
            self._has_started = True
            if self._is_over():
                return
            with self._changed:
                self._changed.wait_for(lambda: bool(self._ended), self._pause())
            self._settle()

    def summary(self) -> str:
        """Return one sentence about all pipelines."""
        members = self.members.values()
        parts: list[str] = []
        for kind, done in _DONE.items():
            good = [each for each in members if each.entry.job.kind == kind and not each.error]
            if good:
                lags = [each.report.lag.messages for each in good]
                known = [each for each in lags if each is not None]
                lag = f", lag {sum(known):,}" if known else ""
                parts.append(f"{len(good)} {done}{lag}")
        if failed := len(self.failed):
            parts.append(f"{failed} failed")
        return f"{counted(len(members), 'pipeline')}: {'; '.join(parts) or 'none has run'}"

    @property
    def failed(self) -> list[Member]:
        """Pipelines whose last run failed."""
        return [each for each in self.members.values() if each.error is not None]

    def _add(self, entry: Entry, config: Any) -> None:  # noqa: ANN401 - its Config
        name = name_of(entry.job, config)
        if name in self.members:
            return  # A queue with its own entry is left out of patterns.
        if (writer := self._writers.get(config.dsn)) is None:
            writer = self._writers[config.dsn] = ReportWriter(config.dsn)
        report = report_of(entry.job, config, name, ui_url=self._runner.ui_url, writer=writer)
        self.members[name] = Member(entry, config, name, report)
        if self._has_started:
            self._print_line(f"{name}: added")

    def _search(self) -> None:
        """Add pipelines of new queues that match a pattern, and remove those of deleted ones."""
        self._search_at = time.monotonic() + self._settings.poll_seconds
        entries = [each for each in self._entries if each.queues is not None]
        by_dsn: dict[str, list[Entry]] = {}
        for entry in entries:
            by_dsn.setdefault(entry.config_of("queue").dsn, []).append(entry)
        for dsn, some in by_dsn.items():
            try:
                found = self._planner(dsn).match([each.queues or "" for each in some])
            except _UNAVAILABLE as error:
                self._print_line(f"the search for queues failed: {error}")
                continue
            for entry in some:
                matches = found[entry.queues or ""]
                is_archive = entry.job.kind == "archive"
                names = [
                    name
                    for each in matches
                    for name in ([each.queue] if is_archive else each.archives)
                ]
                for name in names:
                    self._add(entry, entry.config_of(name))
                self._remove_others(entry, names)

    def _remove_others(self, entry: Entry, names: list[str]) -> None:
        """Remove the pipelines of an entry whose queues no longer exist."""
        kept = {name_of(entry.job, entry.config_of(each)) for each in names}
        for member in [*self.members.values()]:
            if member.entry is entry and member.name not in kept and not member.is_running:
                member.report.close()
                del self.members[member.name]
                self._ready = deque(each for each in self._ready if each is not member)
                self._print_line(f"{member.name}: removed, because its queue was deleted")

    def _poll(self) -> None:
        """Make pipelines ready whose time has come, and archives that have messages."""
        now = time.monotonic()
        polled: dict[str, list[Member]] = {}
        for member in [*self._waiting()]:
            if member.is_polled and not member.is_first:
                polled.setdefault(member.config.dsn, []).append(member)
            elif member.next_at <= now:
                self._ready.append(member)
        for dsn, waiting in polled.items():
            if all(member.next_at > now for member in waiting):
                continue
            # Those whose time comes soon are polled in the same statement, and so from now on.
            soon = (
                each for each in waiting if each.next_at <= now + each.config.interval_seconds / 2
            )
            members = [*soon]
            try:
                found = self._planner(dsn).poll([each.watched for each in members])
            except _UNAVAILABLE as error:
                for member in members:
                    self._fail(member, error)
                continue
            for member in members:
                state = found[member.archive]
                if state.is_due:
                    self._ready.append(member)
                    continue
                member.next_at = now + member.config.interval_seconds
                if state.has_lag:
                    member.report.refresh()

    def _waiting(self) -> Iterator[Member]:
        """Pipelines that wait for their time."""
        ready = set(self._ready)
        for member in self.members.values():
            if not (member.is_running or member.has_ended or member in ready):
                yield member

    def _start(self) -> None:
        """Start ready pipelines, as many as may run at once, and every stream."""
        later: deque[Member] = deque()
        free = self._settings.concurrency - sum(not each.is_stream for each in self._running)
        for member in self._ready:
            if not member.is_stream and free <= 0:
                later.append(member)
                continue
            free -= not member.is_stream
            member.begin()
            thread = threading.Thread(
                target=self._work, args=(member,), name=f"queen-{member.name}", daemon=True
            )
            self._running[member] = thread
            thread.start()
        self._ready = later

    def _work(self, member: Member) -> None:
        """Run a pipeline, in its thread."""
        try:
            job, config = member.entry.job, member.run_config
            engine = self._runner.engine(has_query=member.has_query)
            with self._lineage.run(job, config, member.name):
                result = job.run(engine, config, report=member.progress(self._stopping))
            ended = _Ended(member, result, None)
        except BaseException as error:
            ended = _Ended(member, None, error)
        with self._changed:
            self._ended.append(ended)
            self._changed.notify_all()

    def _settle(self) -> None:
        """Note the ends of runs."""
        while self._ended:
            member, result, error = self._ended.popleft()
            del self._running[member]
            if error is None:
                is_news = member.is_first or bool(getattr(result, "rows", 0))
                member.succeed(result)
                if is_news and result is not None:
                    self._print_line(f"{member.name}: {result}")
            elif isinstance(error, Stopped) or (self._stopping.is_set() and member.has_query):
                member.is_running = False
            else:
                self._fail(member, error)

    def _fail(self, member: Member, error: BaseException) -> None:
        if self._trace is not None:
            self._trace(error)
        self._print_line(member.fail(error, self._settings.retries))

    def _pause(self) -> float | None:
        """Return the seconds until the next poll or run. None waits for the end of a run."""
        times = [each.next_at for each in self._waiting()]
        if self._searches():
            times.append(self._search_at)
        return max(0.0, min(times) - time.monotonic()) if times else None

    def _searches(self) -> bool:
        """Whether new queues are picked up. A fleet that ends by itself takes the first ones."""
        return any(each.is_endless for each in self._entries if each.queues is not None)

    def _is_over(self) -> bool:
        is_active = any(not each.has_ended for each in self.members.values())
        return not is_active and not self._searches()

    def _planner(self, dsn: str) -> Planner:
        if (planner := self._planners.get(dsn)) is None:
            planner = self._planners[dsn] = Planner(dsn)
        return planner

    def _stop(self) -> None:
        """End all runs after their current step, and write the last reports."""
        self._stopping.set()
        self._runner.stop()
        until = time.monotonic() + _STOP_SECONDS
        for thread in [*self._running.values()]:
            thread.join(max(0.0, until - time.monotonic()))
        self._settle()
        for member in self.members.values():
            member.report.close(member.error)
        for writer in self._writers.values():
            writer.close()
        for planner in self._planners.values():
            planner.__exit__()
