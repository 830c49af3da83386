"""Random workflows have the same effect in SQL as in a model of the workflow rules."""

import asyncio
import json
import os
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Final, TypeVar
from uuid import uuid4

import asyncpg
import uvloop
from hypothesis import HealthCheck, given, settings, strategies as st

from tests.sql.workflows.workflow_model import ENDED, Kind, Message, Outcome, Refused, Run, Step
from tests.support.clock import Clock

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]

T = TypeVar("T")

PROGRAMS: Final = int(os.environ.get("QUEEN_MODEL_EXAMPLES", "60"))
ACTIONS: Final = 25
LONG_SECONDS: Final = 4_000.0
SIGNALS: Final = ("go", "stop")
RESULTS: Final[tuple[Any, ...]] = (None, 1, "two", [], [1], ["a", {"b": 2}, None], {"n": 3})

START: Final = "select queen.start_workflow($1, $2, $3, $4, null, null, null, null, $5, $6, $7)"
LOCK: Final = "select 1 from queen.workflows where id = $1 for no key update"
ADVANCE: Final = "select queen.advance_step($1, $2, $3, $4, $5, $6, $7, 1, queen.now())"
MESSAGES: Final = """
select o.id, o.item ->> 'transactionId' as transaction_id, o.payload
from queen.outbox o
where o.payload -> 'workflow' ->> 'id' = $1
order by o.id
"""
STEPS: Final = """
select
  s.name, s.state, s.tries, s.result, s.error is not null as has_error,
  (
    select json_agg(json_build_array(p.state, p.result) order by p.part)
    from queen.workflow_parts p
    where p.workflow_id = s.workflow_id and p.step = s.name and s.state <> 'pending'
  ) as parts
from queen.workflow_steps s
where s.workflow_id = $1
"""


@st.composite
def workflows(draw: st.DrawFn) -> dict[str, Step]:
    """Up to seven steps. Later ones follow from earlier ones."""
    count = draw(st.integers(1, 7))
    names = [f"s{number}" for number in range(count)]
    steps: dict[str, Step] = {}
    for number, name in enumerate(names):
        later = names[number + 1 :]
        targets = (
            st.lists(st.sampled_from(later), unique=True, max_size=3) if later else st.just([])
        )
        kinds: list[Kind] = ["message", "message", "map", "signal"]
        step = Step(
            name,
            kind=draw(st.sampled_from(kinds)),
            # A chain half of the time, because many steps must complete before they can be
            # compensated.
            on_success=(later[0],) if later and draw(st.booleans()) else tuple(draw(targets)),
            on_failure=tuple(draw(targets)) if draw(st.booleans()) else (),
            needs_all=draw(st.booleans()),
        )
        if step.kind == "map":
            sources = [each.name for each in steps.values() if name in each.on_success]
            if sources and draw(st.booleans()):
                step.items_of = draw(st.sampled_from(sources))
            else:
                step.items = list(range(draw(st.integers(0, 3))))
        elif step.kind == "signal":
            step.signal = draw(st.sampled_from(SIGNALS))
            step.timeout_seconds = draw(st.sampled_from([None, 30.0]))
        steps[name] = step
    for name in names:
        if draw(st.integers(0, 3)):
            undo = f"{name}:undo"
            steps[undo] = Step(undo, kind="undo", undoes=name)
    return steps


def declared(steps: dict[str, Step]) -> str:
    """The steps as an argument of ``queen.start_workflow``."""
    return json.dumps(
        [
            {
                "name": step.name,
                "kind": step.kind,
                "queue": None if step.kind == "signal" else "work",
                "items_of": step.items_of,
                "signal": step.signal,
                "timeout_seconds": step.timeout_seconds,
                "undoes": step.undoes,
                "on_success": step.on_success,
                "on_failure": step.on_failure,
                "needs_all": step.needs_all,
                "sources": sum(step.name in each.targets for each in steps.values()),
            }
            for step in steps.values()
        ]
    )


class World:
    """The database, clock and event loop that all programs share."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)

    def __enter__(self) -> "World":
        self._runner.__enter__()
        self.run(self._open())
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.run(self._close())
        finally:
            self._runner.close()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(coroutine)

    async def _open(self) -> None:
        self.clock = await Clock.install(self._dsn)
        self.connection: Connection = await asyncpg.connect(self._dsn)
        await self.connection.execute(
            "insert into queen.duties (name, holder, until, epoch) "
            "values ('workflows', 1, queen.now() + interval '100 years', 1)"
        )

    async def _close(self) -> None:
        await self.connection.close()
        await self.clock.close()


class Program:
    """One workflow, in SQL and in the model."""

    def __init__(self, world: World, steps: dict[str, Step]) -> None:
        self.world = world
        self.connection = world.connection
        self.id = uuid4().hex
        self.run = Run(steps)
        self.known: dict[int, Message] = {}
        """Messages that were seen in the outbox, by ID, each at most once."""
        self.tokens: dict[Message, str] = {}
        self.hand: list[Message] = []
        """Messages that were moved to the log. Any worker may settle them, even again."""

    async def start(self) -> None:
        steps = self.run.steps.values()
        arguments = (
            *(self.id, "test", b"1", "{}", declared(self.run.steps)),
            [json.dumps({"name": step.name}) for step in steps],
            [None if step.items is None else json.dumps(step.items) for step in steps],
        )
        assert await self.connection.fetchval(START, *arguments) is True
        self.run.start()
        await self.compare()
        assert await self.connection.fetchval(START, *arguments) is False
        await self.compare()

    async def advance(self, message: Message, outcome: Outcome) -> None:
        async with self.connection.transaction():
            await self.connection.execute(LOCK, self.id)
            answer = await self.connection.fetchval(
                ADVANCE,
                self.id,
                message.step,
                message.part,
                self.tokens[message],
                "success" if outcome.state == "completed" else "failure",
                json.dumps(outcome.result),
                outcome.error,
            )
        assert answer == self.run.advance(message, outcome)
        await self.compare()

    async def move(self, message: Message) -> None:
        """Move a message to the log, so that it can be delivered and is no longer in the outbox."""
        (id_,) = (id_ for id_, each in self.known.items() if each == message)
        await self.connection.execute("delete from queen.outbox where id = $1", id_)
        self.run.outbox.remove(message)
        self.hand.append(message)

    async def tell(self, signal: str, outcome: Outcome) -> None:
        row = await self.connection.fetchrow(
            "select * from queen.signal_workflow($1, $2, $3, $4)",
            self.id,
            signal,
            "success" if outcome.state == "completed" else "failure",
            json.dumps(outcome.result),
        )
        assert row is not None
        assert row["taken"] == self.run.tell(signal, outcome)
        assert row["has_ended"] == self.run.has_ended
        await self.compare()

    async def cancel(self, *, is_undone: bool) -> None:
        row = await self.connection.fetchrow(
            "select * from queen.cancel_workflow($1, null, $2)", self.id, is_undone
        )
        assert row is not None
        self.run.cancel(is_undone=is_undone)
        assert row["has_ended"] == self.run.has_ended
        await self.compare()

    async def retry(self, from_: str | None) -> None:
        predicted = None
        try:
            self.run.retry(from_)
        except Refused as refusal:
            predicted = refusal.code
        found = None
        try:
            await self.connection.execute("select queen.retry_workflow($1, $2)", self.id, from_)
        except asyncpg.PostgresError as error:
            found = error.sqlstate
        assert found == predicted
        await self.compare()

    async def see_to(self) -> None:
        await self.world.clock.advance(seconds=LONG_SECONDS)
        await self.connection.fetch("select * from queen.see_to_steps(1, 1000)")
        self.run.see_to()
        await self.compare()

    async def finish(self) -> None:
        """Complete all steps, and check that the workflow ends from any state."""
        for _ in range(100):
            if self.run.has_ended:
                break
            for message in list(self.run.outbox):
                await self.move(message)
            for message in self.hand:
                await self.advance(message, Outcome("completed", 1))
            for signal in SIGNALS:
                await self.tell(signal, Outcome("completed", 1))
        assert self.run.has_ended
        assert len(self.run.sent) == len(set(self.run.sent)), "a message was sent twice"

    async def compare(self) -> None:
        """Compare the visible state with the model, and check that each message was sent once."""
        run = await self.connection.fetchrow(
            "select state, open_steps, result, ended_at from queen.workflows where id = $1", self.id
        )
        assert run is not None
        assert run["state"] == self.run.state
        assert (run["ended_at"] is not None) == self.run.has_ended
        if run["state"] in ENDED:
            assert run["open_steps"] == 0
        for row in await self.connection.fetch(STEPS, self.id):
            step = self.run.steps[row["name"]]
            assert (row["state"], row["tries"]) == (step.state, step.tries), row["name"]
            result = None if row["result"] is None else json.loads(row["result"])
            assert result == step.result, row["name"]
            assert (row["result"] is not None) == step.has_result or step.kind == "undo", row[
                "name"
            ]
            if row["parts"] is not None and step.state != "pending":
                parts = [(state, value) for state, value in json.loads(row["parts"])]
                assert parts == [(part.state, part.result) for part in step.parts]
        await self._compare_outbox()

    async def _compare_outbox(self) -> None:
        found: dict[int, Message] = {}
        for row in await self.connection.fetch(MESSAGES, self.id):
            payload = json.loads(row["payload"])
            ours = payload["workflow"]
            message = Message(
                ours["step"],
                ours.get("part"),
                int(row["transaction_id"].rpartition(".")[2]),
                repr(ours.get("results", {})),
                tuple(ours.get("errors", {})),
                repr(payload["data"]) if "data" in payload else "",
            )
            found[row["id"]] = message
            self.tokens.setdefault(message, ours["token"])
            if row["id"] not in self.known:
                assert message not in self.known.values(), f"{message} was sent twice"
                self.known[row["id"]] = message
        assert sorted(map(repr, found.values())) == sorted(map(repr, self.run.outbox))


async def _act(program: Program, data: st.DataObject) -> None:
    run = program.run
    actions = ["see to"] if data.draw(st.integers(0, 9)) == 0 else []
    actions += ["advance"] * 4 if program.hand else []
    actions += ["move"] * 4 if run.outbox else []
    actions += ["tell"] if any(step.signal for step in run.forward) else []
    if data.draw(st.integers(0, 4)) == 0 or not actions:
        actions += ["cancel", "retry"]
    if run.has_ended:
        actions += ["retry"] * 8
    action = data.draw(st.sampled_from(actions))
    results = st.sampled_from(RESULTS).map(lambda result: Outcome("completed", result))
    outcomes = results | results | st.just(Outcome("failed", None, "no"))
    if action == "advance":
        await program.advance(data.draw(st.sampled_from(program.hand)), data.draw(outcomes))
    elif action == "move":
        await program.move(data.draw(st.sampled_from(run.outbox)))
    elif action == "tell":
        await program.tell(data.draw(st.sampled_from(SIGNALS)), data.draw(outcomes))
    elif action == "see to":
        await program.see_to()
    elif action == "cancel":
        await program.cancel(is_undone=data.draw(st.booleans()))
    else:
        names = [step.name for step in run.forward]
        await program.retry(data.draw(st.none() | st.sampled_from(names)))


def test_a_step_that_begins_after_a_timeout_has_its_own_timeout(dsn: str) -> None:
    def signal(name: str, *on_failure: str) -> Step:
        return Step(name, kind="signal", on_failure=on_failure, signal="go", timeout_seconds=30.0)

    async def play(world: World) -> None:
        program = Program(world, {"first": signal("first", "second"), "second": signal("second")})
        await program.start()

        await program.see_to()
        assert [step.state for step in program.run.steps.values()] == ["failed", "waiting"]

        await program.see_to()
        assert program.run.state == "failed"

    with World(dsn) as world:
        world.run(play(world))


def test_random_workflows_agree_with_the_model(dsn: str) -> None:
    with World(dsn) as world:

        @settings(
            max_examples=PROGRAMS,
            deadline=None,
            print_blob=True,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        )
        @given(steps=workflows(), data=st.data())
        def check(steps: dict[str, Step], data: st.DataObject) -> None:
            async def play() -> None:
                program = Program(world, steps)
                await program.start()
                for _ in range(data.draw(st.integers(0, ACTIONS))):
                    await _act(program, data)
                await program.finish()

            world.run(play())

        check()
