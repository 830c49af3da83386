"""`WorkflowHandle`: observe and control a run of a workflow."""

from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from queen import errors
from queen.client.durations import Duration
from queen.client.payloads import encode
from queen.jobs.handle import wait_for_end
from queen.jobs.workflows.api import WorkflowCalls
from queen.wire import workflows as wire

if TYPE_CHECKING:
    from queen.client.client import Queen


class WorkflowHandle:
    """
    A run, identified by its id.

    Usage::

        handle = await jobs.execute_workflow(flow)
        run = await handle.wait(timeout="5m")
        print(run.state, msgspec.json.decode(run.result))
    """

    __slots__ = ("_calls", "id", "is_new")

    def __init__(self, queen: "Queen", id_: str, *, is_new: bool = False) -> None:
        self._calls = WorkflowCalls(queen)
        self.id = id_
        """The id of the run."""
        self.is_new = is_new
        """False if it had been started before."""

    async def status(self) -> wire.WorkflowDetail:
        """Return the run with its steps."""
        return await self._calls.show(self.id)

    async def wait(self, *, timeout: Duration | None = None) -> wire.WorkflowDetail:  # noqa: ASYNC109 - "1m" too
        """Wait until the run has ended. Raises TimeoutError after ``timeout``."""
        show = partial(self._calls.show, self.id)
        run = await wait_for_end(show, lambda run: run.ended_at is not None, timeout)
        if run.ended_at is None:
            raise TimeoutError(f"workflow {self.id} is still {run.state}")
        return run

    async def result(self, *, timeout: Duration | None = None) -> dict[str, Any]:  # noqa: ASYNC109
        """
        Wait for the end, and return the results by name of the last steps.

        Raises WorkflowFailed if the run failed or was cancelled.
        """
        run = await self.wait(timeout=timeout)
        if run.state != "completed":
            raise errors.WorkflowFailed(f"workflow {self.id} {run.state}: {run.error}")
        return msgspec.json.decode(run.result, type=dict[str, Any])

    async def signal(
        self,
        signal: str,
        data: object = None,
        *,
        outcome: Literal["success", "failure"] = "success",
    ) -> int:
        """Send a signal to its waiting steps. Returns how many received it."""
        request = wire.SignalRequest(signal=signal, data=encode(data), outcome=outcome)
        return (await self._calls.signal(self.id, request)).taken

    async def cancel(
        self, reason: str | None = None, *, compensate: bool = True
    ) -> wire.WorkflowState:
        """Start no more steps, and compensate completed ones."""
        request = wire.CancelRequest(reason=reason, compensate=compensate)
        return (await self._calls.cancel(self.id, request)).state

    async def retry(self, from_step: str | None = None) -> wire.WorkflowState:
        """Run failed steps and the steps after them again. Completed steps are kept."""
        request = wire.WorkflowRetryRequest(from_step=from_step)
        return (await self._calls.retry(self.id, request)).state

    async def parts(self, step: str) -> list[wire.PartInfo]:
        """The jobs of a step that has one job per item, in the order of the items."""
        return [part async for part in self._calls.parts(self.id, step)]

    async def delete(self) -> None:
        """Delete a run that has ended."""
        await self._calls.delete(self.id)
