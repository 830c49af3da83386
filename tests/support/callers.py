"""Callers with API keys or tokens."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from queen.server.auth.api_keys import new_key
from queen.store.connection.options import Connecting
from queen.store.store import Store
from tests.support.server import Reply, Server

KEYS = {"QUEEN_AUTH": "keys", "HOST": "127.0.0.1"}


async def make_key(
    dsn: str,
    *,
    role: str | None = None,
    permissions: list[str] | None = None,
    scopes: list[dict[str, str]] | None = None,
    requests_per_second: float | None = None,
    name: str = "tests",
    id_: str | None = None,
) -> str:
    """Create a key in the database, as the command line does."""
    key = new_key(id_)
    store = await Store.open(dsn, connecting=Connecting(connections=1))
    try:
        await store.keys.make(
            key.id,
            key.digest,
            name=name,
            role=role or (None if permissions else "admin"),
            permissions=permissions,
            scopes=scopes,
            requests_per_second=requests_per_second,
            created_by="tests",
            expires_at=None,
        )
    finally:
        await store.close()
    return key.text


class Caller(NamedTuple):
    """A caller with a key or a token."""

    server: Server
    token: str

    async def request(
        self,
        method: str,
        path: str,
        body: Any = None,  # noqa: ANN401 - JSON
        *,
        parameters: Mapping[str, str | int | float] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        sent = {"Authorization": f"Bearer {self.token}", **(headers or {})}
        return await self.server.request(method, path, body, headers=sent, parameters=parameters)

    async def get(self, path: str, **parameters: str | int | float) -> Reply:
        return await self.request("GET", path, parameters=parameters)

    async def post(self, path: str, body: Any = None) -> Reply:  # noqa: ANN401 - JSON
        return await self.request("POST", path, body)

    async def delete(self, path: str) -> Reply:
        return await self.request("DELETE", path)

    async def push(self, queue: str, payload: object = 1) -> Reply:
        return await self.post("/push", {"items": [{"queue": queue, "payload": payload}]})
