"""Comparison of the delivery tables with the model, and checks of the invariants."""

from collections.abc import Sequence

from tests.engine.model.model import Model
from tests.engine.model.state import GRID_SECONDS, Group, Pair
from tests.engine.model.world import NOT_DENSE, NOT_DRAINED, STATES, Seen, World, group_of


def lease_key(lease_id: str | None) -> str:
    """A lease without the time of its delivery, which the database does not store."""
    if not lease_id:
        return ""
    slot, number, _, token = lease_id.split(".")
    return f"{slot}.{number}.{token}"


class Comparison:
    """The tables that one program changed, compared with its model."""

    def __init__(self, world: World, model: Model) -> None:
        self.queue_ids: dict[str, int] = {}
        self.seen = Seen({}, {}, {})
        self._world = world
        self._model = model
        self._positions: dict[tuple[str, Group, str], int] = {}

    async def observe(self) -> Seen:
        return await self._world.observe(list(self.queue_ids.values()))

    async def judge(self, seen: Seen | None = None) -> None:
        """Compare the tables with the model."""
        self.seen = seen = seen or await self.observe()
        letters: dict[tuple[int, Group, str, int], tuple[str, int | None, str | None]] = {}
        for name, queue in self._model.queues.items():
            queue_id = self.queue_ids[name]
            for group, partition, pair in queue.places():
                place = (queue_id, group, partition)
                end = len(queue.partitions[partition])
                claimed, is_ready, seen_end = seen.pairs.get(place, (0, end > 0, end))
                where = f"{name} {group} {partition}"
                assert (claimed, seen_end) == (pair.claimed, end), where
                self._judge_deliveries(pair, seen.deliveries.get(place, []), where)
                is_free = not queue.is_ordered or not pair.deliveries
                if is_free and pair.claimed < end:
                    assert is_ready, f"{where}: idle with messages behind {claimed}"
                last = self._positions.get((name, group, partition), 0)
                assert pair.position >= last, f"{where}: the position fell to {pair.position}"
                self._positions[name, group, partition] = pair.position
            for letter, dead in queue.letters.items():
                letters[queue_id, *letter] = (
                    dead.message.payload.decode(),
                    dead.attempts,
                    dead.error,
                )
        assert seen.letters.keys() == letters.keys()
        for place, (payload, attempts, error) in letters.items():
            _, seen_payload, seen_attempts, seen_error = seen.letters[place]
            assert (seen_payload, seen_error) == (payload, error), place
            assert attempts in (None, seen_attempts), place

    def _judge_deliveries(
        self,
        pair: Pair,
        seen: Sequence[tuple[tuple[int, ...], str, bool, bool, float]],
        where: str,
    ) -> None:
        """Compare the claimed messages, their holders and their ends."""
        expected = sorted(
            (
                tuple(d.pending),
                lease_key(d.lease_id),
                d.is_copy,
                d.is_parked,
                d.until - self._model.now,
            )
            for d in pair.deliveries
        )
        found = sorted(seen)
        assert [each[:4] for each in found] == [each[:4] for each in expected], where
        for (_, lease, _, is_parked, seconds), (*_, grid_seconds) in zip(
            found, expected, strict=True
        ):
            # Backoffs end before the grid time at which they are certainly over.
            slack = 0 if lease else GRID_SECONDS
            is_right = grid_seconds - slack - 1 < seconds < grid_seconds + 1
            assert is_parked or is_right, f"{where}: ends in {seconds} s, not {grid_seconds}"

    def forget_positions(self, *place: str | None) -> None:
        """Allow the positions of a queue, group and partition to fall."""
        for each in list(self._positions):
            if each[: len(place)] == place:
                del self._positions[each]

    async def check_invariants(self) -> None:
        ids = list(self.queue_ids.values())
        rows = await self._world.fetch(NOT_DENSE, ids)
        assert not rows, f"offsets are not dense, or time fell: {rows}"
        excused = {
            (self.queue_ids[name], *letter)
            for name, queue in self._model.queues.items()
            for letter in queue.sought_back
        }
        for row in await self._world.fetch(STATES, ids):
            place = (row["queue_id"], group_of(row["group"]), row["partition"], row["offset"])
            assert "missing" not in row["states"], f"{place} was claimed and does not exist"
            assert place in excused, f"{place} is {row['states']}"

    async def check_drained(self) -> None:
        rows = await self._world.fetch(NOT_DRAINED, list(self.queue_ids.values()))
        assert not rows, f"not drained: {rows}"
