"""Lists and sums over all databases."""

import asyncio
import contextlib
import copy
import itertools
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, TypeVar, cast

import msgspec
from msgspec import structs

from queen import errors
from queen.cluster.cluster import Cluster
from queen.engine.engine import Engine
from queen.server.databases.paging import Cursors, Page, cursors_after, first
from queen.server.http.answer import Answer
from queen.server.http.call import Call, Paged, Route, Summed
from queen.store.cluster.homes import SPREAD

_PARTIAL: Final = "Queen-Partial"
"""Names databases that a list or sum lacks, because they are unavailable."""
_ABSENT: Final = errors.NotFound.http_status
_MOST_READS: Final = 3
"""While slots move constantly, a list can lack a queue or have it twice."""
T = TypeVar("T")


async def answer(call: Call, route: Route, merge: Paged | Summed) -> Answer:
    """Call the handler for each database, and merge the responses."""
    if isinstance(merge, Paged):
        return await _page(call, route, merge)
    if route.body is not None:
        call.keeps_body = True
        await call.body(route.body)
    cluster = call.state.cluster

    async def read(name: str, engine: Engine) -> Answer:
        del name
        # If a slot has moved, its new owner is asked too.
        return await cluster.following.follow((), lambda: _at(call, route, engine))

    def read_all() -> Awaitable[tuple[dict[str, Answer], list[str]]]:
        return _of_each(cluster.engines, read)

    # A change of a spread queue is repeated too, because it may have missed a slot that moved.
    is_repeated = route.method == "GET" or merge is route.spread
    found, partial = await (_steadily(cluster, read_all) if is_repeated else read_all())
    bodies = {name: _decode(route, each) for name, each in found.items()}
    if merge.field is not None:
        bodies = await _owned(cluster, bodies, merge.field, merge.queue, partial)
    if partial and route.method != "GET":
        raise errors.DatabaseUnavailable(
            f"database {partial[0]} is unavailable, and the others have changed. Send the request"
            " again when it is back."
        )
    return _merged(merge.combine([*bodies.values()]), next(iter(found.values())), partial)


async def _page(call: Call, route: Route, merge: Paged) -> Answer:
    assert route.query is not None
    query: Any = call.query(route.query)
    limit = min(query.limit or call.state.settings.api_default_limit, _most(call))
    engines = call.state.cluster.engines
    cursors = _cursors(query.cursor) if query.cursor else dict.fromkeys(engines)
    wanted = {name: each for name, each in engines.items() if name in cursors}
    if not wanted or len(wanted) < len(cursors):
        raise errors.BadRequest("invalid cursor: it does not belong to this list")

    async def read(name: str, engine: Engine, size: int = limit) -> Answer:
        changed = structs.replace(query, cursor=cursors[name], limit=size)
        return await _at(call, route, engine, changed)

    found, partial = await _steadily(call.state.cluster, lambda: _of_each(wanted, read))
    bodies = {name: _decode(route, each) for name, each in found.items()}
    pages = {name: _page_of(body, merge) for name, body in bodies.items()}
    lists = {name: page.entries for name, page in pages.items()}
    # With this filter, a group may be listed only by a database where it is behind.
    are_joined = merge.complete is not None and getattr(query, "min_lag_seconds", None) is None
    is_foreign = await _foreign(
        call.state.cluster, lists, merge.queue, partial, are_joined=are_joined
    )
    order = merge.order(query)
    entries, taken = first(pages, merge, order, limit, is_foreign)

    async def read_again(name: str, size: int) -> Page:
        return _page_of(_decode(route, await read(name, engines[name], size)), merge)

    following: Cursors = {name: cursors[name] for name in partial}
    following |= await cursors_after(pages, taken, order, cursors, read_again)
    if merge.complete is not None:
        available = [engine for name, engine in engines.items() if name not in partial]
        entries = await merge.complete(call, entries, available)
    changes = {
        merge.field: entries,
        "next_cursor": _encoded(following) if following else None,
        **merge.rest([*bodies.values()]),
    }
    body = structs.replace(next(iter(bodies.values())), **changes)
    return _merged(body, next(iter(found.values())), partial)


def _page_of(body: Any, merge: Paged) -> Page:  # noqa: ANN401 - the struct of the route
    return Page(getattr(body, merge.field), body.next_cursor)


async def _steadily(cluster: Cluster, read: Callable[[], Awaitable[T]]) -> T:
    """Read all databases, and again if a slot moved between them meanwhile."""
    owners = cluster.owners
    for reads in itertools.count(1):
        moves = owners.moves
        found = await read()
        with contextlib.suppress(errors.ServiceError, errors.OutcomeUnknown):
            await owners.load()
        if moves == owners.moves or reads == _MOST_READS:
            return found
    raise AssertionError("the reads never end")


async def _foreign(
    cluster: Cluster,
    lists: Mapping[str, Sequence[Any]],
    queue: str | None,
    partial: Sequence[str],
    *,
    are_joined: bool = False,
) -> Callable[[str, Any], bool]:
    """
    Whether an entry is about a queue that another database owns, and lists.

    After a move, the former owner has the rows of a slot until they are deleted. ``are_joined``:
    only the first available database lists a spread queue.
    """
    if queue is None:
        return lambda _, __: False
    names = {str(getattr(entry, queue)) for entries in lists.values() for entry in entries}
    slots: dict[str, int] = {}
    with contextlib.suppress(errors.ServiceError, errors.OutcomeUnknown):
        slots = await cluster.places.of_queues(names)
    lister = next((each for each in cluster.engines if each not in partial), "")
    owners: dict[str, str] = {}
    for name, slot in slots.items():
        if slot != SPREAD:
            owners[name] = cluster.owners.of_slot(slot)
        elif are_joined:
            owners[name] = lister

    def is_foreign(database: str, entry: object) -> bool:
        owner = owners.get(str(getattr(entry, queue)), database)
        return owner != database and owner in cluster.engines and owner not in partial

    return is_foreign


async def _owned(
    cluster: Cluster, bodies: dict[str, Any], field: str, queue: str, partial: Sequence[str]
) -> dict[str, Any]:
    """The responses, with only those entries of a list that the database owns."""
    lists = {name: getattr(body, field) for name, body in bodies.items()}
    is_foreign = await _foreign(cluster, lists, queue, partial)
    return {
        name: structs.replace(
            body, **{field: [each for each in lists[name] if not is_foreign(name, each)]}
        )
        for name, body in bodies.items()
    }


async def _of_each(
    engines: Mapping[str, Engine], call: Callable[[str, Engine], Any]
) -> tuple[dict[str, Answer], list[str]]:
    """The responses of the databases, and those that are unavailable. Raises if all are."""
    results: list[Any] = await asyncio.gather(
        *(call(name, engine) for name, engine in engines.items()), return_exceptions=True
    )
    found: dict[str, Answer] = {}
    partial: list[str] = []
    failure: BaseException | None = None
    absence: errors.QueenError | None = None
    for name, result in zip(engines, results, strict=True):
        if isinstance(result, errors.DatabaseUnavailable | errors.OutcomeUnknown):
            partial.append(name)
            failure = result
        elif isinstance(result, errors.QueenError) and result.http_status == _ABSENT:
            absence = result
        elif isinstance(result, BaseException):
            raise result
        else:
            found[name] = result
    if not found:
        raise absence if failure is None and absence is not None else cast("Any", failure)
    return found, partial


async def _at(call: Call, route: Route, engine: Engine, query: object = None) -> Answer:
    """Call the handler for one database, maybe with another query."""
    own = call.at(engine)
    if query is not None:
        own.head = copy.copy(call.head)
        own.head.queries = {type(query): query}
    return await route.handler(own)


def _decode(route: Route, found: Answer) -> Any:  # noqa: ANN401 - the struct of the route
    type_ = route.answers[found.status]
    assert type_ is not None
    assert found.body is not None
    return msgspec.json.decode(found.body, type=type_)


def _merged(body: object, one: Answer, partial: Sequence[str]) -> Answer:
    headers = dict(one.headers or {})
    if partial:
        headers[_PARTIAL] = ", ".join(partial)
    return Answer(body, status=one.status, headers=headers or None, cache=one.cache)


def _most(call: Call) -> int:
    return call.state.settings.api_max_limit


def _encoded(cursors: Cursors) -> str:
    return urlsafe_b64encode(msgspec.json.encode(cursors)).rstrip(b"=").decode()


def _cursors(text: str) -> Cursors:
    try:
        raw = urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
        return msgspec.json.decode(raw, type=Cursors)
    except (ValueError, UnicodeError, msgspec.DecodeError) as error:
        raise errors.BadRequest("invalid cursor: it does not belong to this list") from error
