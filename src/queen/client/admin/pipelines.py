"""Spark pipelines."""

from collections.abc import AsyncIterator

from queen.client.admin.base import Calls, name_of
from queen.wire import resources as wire


class Pipelines(Calls):
    """The pipelines of `queen.admin`."""

    def pipelines(self) -> AsyncIterator[wire.Pipeline]:
        return self._pages("/pipelines", wire.Pipelines, "pipelines", {})

    async def pipeline(self, name: str) -> wire.Pipeline:
        return await self._get(f"/pipelines/{name_of(name)}", wire.Pipeline)
