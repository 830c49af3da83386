"""Check a history and the following dump against the invariants, without code of the server."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable

from tests.system.checker.delivery_rules import DeliveryRules
from tests.system.checker.evidence import Evidence
from tests.system.checker.history import Line
from tests.system.checker.push_rules import PushRules
from tests.system.checker.rules import Violation


class Checker:
    """
    Checks one history and one dump.

    Usage::

        checker = Checker(read_files(paths), dump)
        assert checker.check() == []
        assert checker.counts["kills"] >= 20  # Without kills, the check proves nothing.
    """

    def __init__(self, lines: Iterable[Line], dump: Line) -> None:
        self._evidence = Evidence(lines, dump)
        self.ops = self._evidence.ops
        self.counts: Counter[str] = Counter()

    def check(self) -> list[Violation]:
        """All violations in the history."""
        self._count()
        return [*PushRules(self._evidence).check(), *DeliveryRules(self._evidence).check()]

    def recoveries(self) -> list[tuple[float, float]]:
        """Per fault: seconds without the database, and from then until a push succeeded."""
        answers = sorted(op.ret for op in self.ops if op.name == "push" and op.is_ok)
        found: list[tuple[float, float]] = []
        for fault in self._evidence.faults:
            at = bisect_left(answers, fault.end)
            if at < len(answers):
                found.append(((fault.end - fault.begin) / 1e9, (answers[at] - fault.end) / 1e9))
        return found

    def _count(self) -> None:
        counts = self.counts
        counts["ops"] = len(self.ops)
        counts["kills"] = len(self._evidence.faults)
        counts["messages"] = len(self._evidence.stored)
        for op in self.ops:
            counts[f"{op.name}_{op.outcome}"] += 1
            if op.code is not None:
                counts[op.code] += 1
            if op.name == "push" and op.is_ok:
                counts["acknowledged"] += len(op.args["items"])
                counts["replayed"] += bool(op.result.get("is_replayed"))
                counts["duplicates"] += sum(
                    item["status"] == "duplicate" for item in op.result["items"]
                )
        counts["delivered"] = sum(len(each.offsets) for each in self._evidence.handed)
        counts["redelivered"] = sum(len(each) > 1 for each in self._evidence.of_message.values())
        counts["unknown"] = sum(n for name, n in counts.items() if name.endswith("_info"))
        counts["unknown_retried_ok"] = sum(
            attempts[0].outcome == "info" and any(op.is_ok for op in attempts[1:])
            for attempts in self._evidence.pushes.values()
        )
