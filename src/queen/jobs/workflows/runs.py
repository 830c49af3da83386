"""Runs of workflows, as whoever started them sees and drives them."""

import time
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Final, Literal
from uuid import uuid4

import msgspec

from queen import errors
from queen.client import tracing
from queen.client.admin.base import API, Calls, answer, name_of, query_of
from queen.client.durations import LONG_SECONDS, Duration, seconds_of
from queen.client.payloads import encode
from queen.wire import workflows as wire

if TYPE_CHECKING:
    from queen.client.client import Queen

_WAIT_SECONDS: Final = 30.0
"""One request waits for so long; then another does."""


class WorkflowCalls(Calls):
    """The routes under `/workflows`, asked from Python."""

    async def start(self, request: wire.WorkflowRequest) -> wire.WorkflowStarted:
        """Start it; with its id it may be sent again, so a lost answer costs nothing."""
        named = msgspec.structs.replace(request, id=request.id or str(uuid4()))
        with tracing.starting(request.name):
            reply = await self._transport.exchange(
                "POST", f"{API}/workflows", msgspec.json.encode(named)
            )
        return answer(reply, wire.WorkflowStarted)

    async def show(self, id_: str, *, wait_seconds: float = 0) -> wire.WorkflowDetail:
        """A run; with ``wait_seconds`` as soon as it has ended."""
        query: dict[str, Any] = {}
        if wait_seconds > 0:
            query = {"wait": "true", "timeout": round(wait_seconds * 1000)}
        reply = await self._transport.exchange(
            "GET", f"{API}{_path(id_)}{query_of(query)}", wait_seconds=wait_seconds
        )
        return answer(reply, wire.WorkflowDetail)

    def all(self, **filters: Any) -> AsyncIterator[wire.WorkflowInfo]:  # noqa: ANN401
        """Runs, newest first: by state, name, correlation_id and tag."""
        return self._pages("/workflows", wire.Workflows, "workflows", filters)

    def parts(self, id_: str, step: str, **filters: Any) -> AsyncIterator[wire.PartInfo]:  # noqa: ANN401
        """The parts of a step that is a job an item."""
        path = f"{_path(id_)}/steps/{name_of(step)}/parts"
        return self._pages(path, wire.Parts, "parts", filters)

    async def signal(self, id_: str, request: wire.SignalRequest) -> wire.Signalled:
        """Sent again it changes nothing: each step takes one."""
        reply = await self._transport.exchange(
            "POST", f"{API}{_path(id_)}/signal", msgspec.json.encode(request)
        )
        return answer(reply, wire.Signalled)

    async def cancel(self, id_: str, request: wire.CancelRequest) -> wire.Cancelled:
        return await self._send("POST", f"{_path(id_)}/cancel", request, wire.Cancelled)

    async def retry(self, id_: str, request: wire.WorkflowRetryRequest) -> wire.Retried:
        return await self._send("POST", f"{_path(id_)}/retry", request, wire.Retried)

    async def delete(self, id_: str) -> wire.WorkflowDeleted:
        return await self._send("DELETE", _path(id_), None, wire.WorkflowDeleted)


def _path(id_: str) -> str:
    return f"/workflows/{name_of(id_)}"


class WorkflowHandle:
    """
    A run by its id.

    Usage::

        handle = await jobs.execute_workflow(flow)
        run = await handle.wait(timeout="5m")
        print(run.state, msgspec.json.decode(run.result))
    """

    __slots__ = ("_calls", "id", "is_new")

    def __init__(self, queen: "Queen", id_: str, *, is_new: bool = False) -> None:
        self._calls = WorkflowCalls(queen)
        self.id = id_
        self.is_new = is_new
        """False: it had been started before."""

    async def status(self) -> wire.WorkflowDetail:
        """The run as it stands, with its steps."""
        return await self._calls.show(self.id)

    async def wait(self, *, timeout: Duration | None = None) -> wire.WorkflowDetail:  # noqa: ASYNC109 - "1m" too
        """The run when it has ended; raises TimeoutError when ``timeout`` is over before."""
        seconds = float("inf")
        if timeout is not None:
            seconds = seconds_of(timeout, "timeout", most=LONG_SECONDS)
        until = time.monotonic() + seconds
        while True:
            left = until - time.monotonic()
            run = await self._calls.show(self.id, wait_seconds=max(0, min(left, _WAIT_SECONDS)))
            if run.ended_at is not None:
                return run
            if left <= 0:
                raise TimeoutError(f"workflow {self.id} is still {run.state}")

    async def result(self, *, timeout: Duration | None = None) -> dict[str, Any]:  # noqa: ASYNC109
        """
        Results by name of the steps that nothing follows on success.

        Raises WorkflowFailed when the run failed or was cancelled.
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
        """Tell it what its steps wait for; how many took it."""
        request = wire.SignalRequest(signal=signal, data=encode(data), outcome=outcome)
        return (await self._calls.signal(self.id, request)).taken

    async def cancel(
        self, reason: str | None = None, *, compensate: bool = True
    ) -> wire.WorkflowState:
        """Let nothing begin any more, and undo what was done."""
        request = wire.CancelRequest(reason=reason, compensate=compensate)
        return (await self._calls.cancel(self.id, request)).state

    async def retry(self, from_step: str | None = None) -> wire.WorkflowState:
        """Run what failed again, and what follows from it; what completed stays done."""
        request = wire.WorkflowRetryRequest(from_step=from_step)
        return (await self._calls.retry(self.id, request)).state

    async def parts(self, step: str) -> list[wire.PartInfo]:
        """The parts of a step that is a job an item, in the order of the items."""
        return [part async for part in self._calls.parts(self.id, step)]

    async def delete(self) -> None:
        """Forget the run; it must have ended."""
        await self._calls.delete(self.id)
