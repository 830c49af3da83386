"""Durations of the moves of slots for `/metrics`."""

from queen import telemetry
from queen.meters import Histogram, Snapshot


class SlotMoveMetrics:
    """The moves that this process has completed."""

    def __init__(self) -> None:
        self._copy = Histogram()
        self._hand_over = Histogram()

    def count(self, seconds: float, waited_seconds: float) -> None:
        """Count a move. ``waited_seconds``: how long calls waited at its end."""
        self._copy.observe(seconds - waited_seconds)
        self._hand_over.observe(waited_seconds)

    def add_to(self, snapshot: Snapshot) -> None:
        if self._copy.bins:
            snapshot.add_histogram(telemetry.SLOT_MOVE, self._copy, "copy")
            snapshot.add_histogram(telemetry.SLOT_MOVE, self._hand_over, "hand_over")
