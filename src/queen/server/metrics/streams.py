"""Metrics of streams."""

from queen import telemetry
from queen.meters import Histogram, Snapshot


class StreamMetrics:
    """Counts of the streams of one process."""

    def __init__(self) -> None:
        self.connections = 0
        self.received = 0
        self.sent = 0
        """Frames with operations, and with results."""
        self._operations: dict[tuple[str, int], Histogram] = {}

    def count(self, operation: str, status: int, seconds: float) -> None:
        """Count an operation by its result."""
        key = (operation, status)
        histogram = self._operations.get(key)
        if histogram is None:
            histogram = self._operations[key] = Histogram()
        histogram.observe(seconds)

    def add_to(self, snapshot: Snapshot) -> None:
        snapshot.add(telemetry.STREAMS, self.connections)
        snapshot.add(telemetry.STREAM_FRAMES, self.received, "received")
        snapshot.add(telemetry.STREAM_FRAMES, self.sent, "sent")
        for (operation, status), histogram in self._operations.items():
            snapshot.add_histogram(telemetry.STREAM_OPERATIONS, histogram, operation, str(status))
