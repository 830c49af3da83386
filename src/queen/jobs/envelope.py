"""Jobs as messages: the push items of added jobs and of jobs in a chain."""

from collections.abc import Mapping
from typing import Any, Final
from uuid import uuid4

import msgspec

from queen import errors
from queen.client.durations import KEPT_SECONDS, LONG_SECONDS, seconds_of
from queen.client.payloads import encode
from queen.jobs.chains import chain_of
from queen.jobs.options import JobOptions, running_of
from queen.wire.jobs import LEVELS, NORMAL, Envelope, Link, Parent, Running
from queen.wire.messages import PushItem

_ENCODE: Final = msgspec.json.Encoder().encode
_KNOWN: Final = frozenset(JobOptions.__annotations__)
_NAMES: Final = {
    "chainTo": "chain_to",
    "correlationId": "correlation_id",
    "resultTtl": "result_ttl",
    "scheduledAt": "scheduled_at",
}
"""Option names in other job queues."""
_RETENTION: Final = (
    ". Remove jobs with clean_queue(), or by their age with register_queue(name,"
    " options={'retentionEnabled': True, 'completedRetentionSeconds': 3600})"
)
_INSTEAD: Final = {"removeOnComplete": _RETENTION, "removeOnFail": _RETENTION}
"""What to use instead of options that other job queues have."""
_LEVEL: Final = LEVELS[NORMAL]
_NULL: Final = msgspec.Raw(b"null")


class _Plain(msgspec.Struct, frozen=True):
    """The payload of a job without options, as most jobs are."""

    name: str
    data: Any


def options_of(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return options with Queen's names. Raises BadRequest for an unknown option."""
    options = {_NAMES.get(name, name): value for name, value in given.items()}
    if unknown := options.keys() - _KNOWN:
        name = min(unknown)
        raise errors.BadRequest(f"a job has no option {name}{_INSTEAD.get(name, '')}")
    return options


def item_of(queue: str, name: str, data: object, options: Mapping[str, Any] | None) -> PushItem:
    """Return the push item of a job."""
    if not options:
        return PushItem(queue=queue, payload=encode(_Plain(name, data)), priority=_LEVEL)
    options = options_of(options)
    envelope = Envelope(
        name=name,
        data=encode(data),
        chain=chain_of(options.get("chain_to")),
        **running_of(options),
    )
    delay, scheduled_at = options.get("delay"), options.get("scheduled_at")
    if scheduled_at is not None and scheduled_at.tzinfo is None:
        raise errors.BadRequest("scheduled_at needs a time zone")
    is_held_back = delay is not None or scheduled_at is not None
    ttl = options.get("ttl")
    return PushItem(
        queue=queue,
        partition=options.get("key") or "Default",
        payload=msgspec.Raw(_ENCODE(envelope)),
        # The id of a job that is not stored yet. Later its position is an id too.
        transaction_id=options.get("unique") or (str(uuid4()) if is_held_back else None),
        delay_seconds=None if delay is None else seconds_of(delay, "delay", most=LONG_SECONDS),
        available_at=scheduled_at,
        ttl_seconds=None if ttl is None else seconds_of(ttl, "ttl", most=KEPT_SECONDS),
        priority=LEVELS[int(options.get("priority") or NORMAL)],
    )


def child_of(link: Link, parent: Parent | None) -> PushItem:
    """Return the push item of the next job in a chain."""
    result = _NULL if parent is None else parent.result
    envelope = Envelope(
        name=link.name,
        data=result if link.data is msgspec.UNSET else link.data,
        chain=link.chain,
        parent=parent,
        **{option: getattr(link, option) for option in Running.__struct_fields__},
    )
    is_held_back = link.delay_seconds is not None
    return PushItem(
        queue=link.queue,
        partition=link.key or "Default",
        payload=msgspec.Raw(_ENCODE(envelope)),
        transaction_id=link.unique or (str(uuid4()) if is_held_back else None),
        delay_seconds=link.delay_seconds,
        priority=LEVELS[link.priority or NORMAL],
    )
