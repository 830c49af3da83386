"""Find and read one message."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final, NamedTuple

import msgspec

from queen import errors
from queen.codec.ids import Place, id_of, message_id, place_of, reference
from queen.engine.encryption.sealer import Sealer, reveal_rows
from queen.engine.inspect import browse
from queen.engine.inspect.browse import Found
from queen.engine.inspect.group_status import GroupState, overall, pairs_of
from queen.engine.sources.step_messages import without_token
from queen.server.auth.permissions import Permission
from queen.server.http.call import Call
from queen.store.connection.database import Record
from queen.wire.resources import MessageInfo

_NULL: Final = msgspec.Raw(b"null")
_MOST_PARTITIONS: Final = 2_000
"""Partitions that are searched for a transactionId without one, in about 0.1 s."""


class Target(NamedTuple):
    """The message of a path: an offset in a partition, or a scheduled message."""

    partition: Record
    offset: int | None
    scheduled_id: int | None


def message_info(call: Call, queue: str, partition: Record, found: Found) -> MessageInfo:
    """Build the API's view of a message."""
    id_ = message_id(found.partition_id, found.offset)
    if found.is_revealed:
        call.revealed(id_)
    return MessageInfo(
        id=id_,
        transaction_id=found.extra.transaction_id or id_,
        queue=queue,
        partition=partition["name"],
        partition_id=reference(found.partition_id),
        offset=found.offset,
        priority=partition["priority"],
        data=_NULL if found.is_redacted else msgspec.Raw(without_token(found.payload)),
        masked=found.is_masked,
        headers=found.extra.headers or {},
        trace_id=found.extra.trace_id,
        created_at=found.created_at,
        expires_at=found.expires_at,
        status=found.status,
        redacted=found.is_redacted,
    )


def scheduled_info(
    call: Call, queue: str, row: Mapping[str, Any], partition: str, level: int
) -> MessageInfo:
    """Build the API's view of a scheduled message."""
    extra = browse.extra_of(row["extras"])
    ttl: float | None = row["ttl_seconds"]
    if row["is_revealed"]:
        call.revealed(extra.transaction_id or "")
    return MessageInfo(
        id=None,
        transaction_id=extra.transaction_id or "",
        queue=queue,
        partition=partition,
        partition_id=reference(row["partition_id"]),
        offset=None,
        priority=level,
        data=msgspec.Raw(without_token(row["payload"])),
        data_error=row["data_error"],
        masked=row["is_masked"],
        headers=extra.headers or {},
        trace_id=extra.trace_id,
        created_at=None,
        available_at=row["due_at"],
        # The time to live starts when the message is due.
        expires_at=None if ttl is None else row["due_at"] + timedelta(seconds=ttl),
        status="scheduled",
    )


async def read(
    call: Call, target: Target, sealer: Sealer | None = None
) -> tuple[MessageInfo, list[GroupState]]:
    """Read a message: from its segment, from the copy of a dead letter, or before it is due."""
    store = call.state.engine.store
    partition, offset = target.partition, target.offset
    queue: str = partition["queue"]
    if offset is None:
        row = await store.browse.scheduled_one(target.scheduled_id or 0)
        if row is None:
            raise missing(call)
        (opened,) = await reveal_rows(sealer, [row])
        return scheduled_info(call, queue, opened, partition["name"], partition["level"]), []
    places = [(partition["id"], offset, offset + 1)]
    pairs = (await pairs_of(store, places, None)).get(partition["id"], [])
    states = [pair.state(offset) for pair in pairs]
    head = await store.browse.segment_at(partition["id"], offset)
    if head is not None:
        status = "completed" if head["is_redacted"] else overall(states)
        body = await browse.ReadAhead(store, sealer).of(head, ())
        found = body and browse.found_at(head, offset, body, status)
        if found:
            return message_info(call, queue, partition, found), states
    letters = await store.browse.dead_offsets([partition["id"]], [offset], [offset + 1])
    copies = await store.dead_letters.with_ids([each["id"] for each in letters[:1]])
    for letter in await reveal_rows(sealer, copies):
        copy = Found(
            partition_id=partition["id"],
            offset=offset,
            created_at=letter["created_at"],
            expires_at=None,
            is_redacted=False,
            payload=letter["payload"],
            extra=browse.extra_of(letter["extras"]),
            status=overall(states),
            is_masked=letter["is_masked"],
            is_revealed=letter["is_revealed"],
        )
        info = message_info(call, queue, partition, copy)
        return msgspec.structs.replace(info, data_error=letter["data_error"]), states
    raise missing(call)


async def find(call: Call, permission: Permission) -> Target:
    """Find the message of the path: by id, by partition and transactionId, or by transactionId."""
    ref, name = call.parameters["ref"], call.parameters.get("transactionId")
    store = call.state.engine.store
    place = place_of(ref if name is None else name)
    if name is None and place is None:
        place = await _named(call, permission, ref)
    partition_id = id_of(ref) if name is not None else place and place.partition_id
    partition = await store.browse.partition(partition_id) if partition_id else None
    if partition is None:
        raise call.missing(missing(call))
    await call.require_queues(permission, {partition["queue"]})
    call.audit(queue=partition["queue"])
    if name is None or (place is not None and place.partition_id == partition_id):
        assert place is not None
        return Target(partition, place.offset, None)
    found = await store.browse.find(partition["id"], name, browse.MOST_READ)
    if found is None:
        raise missing(call)
    return Target(partition, found["offset"], found["scheduled_id"])


async def _named(call: Call, permission: Permission, transaction_id: str) -> Place | None:
    """Find the only visible message with a transactionId; None without one."""
    call.caller.require(permission)
    engine = call.state.engine
    rows = await engine.store.browse.named(transaction_id, _MOST_PARTITIONS, call.caller.patterns)
    if len(rows) > 1:
        raise errors.AmbiguousMessage(
            f"Several messages have the transactionId {transaction_id!r}. Name the partition:"
            " /messages/{partitionId}/{transactionId}."
        )
    return Place(rows[0]["partition_id"], rows[0]["offset"]) if rows else None


def missing(call: Call) -> errors.MessageNotFound:
    """The error for the message of the path."""
    return errors.MessageNotFound(f"message {'/'.join(call.parameters.values())} does not exist")
