"""The OpenAPI document of this server."""

from typing import Any, Final

import msgspec

from queen.server.http.answer import Answer
from queen.server.http.call import API, Call, Route


async def openapi(call: Call) -> Answer:
    """This document."""
    return Answer(call.state.openapi)


class Document(msgspec.Struct, frozen=True):
    """An OpenAPI 3.1 document."""

    openapi: str
    info: dict[str, Any]
    paths: dict[str, Any]
    components: dict[str, Any]


ROUTES: Final = (
    Route(
        method="GET",
        path=f"{API}/openapi.json",
        handler=openapi,
        summary="Show the OpenAPI document",
        permission=None,
        is_public=True,
        answers={200: Document},
    ),
)
