"""Starts and advances workflows, and wakes the waiters for their ends."""

import contextlib
from collections.abc import Sequence
from typing import Final
from uuid import UUID, uuid4

import msgspec

from queen import errors
from queen.codec import payload
from queen.codec.names import check_name, check_queue_name
from queen.engine.core import Core
from queen.engine.settle.outcome_waiters import WorkflowWaiters
from queen.engine.settle.results import Results
from queen.store.connection.database import Record
from queen.store.messages import Advance
from queen.wire.transactions import AdvanceOperation
from queen.wire.workflow_plan import Plan

_MOST_ERROR: Final = 10_000
_MOST_TAKEN: Final = 500
"""The most messages that a cancellation removes. The others run to their end."""
_OUTER_LEVELS: Final = 8
"""How much deeper a step's data is nested in its message: data, results by name, lists."""


class Workflows:
    """Runs of dependent steps. Their state machine is in SQL."""

    def __init__(self, core: Core, results: Results) -> None:
        self._store = core.store
        self._settings = core.settings
        self._catalogue = core.catalogue
        self._results = results
        self._signals = core.signals
        self.waiters = WorkflowWaiters(core)

    async def start(
        self,
        id_: str | None,
        plan: Plan,
        *,
        headers: dict[str, str] | None = None,
        trace_id: str | None = None,
    ) -> tuple[str, bool]:
        """Start a workflow. Returns its id, and whether it is new and not a repeat."""
        await self._check_queues(plan)
        name = id_ or str(uuid4())
        is_new = await self._store.workflows.start(
            name,
            name=plan.name,
            digest=plan.digest(),
            metadata=msgspec.json.encode(plan.metadata).decode(),
            correlation_id=plan.correlation_id,
            tags=plan.tags,
            headers=None if not headers else msgspec.json.encode(headers).decode(),
            trace_id=trace_id,
            steps=plan.encoded_steps().decode(),
            templates=[each.template for each in plan.steps],
            items=[each.items for each in plan.steps],
        )
        return name, is_new

    async def signal(self, id_: str, signal: str, outcome: str, data: bytes | None) -> int:
        """Send a signal to the steps that wait for it. Returns how many received it."""
        self._check_json("the data", data)
        text = None if data is None else data.decode()
        row = await self._store.workflows.signal(id_, signal, outcome, text)
        if not row["steps"]:
            raise errors.NotFound(f"no step of workflow {id_} waits for a signal {signal}")
        self._signals.workflows_ended([id_] if row["has_ended"] else [])
        return row["taken"]

    async def cancel(self, id_: str, reason: str | None, *, is_undone: bool) -> None:
        """Start no more steps, and undo completed ones."""
        row = await self._store.workflows.cancel(id_, reason, is_undone=is_undone)
        has_ended: bool = row["has_ended"]
        if not has_ended:
            has_ended = await self._take_away(id_)
        self._signals.workflows_ended([id_] if has_ended else [])

    async def _take_away(self, id_: str) -> bool:
        """Cancel the leased and pending messages, unless their steps would have to be undone."""
        taken: list[Record] = []
        for each in await self._store.workflows.messages(id_, _MOST_TAKEN):
            # If a worker was faster, it has settled the message and its step.
            with contextlib.suppress(errors.RequestError):
                queue = await self._catalogue.queue(each["queue"])
                await self._results.cancel(
                    queue, each["transaction_id"], partition=each["partition"], seconds=None
                )
                taken.append(each)
        return bool(taken) and await self._store.workflows.drop(id_, taken)

    async def fail_step(self, id_: str, step: str, part: int | None, token: str) -> None:
        """Fail a step whose message was cancelled. No effect if the token is stale."""
        with contextlib.suppress(ValueError):  # An invalid token belongs to no step.
            has_ended = await self._store.workflows.fail_step(
                id_, step, part, UUID(token), "its job was cancelled"
            )
            self._signals.workflows_ended([id_] if has_ended else [])

    async def retry(self, id_: str, from_step: str | None) -> None:
        """Resume a workflow from its failed steps."""
        has_ended = await self._store.workflows.retry(id_, from_step)
        self._signals.workflows_ended([id_] if has_ended else [])

    async def delete(self, id_: str) -> None:
        """Delete an ended workflow."""
        await self._store.workflows.delete(id_)

    async def one(self, id_: str) -> Record:
        row = await self._store.workflows.one(id_)
        if row is None:
            raise errors.WorkflowNotFound(f"workflow {id_} does not exist")
        return row

    def advances(self, operations: Sequence[AdvanceOperation]) -> list[Advance]:
        """Convert operations to rows. Raises BadRequest for the first invalid one."""
        found: list[Advance] = []
        for number, each in enumerate(operations):
            try:
                found.append(self._advance(each))
            except errors.RequestError as error:
                error.members["failed"] = ("advance", number)
                raise
        return found

    def _advance(self, each: AdvanceOperation) -> Advance:
        try:
            token = UUID(each.token)
        except ValueError as error:
            raise errors.BadRequest("invalid token: send the one in the step's message") from error
        check_name("workflow", each.workflow, self._settings.max_name_bytes)
        check_name("step", each.step, self._settings.max_name_bytes)
        result = None if each.result is msgspec.UNSET else bytes(each.result)
        self._check_json("the result", result)
        if any(not 0 <= (number or 0) < 2**31 for number in (each.part, each.attempt)):
            raise errors.BadRequest("part must be at least 0, attempt at least 1")
        return Advance(
            each.workflow,
            each.step,
            each.part,
            token,
            each.outcome,
            None if result is None else result.decode(),
            None if each.error is None else each.error.replace("\0", "")[:_MOST_ERROR],
            each.attempt,
        )

    def _check_json(self, what: str, value: bytes | None) -> None:
        most = self._settings.max_payload_bytes
        if value is None:
            return
        if len(value) > most:
            raise errors.PayloadTooLarge(f"{what} has {len(value)} bytes; the maximum is {most}")
        payload.check(value, self._settings.max_json_depth - _OUTER_LEVELS)

    async def _check_queues(self, plan: Plan) -> None:
        for name in plan.queues:
            check_queue_name("queue", name, self._settings.max_name_bytes)
        for step in plan.steps:
            if step.partition is not None:
                check_name("key", step.partition, self._settings.max_partition_bytes)
            for text in (step.template, step.items):
                self._check_json(f"step {step.name}", None if text is None else text.encode())
        known = await self._catalogue.queues(plan.queues)
        for name in sorted(plan.queues - known.keys()):
            # A push would create an ordered queue. An error is better for a misspelt name.
            raise errors.QueueNotFound(
                f"queue {name} does not exist. Create it with ordered: false."
            )
        for name, queue in sorted(known.items()):
            if queue.is_ordered:
                raise errors.InvalidWorkflow(
                    f"queue {name} is ordered, but steps are jobs: configure it with ordered: false"
                )
            if queue.is_encrypted:
                raise errors.InvalidWorkflow(
                    f"queue {name} is encrypted, but steps store data unencrypted: use another"
                )
