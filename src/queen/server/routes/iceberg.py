"""
Iceberg's REST catalog: tables of archives, for readers without a login to the database.

Paths, bodies and errors are those of the Iceberg REST specification, so these routes are not part
of Queen's OpenAPI document. Scopes work by the queue of an archive: a table is visible to callers
that see the queue.
"""

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any, Final

from queen import errors
from queen.server.auth.permissions import Permission
from queen.server.http.answer import Answer
from queen.server.http.call import Call, new_routes
from queen.wire.messages import Wire

ROUTES, route = new_routes()

NAMESPACE: Final = "queen"
_ROOT: Final = "/iceberg/v1"
_ENDPOINTS: Final = (
    "GET /v1/{prefix}/namespaces",
    "GET /v1/{prefix}/namespaces/{namespace}",
    "HEAD /v1/{prefix}/namespaces/{namespace}",
    "GET /v1/{prefix}/namespaces/{namespace}/tables",
    "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "HEAD /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}",
)
"""Operations that clients may use, in the words of the specification."""


class ConfigQuery(Wire, frozen=True, kw_only=True):
    """Parameters of the configuration."""

    warehouse: str | None = None
    """Ignored: there is one."""


class ListQuery(Wire, frozen=True, kw_only=True):
    """Parameters of lists."""

    parent: str | None = None
    """Namespace whose children are listed."""
    page_token: str | None = None
    """Ignored: a list is one page."""
    page_size: int | None = None
    """Ignored: a list is one page."""


class TableQuery(Wire, frozen=True, kw_only=True):
    """Parameters of a table."""

    snapshots: str | None = None
    """Ignored: all snapshots are returned."""


class TableCommit(Wire, frozen=True, kw_only=True):
    """A commit, as in the specification."""

    identifier: dict[str, Any] | None = None
    """Ignored: the path names the table."""
    requirements: tuple[dict[str, Any], ...] = ()
    """Conditions on the current metadata."""
    updates: tuple[dict[str, Any], ...] = ()
    """Changes of the metadata."""


Handler = Callable[[Call], Awaitable[Answer]]


def _translated(handler: Handler) -> Handler:
    """Return errors in the form that Iceberg's clients read."""

    @wraps(handler)
    async def answer(call: Call) -> Answer:
        try:
            return await handler(call)
        except errors.QueenError as error:
            # After 503, clients delete the files of a commit, which may have been applied.
            status = 504 if isinstance(error, errors.OutcomeUnknown) else error.http_status
            kind = _KINDS.get(status, type(error).__name__)
            if status == 404 and "table" not in call.parameters:
                kind = "NoSuchNamespaceException"
            body = {"error": {"message": str(error), "type": kind, "code": status}}
            return Answer(body, status=status, error=type(error))

    return answer


_KINDS: Final = {
    400: "BadRequestException",
    403: "ForbiddenException",
    404: "NoSuchTableException",
    409: "CommitFailedException",
    503: "ServiceUnavailableException",
    504: "CommitStateUnknownException",
}


@route(
    f"GET {_ROOT}/config", "Configure a client", Permission.BROWSE, {200: None}, query=ConfigQuery
)
@_translated
async def config(call: Call) -> Answer:
    """Return the supported operations."""
    call.query(ConfigQuery)
    return Answer({"defaults": {}, "overrides": {}, "endpoints": list(_ENDPOINTS)})


@route(
    f"GET {_ROOT}/namespaces", "List namespaces", Permission.BROWSE, {200: None}, query=ListQuery
)
@_translated
async def list_namespaces(call: Call) -> Answer:
    """List the only namespace, which has no children."""
    names = [] if call.query(ListQuery).parent else [[NAMESPACE]]
    return Answer({"namespaces": names})


@route(f"GET {_ROOT}/namespaces/{{namespace}}", "Show a namespace", Permission.BROWSE, {200: None})
@_translated
async def show_namespace(call: Call) -> Answer:
    """Return the namespace."""
    _require_namespace(call)
    return Answer({"namespace": [NAMESPACE], "properties": {}})


@route(
    f"GET {_ROOT}/namespaces/{{namespace}}/tables",
    "List tables",
    Permission.BROWSE,
    {200: None},
    query=ListQuery,
)
@_translated
async def list_tables(call: Call) -> Answer:
    """List the tables of archives whose queue the caller sees."""
    _require_namespace(call)
    call.query(ListQuery)
    rows = await call.state.engine.store.pipelines.tables(NAMESPACE, call.caller.patterns)
    identifiers = [{"namespace": [NAMESPACE], "name": row["name"]} for row in rows]
    return Answer({"identifiers": identifiers})


@route(
    f"GET {_ROOT}/namespaces/{{namespace}}/tables/{{table}}",
    "Load a table",
    Permission.BROWSE,
    {200: None},
    query=TableQuery,
)
@_translated
async def load_table(call: Call) -> Answer:
    """Return the metadata of a table and its location."""
    call.query(TableQuery)
    name = await _visible(call)
    return Answer(await call.state.tables.load(name))


@route(
    f"POST {_ROOT}/namespaces/{{namespace}}/tables/{{table}}",
    "Commit to a table",
    # A commit can remove all rows.
    Permission.DESTROY,
    {200: None},
    body=TableCommit,
)
@_translated
async def commit_table(call: Call) -> Answer:
    """Apply updates to a table if it is in the expected state."""
    name = await _visible(call)
    body = await call.body(TableCommit)
    request = {"requirements": [*body.requirements], "updates": [*body.updates]}
    actions = [update.get("action") for update in body.updates]
    call.audit(after={"table": f"{NAMESPACE}.{name}", "actions": actions})
    return Answer(await call.state.tables.commit(name, request))


def _require_namespace(call: Call) -> None:
    if call.parameters["namespace"] != NAMESPACE:
        raise errors.NotFound(f"namespace {call.parameters['namespace']} does not exist")


async def _visible(call: Call) -> str:
    """Return the name of the table. Raises NotFound if it is outside the caller's scopes."""
    _require_namespace(call)
    name = call.parameters["table"]
    rows = await call.state.engine.store.pipelines.tables(NAMESPACE, call.caller.patterns, name)
    if not rows:
        raise errors.NotFound(f"table {NAMESPACE}.{name} does not exist")
    if rows[0]["queue"] is not None:
        call.audit(queue=rows[0]["queue"])
    return name
