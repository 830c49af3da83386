"""Chains: the jobs that follow a job, given as links or as mappings."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

import msgspec

from queen import errors
from queen.client.durations import LONG_SECONDS, seconds_of
from queen.client.payloads import encode
from queen.jobs.options import LinkOptions, running_of
from queen.wire.jobs import Link

_NAMES: Final = {
    "queueName": "queue",
    "jobName": "name",
    "chain": "chain_to",
    "chainTo": "chain_to",
    "correlationId": "correlation_id",
    "resultTtl": "result_ttl",
}
"""Field names on the wire and in other job queues."""
_SECONDS: Final = {
    "delaySeconds": "delay",
    "timeoutSeconds": "timeout",
    "resultSeconds": "result_ttl",
}
_OPTIONS: Final = frozenset(LinkOptions.__annotations__)
_CHECKED: Final = msgspec.json.Decoder(tuple[Link, ...]).decode


def chain_of(given: "Sequence[Link | Mapping[str, Any]] | None") -> tuple[Link, ...]:
    """
    Return the links of a ``chain_to``. Raises BadRequest for a link that a worker can't run.

    A mapping has ``queue`` (or ``queueName``), ``name`` (or ``jobName``), ``data`` and options.
    """
    if not given:
        return ()
    if isinstance(given, Link | Mapping):
        raise errors.BadRequest("chain_to is a list of jobs. Put the job in brackets: [job].")
    links = [each if isinstance(each, Link) else _link(each) for each in given]
    try:
        # Structs check their fields when they are decoded, not when they are created.
        return _CHECKED(msgspec.json.encode(links))
    except msgspec.ValidationError as error:
        raise errors.BadRequest(f"chain_to contains an invalid job: {error}") from error


def _link(given: Mapping[str, Any]) -> Link:
    if not hasattr(given, "keys"):
        raise errors.BadRequest(
            f"chain_to contains {given!r}. Use processor.s(…), or a mapping with 'queue', 'name'"
            " and 'data'."
        )
    members: dict[str, Any] = {}
    for name, value in given.items():
        if name in _SECONDS:
            members[_SECONDS[name]] = timedelta(seconds=value)
        else:
            members[_NAMES.get(name, name)] = value
    queue, name = members.pop("queue", None), members.pop("name", None)
    data = members.pop("data", msgspec.UNSET)
    if unknown := members.keys() - _OPTIONS:
        raise errors.BadRequest(
            f"a job of chain_to has no field {min(unknown)!r}. It has 'queue', 'name', 'data' and"
            f" {', '.join(sorted(_OPTIONS))}."
        )
    if not (isinstance(queue, str) and isinstance(name, str)):
        raise errors.BadRequest(
            f"a job of chain_to needs 'queue' and 'name' as texts: {dict(given)!r}"
        )
    return link_of(queue, name, data, members)


def link_of(queue: str, name: str, data: object, options: Mapping[str, Any]) -> Link:
    """Return a job of a chain. If ``data`` is UNSET, it gets the result of the previous job."""
    found = running_of(options)
    for each in ("priority", "key", "unique"):
        if (value := options.get(each)) is not None:
            found[each] = int(value) if each == "priority" else value
    if (delay := options.get("delay")) is not None:
        found["delay_seconds"] = seconds_of(delay, "delay", most=LONG_SECONDS)
    return Link(
        queue=queue,
        name=name,
        data=msgspec.UNSET if data is msgspec.UNSET else encode(data),
        chain=chain_of(options.get("chain_to")),
        **found,
    )
