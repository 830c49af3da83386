"""Base class of the checks, which collects violations."""

from dataclasses import dataclass

from tests.system.checker.evidence import Evidence


@dataclass(frozen=True)
class Violation:
    """A broken invariant and its place."""

    invariant: str
    text: str


class Rules:
    """Checks of some invariants on one history."""

    def __init__(self, evidence: Evidence) -> None:
        self._evidence = evidence
        self._violations: list[Violation] = []

    def _say(self, invariant: str, text: str) -> None:
        self._violations.append(Violation(invariant, text))
