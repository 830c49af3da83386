"""Runs of workflows, their steps and the parts of steps."""

from collections.abc import Sequence
from uuid import UUID

from queen.store.connection.database import Database, Record
from queen.store.messages import Settlement


class Workflows:
    """The workflows of one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def start(
        self,
        id_: str,
        *,
        name: str,
        digest: bytes,
        metadata: str,
        correlation_id: str | None,
        tags: Sequence[str],
        headers: str | None,
        trace_id: str | None,
        steps: str,
        templates: Sequence[str | None],
        items: Sequence[str | None],
    ) -> bool:
        """Start a run. Returns False if it was started before. Raises WorkflowExists."""
        (row,) = await self._database.fetch(
            "start_workflow",
            *(id_, name, digest, metadata, correlation_id, list(tags), headers, trace_id, steps),
            *(list(templates), list(items)),
        )
        return row["is_new"]

    async def signal(self, id_: str, signal: str, outcome: str, data: str | None) -> Record:
        """Send a signal. Returns how many steps received it. Raises WorkflowNotFound."""
        return (await self._database.fetch("signal_workflow", id_, signal, outcome, data))[0]

    async def cancel(self, id_: str, reason: str | None, *, is_undone: bool) -> Record:
        """Stop a run. Raises WorkflowNotFound."""
        return (await self._database.fetch("cancel_workflow", id_, reason, is_undone))[0]

    async def messages(self, id_: str, limit: int) -> list[Record]:
        """Messages of a stopping run that can be cancelled, once they have left the outbox."""
        await self._database.fetch("await_moving_messages", id_)
        return await self._database.fetch("workflow_messages", id_, limit)

    async def drop(self, id_: str, messages: Sequence[Record]) -> bool:
        """Record cancelled messages. Returns whether the run has ended."""
        columns = [[each[name] for each in messages] for name in ("step", "part", "token")]
        return (await self._database.fetch("drop_steps", id_, *columns))[0]["has_ended"]

    async def fail_step(
        self, id_: str, step: str, part: int | None, token: UUID, error: str
    ) -> bool:
        """Fail a step whose message was cancelled. Returns whether the run has ended."""
        (row,) = await self._database.fetch("fail_step", id_, step, part, token, error)
        return row["has_ended"]

    async def retry(self, id_: str, from_step: str | None) -> bool:
        """Resume a run. Returns whether it has ended. Raises WorkflowNotFound, NotRetryable."""
        return (await self._database.fetch("retry_workflow", id_, from_step))[0]["has_ended"]

    async def delete(self, id_: str) -> None:
        """Delete an ended run. Raises WorkflowNotFound, WorkflowRunning."""
        await self._database.fetch("delete_workflow", id_)

    async def one(self, id_: str) -> Record | None:
        rows = await self._database.fetch("workflow", id_)
        return rows[0] if rows else None

    async def open_of(self, ids: Sequence[str]) -> set[str]:
        """The runs among these that have not ended."""
        rows = await self._database.fetch("open_workflows", list(ids))
        return {row["id"] for row in rows}

    async def steps(
        self, id_: str, *, has_results: bool = True, name: str | None = None
    ) -> list[Record]:
        """The steps of a run, or one of them, with or without their results."""
        return await self._database.fetch("workflow_steps", id_, has_results, name)

    async def parts(
        self, id_: str, step: str, *, after: int, state: str | None, limit: int
    ) -> list[Record]:
        return await self._database.fetch("workflow_parts", id_, step, after, state, limit)

    async def queues(self, ids: Sequence[str]) -> dict[str, set[str]]:
        """The queues that each run sends to."""
        rows = await self._database.fetch("workflow_queues", list(ids))
        return {row["id"]: set(row["queues"] or ()) for row in rows}

    async def step_queues(self, steps: Sequence[tuple[str, str]]) -> set[str]:
        """The queues of steps. A step is a workflow id and a name."""
        rows = await self._database.fetch("step_queues", *map(list, zip(*steps, strict=True)))
        return {row["queue"] for row in rows}

    async def step_messages(
        self, settlements: Sequence[Settlement], tokens: Sequence[UUID]
    ) -> list[Record]:
        """The messages among these that are encrypted or contain one of the tokens."""
        return await self._database.fetch(
            "step_messages",
            [each.partition_id or 0 for each in settlements],
            [each.offset for each in settlements],
            [str(each) for each in tokens],
            [each.delivery_id for each in settlements],
            [each.token for each in settlements],
        )

    async def page(
        self,
        *,
        before: int,
        state: str | None,
        name: str | None,
        correlation_id: str | None,
        tag: str | None,
        limit: int,
        patterns: Sequence[str] | None = None,
    ) -> list[Record]:
        """Runs with a lower number, newest first."""
        return await self._database.fetch(
            "list_workflows", before, state, name, correlation_id, tag, limit, patterns
        )
