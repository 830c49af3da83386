"""Random programs have the same effect on the engine as on a model of the delivery rules."""

import os
from collections.abc import Coroutine, Sequence
from typing import Any, ClassVar, Final

import pytest
from hypothesis import HealthCheck, reproduce_failure, settings, strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from queen.wire.messages import PopRequest
from tests.engine.model.state import DEDUP_SECONDS, GRID_SECONDS, Group, Held, Item, Queue
from tests.engine.model.steps import Steps
from tests.engine.model.world import World

PROGRAMS: Final = int(os.environ.get("QUEEN_MODEL_EXAMPLES", "25"))
STEPS: Final = 50
GROUPS: Final[tuple[Group, ...]] = (None, "g1", "g2")
PARTITIONS: Final = ("a", "b", "c")


class Program(RuleBasedStateMachine):
    """A program of 50 steps. `stands` is False from the start of a step until its check."""

    world: ClassVar[World]

    def __init__(self) -> None:
        super().__init__()
        self.stands = False
        self.world.programs += 1
        self.prefix = f"p{self.world.programs}"
        self.steps = Steps(self.world, self.prefix)
        self.model = self.steps.model
        self.groups: Sequence[Group] = ()
        self.partitions: Sequence[str] = ()
        self.payloads = 0

    def do(self, step: Coroutine[Any, Any, object]) -> None:
        self.stands = False
        self.world.run(step)
        self.stands = True

    # --- rules

    @initialize(
        kinds=st.sampled_from([(True,), (False,), (True, False)]),
        groups=st.integers(1, len(GROUPS)),
        partitions=st.integers(1, len(PARTITIONS)),
        retry_limit=st.integers(0, 3),
    )
    def begin(self, kinds: Sequence[bool], groups: int, partitions: int, retry_limit: int) -> None:
        """Use few queues, groups and partitions, so that more happens to each."""
        self.groups = GROUPS[:groups]
        self.partitions = PARTITIONS[:partitions]
        for is_ordered in kinds:
            name = f"{self.prefix}-{'ordered' if is_ordered else 'unordered'}"
            self.model.queues[name] = Queue(is_ordered, retry_limit)
        self.do(self.steps.configure())

    @rule(
        queue=st.integers(0, 1),
        partition=st.integers(0, 2),
        keys=st.lists(st.none() | st.integers(0, 3), min_size=1, max_size=3),
        producer=st.none() | st.sampled_from([0, 0, 1, -1, -2]),
    )
    def push(
        self, queue: int, partition: int, keys: list[int | None], producer: int | None
    ) -> None:
        self._push(queue, partition, keys, producer, None)

    def _push(
        self,
        queue: int,
        partition: int,
        keys: list[int | None],
        producer: int | None,
        acked: Held | None,
    ) -> None:
        name = self._queue(queue)
        place = self._partition(partition)
        items = [self._item(place, key) for key in keys]
        sequence = self._sequence(producer)
        last = self.model.requests.get(sequence[0]) if sequence else None
        if producer == -1 and last is not None and len(keys) > 1:
            name, items = last  # Repeat the same request, or send another one with its number.
        self.do(self.steps.push(name, items, sequence, acked))

    @precondition(lambda self: self.model.held())
    @rule(
        queue=st.integers(0, 1),
        partition=st.integers(0, 2),
        count=st.integers(1, 2),
        producer=st.none() | st.sampled_from([0, 0, -1, -2]),
        which=st.integers(0, 11),
    )
    def push_and_ack(
        self, queue: int, partition: int, count: int, producer: int | None, which: int
    ) -> None:
        """Without transactionIds, both are in one transaction."""
        self._push(queue, partition, [None] * count, producer, self._held(which))

    @rule(
        queue=st.integers(0, 1),
        group=st.integers(0, 2),
        partition=st.none() | st.integers(0, 2),
        batch=st.integers(1, 4),
        partitions=st.integers(1, 2),
        is_auto=st.sampled_from([False, False, False, True]),
    )
    def pop(
        self,
        queue: int,
        group: int,
        partition: int | None,
        batch: int,
        partitions: int,
        is_auto: bool,
    ) -> None:
        request = PopRequest(
            queue=self._queue(queue),
            consumer_group=self.groups[group % len(self.groups)],
            partition=None if partition is None else self._partition(partition),
            batch=batch,
            partitions=partitions,
            auto_ack=is_auto,
        )
        self.do(self.steps.pop(request))

    @rule(queue=st.integers(0, 1), group=st.integers(0, 2), batch=st.integers(1, 4))
    def pop_of_all(self, queue: int, group: int, batch: int) -> None:
        """One more pop: while no message is leased, most other steps have no effect."""
        request = PopRequest(
            queue=self._queue(queue),
            consumer_group=self.groups[group % len(self.groups)],
            batch=batch,
            partitions=2,
        )
        self.do(self.steps.pop(request))

    @precondition(lambda self: self.model.held())
    @rule(which=st.integers(0, 11))
    def ack(self, which: int) -> None:
        self.do(self.steps.ack(self._held(which), None))

    @precondition(lambda self: self.model.held())
    @rule(which=st.integers(0, 11), picks=st.lists(st.integers(0, 3), min_size=1, max_size=3))
    def ack_some(self, which: int, picks: list[int]) -> None:
        held = self._held(which)
        out = held.delivery.out
        self.do(self.steps.ack(held, [out[pick % len(out)] for pick in picks]))

    @precondition(lambda self: self.model.held())
    @rule(
        which=st.integers(0, 11),
        pick=st.integers(0, 3),
        status=st.sampled_from(["failed", "failed", "retry", "dlq", "completed"]),
        by_key=st.booleans(),
    )
    def nack(self, which: int, pick: int, status: str, by_key: bool) -> None:
        held = self._held(which)
        out = held.delivery.out
        self.do(self.steps.nack(held, out[pick % len(out)], status, by_key))

    @precondition(lambda self: self.model.held())
    @rule(
        which=st.integers(0, 11),
        status=st.none() | st.sampled_from(["failed", "retry", "dlq"]),
        queue=st.integers(0, 1),
        group=st.integers(0, 2),
        batch=st.integers(1, 4),
        partitions=st.integers(1, 2),
        is_auto=st.sampled_from([False, False, False, True]),
    )
    def pop_and_acknowledge(
        self,
        which: int,
        status: str | None,
        queue: int,
        group: int,
        batch: int,
        partitions: int,
        is_auto: bool,
    ) -> None:
        request = PopRequest(
            queue=self._queue(queue),
            consumer_group=self.groups[group % len(self.groups)],
            batch=batch,
            partitions=partitions,
            auto_ack=is_auto,
        )
        self.do(self.steps.pop_and_acknowledge(self._held(which), status, request))

    @precondition(lambda self: self.model.held())
    @rule(which=st.integers(0, 11), steps=st.integers(1, 5))
    def extend(self, which: int, steps: int) -> None:
        self.do(self.steps.extend(self._held(which), steps * GRID_SECONDS))

    @precondition(lambda self: self.model.held())
    @rule(which=st.integers(0, 11))
    def release(self, which: int) -> None:
        self.do(self.steps.release(self._held(which)))

    @rule(steps=st.sampled_from([1, 1, 2, 3, 3, DEDUP_SECONDS // GRID_SECONDS]))
    def let_time_pass(self, steps: int) -> None:
        self.do(self.steps.advance(steps * GRID_SECONDS))

    @rule(
        queue=st.integers(0, 1),
        group=st.integers(0, 2),
        partition=st.none() | st.integers(0, 2),
        to=st.sampled_from(["start", "end"]) | st.integers(0, 5),
    )
    def seek(self, queue: int, group: int, partition: int | None, to: str | int) -> None:
        if isinstance(to, int) and partition is None:
            partition = to
        self.do(
            self.steps.seek(
                self._queue(queue),
                self.groups[group % len(self.groups)],
                None if partition is None else self._partition(partition),
                to,
            )
        )

    @precondition(lambda self: self.model.held())
    @rule(
        which=st.lists(st.integers(0, 11), min_size=1, max_size=2),
        queue=st.integers(0, 1),
        keys=st.lists(st.none() | st.integers(0, 3), max_size=2),
        first=st.integers(0, 2),
        producer=st.none() | st.sampled_from([0, 0, -1, -2]),
        is_whole=st.booleans(),
        is_rolled_back=st.booleans(),
    )
    def transact(
        self,
        which: list[int],
        queue: int,
        keys: list[int | None],
        first: int,
        producer: int | None,
        is_whole: bool,
        is_rolled_back: bool,
    ) -> None:
        name = self._queue(queue)
        # One item per partition, because the second of two with one key is not a repeat of a stored
        # one.
        keys = keys[: len(self.partitions)]
        items = [self._item(self._partition(first + at), key) for at, key in enumerate(keys)]
        helds = {id(held.delivery): held for held in map(self._held, which)}
        acks = [
            (held, list(held.delivery.out if is_whole else held.delivery.out[-1:]))
            for held in helds.values()
        ]
        self.do(self.steps.transact(acks, name, items, self._sequence(producer), is_rolled_back))

    @precondition(lambda self: self._stale())
    @rule(
        which=st.integers(0, 11),
        verb=st.sampled_from(
            ["ack", "ack some", "nack", "extend", "release", "transact", "require"]
        ),
    )
    def come_too_late(self, which: int, verb: str) -> None:
        stale = self._stale()
        item = self._item(self._partition(0), None)
        self.do(self.steps.come_too_late(stale[which % len(stale)], verb, self._queue(0), item))

    @precondition(lambda self: self._letters())
    @rule(which=st.integers(0, 11))
    def redrive(self, which: int) -> None:
        letters = self._letters()
        self.do(self.steps.redrive(*letters[which % len(letters)]))

    @rule(queue=st.integers(0, 1), is_paused=st.sampled_from([True, False, False]))
    def pause_or_resume(self, queue: int, is_paused: bool) -> None:
        self.do(self.steps.pause(self._queue(queue), is_paused))

    def teardown(self) -> None:
        if self.stands:
            self.do(self.steps.end())

    # --- choices

    def _queue(self, number: int) -> str:
        names = list(self.model.queues)
        return names[number % len(names)]

    def _partition(self, number: int) -> str:
        return self.partitions[number % len(self.partitions)]

    def _held(self, number: int) -> Held:
        held = self.model.held()
        return held[number % len(held)]

    def _stale(self) -> list[str]:
        current = {held.delivery.lease_id for held in self.model.held()}
        return [lease for lease in self.steps.given if lease not in current]

    def _letters(self) -> list[tuple[str, tuple[Group, str, int]]]:
        return [
            (name, letter) for name, queue in self.model.queues.items() for letter in queue.letters
        ]

    def _item(self, partition: str, key: int | None) -> Item:
        self.payloads += 1
        payload = f'{{"n":{self.payloads},"in":"{self.prefix}"}}'.encode()
        return Item(partition, payload, None if key is None else f"t{key}")

    def _sequence(self, step: int | None) -> tuple[str, int] | None:
        """A producer and its sequence: 0 is the next one, -1 repeats the last, -2 is stale."""
        if step is None:
            return None
        producer = f"{self.prefix}-producer"
        return producer, max(self.model.sequences.get(producer, -1) + 1 + step, 0)


def run_programs(programs: type[Program], count: int) -> None:
    """
    Run random programs.

    A failure is printed as a program and as a blob. `QUEEN_MODEL_BLOB=version:blob` replays it.
    """
    if blob := os.environ.get("QUEEN_MODEL_BLOB"):
        version, _, data = blob.partition(":")
        reproduce_failure(version, data.encode())(programs)
    run_state_machine_as_test(
        programs,
        settings=settings(
            max_examples=count,
            stateful_step_count=STEPS,
            deadline=None,
            print_blob=True,
            suppress_health_check=[
                HealthCheck.too_slow,
                HealthCheck.data_too_large,
                HealthCheck.filter_too_much,
            ],
        ),
    )


@pytest.mark.timeout(300 + 2 * PROGRAMS)
def test_random_programs_agree_with_the_model(dsn: str) -> None:
    """`QUEEN_MODEL_EXAMPLES` sets the number of programs."""
    with World(dsn) as shared:

        class Programs(Program):
            world = shared

        run_programs(Programs, PROGRAMS)
