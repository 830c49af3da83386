"""The OpenAPI document of this server."""

import asyncio
from typing import Any

import msgspec

from queen.server.http.answer import Answer
from queen.server.http.call import Call, new_routes


class Document(msgspec.Struct, frozen=True):
    """An OpenAPI 3.1 document."""

    openapi: str
    """Version of the OpenAPI specification."""
    info: dict[str, Any]
    """Title, version and license of the API."""
    paths: dict[str, Any]
    """Operations by path and method."""
    components: dict[str, Any]
    """Schemas of requests and responses by name."""


ROUTES, route = new_routes()


@route(
    "GET /api/v1/openapi.json", "Show the OpenAPI document", None, {200: Document}, is_public=True
)
async def openapi(call: Call) -> Answer:
    """Return this document."""
    document = await asyncio.to_thread(call.state.openapi)
    body, headers = await document.encode(call.header(b"accept-encoding"))
    return Answer(body, headers=headers)
