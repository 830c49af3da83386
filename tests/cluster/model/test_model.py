"""T1. Random programs have the same effect on several databases as on a model of one."""

from collections.abc import Coroutine
from typing import Any, ClassVar
from uuid import uuid4

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import rule

from queen.codec.slots import hashed
from tests.cluster.model.world import ClusterWorld
from tests.cluster.reports import report
from tests.engine.model.test_model import PROGRAMS, Program, run_programs
from tests.support.postgres import Postgres

RARELY = st.integers(0, 19).map(lambda number: number == 7)
"""These take a second or more."""


class ClusterProgram(Program):
    """A program whose databases change while it runs."""

    world: ClassVar[ClusterWorld]  # pyright: ignore[reportIncompatibleVariableOverride]

    def __init__(self) -> None:
        super().__init__()
        self.world.events.clear()

    def do(self, step: Coroutine[Any, Any, object]) -> None:
        try:
            super().do(step)
        except Exception as error:
            # A program that depends on time may succeed when it is repeated, and is not printed.
            error.add_note(f"Databases: {self.world.events}")
            raise

    @rule(to=st.integers(0, 3), stop_at=st.none() | st.integers(0, 150))
    def move(self, to: int, stop_at: int | None) -> None:
        self.do(self.world.move(hashed(self.prefix), to, stop_at))

    @rule(to=st.integers(0, 3), which=st.integers(0, 2), happens=RARELY)
    def kill_while_moving(self, to: int, which: int, happens: bool) -> None:
        if happens:
            self.do(self.world.move(hashed(self.prefix), to, None))
            self.do(self.world.kill(which))

    @rule(happens=RARELY)
    def add(self, happens: bool) -> None:
        if happens:
            self.do(self.world.add())

    @rule(happens=RARELY)
    def remove(self, happens: bool) -> None:
        if happens:
            self.do(self.world.remove())


@pytest.mark.nightly
@pytest.mark.timeout(300 + 10 * PROGRAMS)
def test_random_programs_agree_with_the_model(apart: dict[str, Postgres]) -> None:
    """`QUEEN_MODEL_EXAMPLES` sets the number of programs."""
    with ClusterWorld(apart, f"model_{uuid4().hex}") as shared:

        class Programs(ClusterProgram):
            world = shared

        run_programs(Programs, PROGRAMS)
        report("T1", programs=shared.programs, **shared.counts)
        assert shared.counts["moves"] > PROGRAMS / 2
