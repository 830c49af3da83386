"""Calls of the routes under `/workflows`."""

from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import msgspec

from queen.client import tracing
from queen.client.admin.base import Calls, name_of
from queen.wire import workflows as wire


class WorkflowCalls(Calls):
    """Starts workflows and controls their runs."""

    async def start(self, request: wire.WorkflowRequest) -> wire.WorkflowStarted:
        """Start a run. It has an id, so the request can be repeated after a lost response."""
        named = msgspec.structs.replace(request, id=request.id or str(uuid4()))
        with tracing.starting(request.name):
            return await self._send(
                "POST", "/workflows", named, wire.WorkflowStarted, is_repeatable=True
            )

    async def show(self, id_: str, *, wait_seconds: float = 0) -> wire.WorkflowDetail:
        """Return a run. With ``wait_seconds``, as soon as it has ended."""
        return await self._get(_path(id_), wire.WorkflowDetail, wait_seconds=wait_seconds)

    def all(self, **filters: Any) -> AsyncIterator[wire.WorkflowInfo]:  # noqa: ANN401
        """List runs, newest first, by state, name, correlation_id and tag."""
        return self._pages("/workflows", wire.Workflows, "workflows", filters)

    def parts(self, id_: str, step: str, **filters: Any) -> AsyncIterator[wire.PartInfo]:  # noqa: ANN401
        """List the jobs of a step that has one job per item."""
        path = f"{_path(id_)}/steps/{name_of(step)}/parts"
        return self._pages(path, wire.Parts, "parts", filters)

    async def signal(self, id_: str, request: wire.SignalRequest) -> wire.Signalled:
        """Send a signal. A repeat changes nothing, because each step takes one signal."""
        path = f"{_path(id_)}/signal"
        return await self._send("POST", path, request, wire.Signalled, is_repeatable=True)

    async def cancel(self, id_: str, request: wire.CancelRequest) -> wire.Cancelled:
        return await self._send("POST", f"{_path(id_)}/cancel", request, wire.Cancelled)

    async def retry(self, id_: str, request: wire.WorkflowRetryRequest) -> wire.Retried:
        return await self._send("POST", f"{_path(id_)}/retry", request, wire.Retried)

    async def delete(self, id_: str) -> wire.WorkflowDeleted:
        return await self._send("DELETE", _path(id_), None, wire.WorkflowDeleted)


def _path(id_: str) -> str:
    return f"/workflows/{name_of(id_)}"
