"""The map of slots to databases and servers, for clients."""

import contextlib
from hashlib import sha256

import msgspec

from queen import errors
from queen.cluster.shards import Shards
from queen.server.auth.permissions import Permission
from queen.server.http.answer import Answer, is_known
from queen.server.http.call import Call, new_routes
from queen.server.routes.views import slot_ranges
from queen.store.connection.database import Record
from queen.wire.resources import ClusterDatabase, ClusterMap, ClusterServer

ROUTES, route = new_routes()


@route(
    "GET /api/v1/cluster",
    "Show the map of slots",
    Permission.PRODUCE,
    {200: ClusterMap, 304: None},
    headers={"If-None-Match": "`ETag` of an earlier response. If it is current, returns 304."},
)
async def show_map(call: Call) -> Answer:
    """
    Return the slots of each database, and which server prefers which databases.

    Every producer may read it, because its client chooses servers by it. It names no queue.
    """
    cluster = call.state.cluster
    owned = await Shards(cluster).owned()
    rows: list[Record] = []
    with contextlib.suppress(errors.ServiceError, errors.OutcomeUnknown):
        rows = await cluster.first.store.instances.addresses()
    found = ClusterMap(
        revision="",
        databases=[
            ClusterDatabase(
                name=name,
                available=not engine.store.database.is_away,
                ranges=slot_ranges(owned.get(name, [])),
            )
            for name, engine in cluster.engines.items()
        ],
        servers=[
            ClusterServer(url=row["address"], preferred_databases=row["preferred"]) for row in rows
        ],
    )
    revision = sha256(msgspec.json.encode(found)).hexdigest()[:16]
    headers = {"ETag": f'"{revision}"'}
    if is_known(call.header(b"if-none-match"), headers["ETag"]):
        return Answer(status=304, headers=headers)
    return Answer(msgspec.structs.replace(found, revision=revision), headers=headers)
