"""
An in-memory model of the workflow rules, which derives from states what SQL keeps in counters.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, cast

SETTLED = ("completed", "failed", "skipped", "cancelled")
ENDED = ("completed", "failed", "cancelled")

Kind = Literal["message", "map", "signal", "undo"]


class Refused(Exception):
    """The model rejects this call. `code` is the SQLSTATE."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class Message(NamedTuple):
    """A message of a step: the run of the step, the part, and its content."""

    step: str
    part: int | None
    tries: int
    results: str
    errors: tuple[str, ...]
    item: str


class Outcome(NamedTuple):
    """The outcome of a step."""

    state: str
    result: Any = None
    error: str | None = None


@dataclass(eq=False)
class Part:
    """A part of a map, which has its own message."""

    item: Any
    state: str = "active"
    result: Any = None
    error: str | None = None


@dataclass(eq=False)
class Step:
    """A declared step and its progress."""

    name: str
    kind: Kind = "message"
    on_success: tuple[str, ...] = ()
    on_failure: tuple[str, ...] = ()
    needs_all: bool = True
    items: list[Any] | None = None
    items_of: str | None = None
    signal: str | None = None
    timeout_seconds: float | None = None
    undoes: str | None = None

    state: str = "pending"
    tries: int = 0
    result: Any = None
    has_result: bool = False
    error: str | None = None
    place: int = -1
    has_begun: bool = False
    told: Outcome | None = None
    """A signal that arrived before the step began."""
    parts: list[Part] = field(default_factory=list[Part])

    @property
    def is_settled(self) -> bool:
        return self.state in SETTLED

    @property
    def targets(self) -> set[str]:
        return {*self.on_success, *self.on_failure}

    def leads_to(self, other: Step) -> bool:
        return (self.state == "completed" and other.name in self.on_success) or (
            self.state == "failed" and other.name in self.on_failure
        )


@dataclass(eq=False)
class Run:
    """One run of a workflow. `outbox` has its messages that are not yet in the log."""

    steps: dict[str, Step]
    state: str = "running"
    is_cancelled: bool = False
    is_undone: bool = True
    settled: int = 0
    outbox: list[Message] = field(default_factory=list[Message])
    sent: list[Message] = field(default_factory=list[Message])

    @property
    def has_ended(self) -> bool:
        return self.state in ENDED

    @property
    def forward(self) -> list[Step]:
        return [step for step in self.steps.values() if step.kind != "undo"]

    @property
    def undoing(self) -> list[Step]:
        return [step for step in self.steps.values() if step.kind == "undo"]

    # --- operations

    def start(self) -> None:
        self._go_on([step.name for step in self.forward if not self._sources(step)])

    def advance(self, message: Message, outcome: Outcome) -> str:
        step = self.steps[message.step]
        if step.state != "active" or step.tries != message.tries:
            return "stale"
        if message.part is None:
            self._go_on(settled=[(step.name, outcome)])
        else:
            part = step.parts[message.part]
            if part.state != "active":
                return "stale"
            part.state, part.result, part.error = outcome
            if any(each.state == "active" for each in step.parts):
                return "advanced"
            self._go_on(settled=[(step.name, _reduced(step.parts))])
        return "ended" if self.has_ended else "advanced"

    def tell(self, signal: str, outcome: Outcome) -> int:
        """Returns the number of steps that accepted the signal."""
        if self.state != "running":
            return 0
        waiting = [s for s in self.forward if s.signal == signal and s.state == "waiting"]
        early = [
            s
            for s in self.forward
            if s.signal == signal and s.state == "pending" and s.told is None
        ]
        for step in early:
            step.told = outcome
        self._go_on(settled=[(step.name, outcome) for step in waiting])
        return len(waiting) + len(early)

    def cancel(self, *, is_undone: bool) -> None:
        if self.state not in ("running", "stopping"):
            return
        self.state, self.is_cancelled, self.is_undone = "stopping", True, is_undone
        taken = list(self.outbox)
        self.outbox.clear()
        settled: list[tuple[str, Outcome]] = []
        for message in taken:
            if message.part is not None:
                self.steps[message.step].parts[message.part].state = "cancelled"
        names = {message.step for message in taken if message.part is None}
        for step in self.forward:
            if step.state in ("pending", "waiting") or step.name in names:
                settled.append((step.name, Outcome("cancelled")))
            elif (
                step.state == "active"
                and step.kind == "map"
                and all(part.state != "active" for part in step.parts)
            ):
                settled.append((step.name, _reduced(step.parts)))
        self._go_on(settled=settled)

    def see_to(self) -> None:
        """
        Fail steps whose signal is late, and steps whose message was lost long ago.

        A step that begins because another one fails here has its own timeout.
        """
        for step in [each for each in self.steps.values() if self._is_overdue(each)]:
            if not self._is_overdue(step):
                continue  # Settled by an earlier step.
            if step.state == "waiting":
                self._go_on(settled=[(step.name, Outcome("failed", None, "late"))])
            elif step.kind == "map":
                for part in step.parts:
                    if part.state == "active":
                        part.state, part.error = "failed", "lost"
                self._go_on(settled=[(step.name, _reduced(step.parts))])
            else:
                self._go_on(settled=[(step.name, Outcome("failed", None, "lost"))])

    def _is_overdue(self, step: Step) -> bool:
        if step.state == "waiting":
            return step.timeout_seconds is not None
        return step.state == "active" and all(m.step != step.name for m in self.outbox)

    def retry(self, from_: str | None) -> None:
        if self.state not in ("failed", "cancelled"):
            raise Refused("QN022")
        stuck = [step for step in self.undoing if step.state == "failed"]
        undone = [step for step in self.undoing if step.state == "completed"]
        if stuck and from_ is None:
            for step in self.undoing:
                if step.state in ("failed", "skipped"):
                    step.state = "pending"
            self.state = "compensating"
            self._end()
            return
        if stuck or undone:
            raise Refused("QN022")
        again = self._closure(
            step.name
            for step in self.forward
            if step.name == from_
            or step.state == "cancelled"
            or (step.state == "failed" and not step.on_failure)
            or (step.state == "skipped" and self._is_led_to(step))
        )
        for name in again:
            step = self.steps[name]
            is_fresh = any(source.name in again for source in self._sources(step))
            if step.state == "completed" or is_fresh:
                step.parts = []
            step.parts = [
                part if part.state == "completed" else Part(part.item, "gone")
                for part in step.parts
            ]
            if step.has_begun:
                step.told = None
            step.state, step.has_begun = "pending", False
            step.result, step.has_result, step.error = None, False, None
        for step in self.undoing:
            step.state = "pending"
        self.state, self.is_cancelled, self.is_undone = "running", False, True
        self._go_on(list(again))

    # --- successors

    def _sources(self, step: Step) -> list[Step]:
        return [each for each in self.forward if step.name in each.targets]

    def _closure(self, names: Iterable[str]) -> set[str]:
        found: set[str] = set()
        todo = list(names)
        while todo:
            name = todo.pop()
            if name not in found:
                found.add(name)
                todo += self.steps[name].targets
        return found

    def _go_on(
        self, candidates: Sequence[str] = (), settled: Sequence[tuple[str, Outcome]] = ()
    ) -> None:
        """Settle and start steps in the order of events, and several steps in declaration order."""
        todo = deque(settled)
        following = set(candidates)
        while True:
            for step in self.forward:
                if step.name in following and step.state == "pending":
                    outcome = self._consider(step)
                    if outcome is not None:
                        todo.append((step.name, outcome))
            if not todo:
                break
            following = set[str]()
            name, outcome = todo.popleft()
            step = self.steps[name]
            if step.is_settled:
                continue
            self._settle(step, outcome)
            if self.state != "running" or step.kind == "undo":
                continue
            if step.state == "failed" and not step.on_failure:
                self.state = "stopping"
                for each in self.forward:
                    if each.state in ("pending", "waiting"):
                        each.state = "skipped"
            else:
                following = step.targets
        if all(step.is_settled for step in self.forward):
            self._end()

    def _settle(self, step: Step, outcome: Outcome) -> None:
        step.state, step.result, step.error = outcome
        step.has_result = outcome.state == "completed" or outcome.result is not None
        step.place = self.settled
        self.settled += 1

    def _consider(self, step: Step) -> Outcome | None:
        if self._is_led_to(step):
            return self._begin(step)
        if all(each.is_settled for each in self._sources(step)):
            return Outcome("skipped")
        return None

    def _is_led_to(self, step: Step) -> bool:
        sources = self._sources(step)
        led = [each for each in sources if each.leads_to(step)]
        return len(led) == len(sources) if step.needs_all or not sources else bool(led)

    def _begin(self, step: Step) -> Outcome | None:
        step.tries += 1
        step.has_begun = True
        if step.kind == "signal":
            step.state = "waiting" if step.told is None else "active"
            return step.told
        step.state = "active"
        if step.kind == "map":
            return self._spread(step)
        before = (
            [self.steps[step.undoes]]
            if step.undoes
            else [each for each in self._sources(step) if each.leads_to(step)]
        )
        results = {each.name: each.result for each in before if each.has_result}
        errors = [each.name for each in before if each.state == "failed"]
        self._send(Message(step.name, None, step.tries, repr(results), tuple(errors), ""))
        return None

    def _spread(self, step: Step) -> Outcome | None:
        given: Any = step.items
        if step.items_of is not None:
            given = self.steps[step.items_of].result
        if not isinstance(given, list):
            return Outcome("failed", None, "not a list")
        items = cast("list[Any]", given)
        kept = step.parts
        parts: list[Part] = []
        for index, item in enumerate(items):
            if index < len(kept) and kept[index].state == "completed":
                parts.append(kept[index])
                continue
            parts.append(Part(item))
            self._send(Message(step.name, index, step.tries, "{}", (), repr(item)))
        step.parts = parts
        if all(part.state != "active" for part in parts):
            return _reduced(parts)
        return None

    def _send(self, message: Message) -> None:
        self.outbox.append(message)
        self.sent.append(message)

    def _end(self) -> None:
        if any(step.state == "active" for step in self.undoing):
            return
        is_stuck = any(step.state == "failed" for step in self.undoing)
        if self.state in ("stopping", "compensating") and self.is_undone and not is_stuck:
            done = [
                (self.steps[step.undoes].place, step)
                for step in self.undoing
                if step.state == "pending" and step.undoes and self._is_done(step.undoes)
            ]
            if done:
                self.state = "compensating"
                self._begin(max(done, key=lambda each: each[0])[1])
                return
        for step in self.undoing:
            if step.state == "pending":
                step.state = "skipped"
        if self.state == "running":
            self.state = "completed"
        else:
            self.state = "cancelled" if self.is_cancelled and not is_stuck else "failed"

    def _is_done(self, name: str) -> bool:
        step = self.steps[name]
        return step.state == "completed" or (
            step.kind == "map" and step.state in ("failed", "cancelled") and step.has_result
        )


def _reduced(parts: Sequence[Part]) -> Outcome:
    states = [part.state for part in parts]
    results = [part.result for part in parts] if "completed" in states else None
    if "cancelled" in states:
        return Outcome("cancelled", results)
    if "failed" in states:
        first = next(part for part in parts if part.state == "failed")
        return Outcome("failed", results, first.error)
    return Outcome("completed", [part.result for part in parts])
