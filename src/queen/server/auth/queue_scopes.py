"""Check that the objects of a request are in its caller's scopes, if it has any."""

from collections.abc import Iterable, Sequence
from uuid import UUID

from queen import errors
from queen.cluster.cluster import Cluster
from queen.codec.ids import Lease, id_of, place_of
from queen.server.auth.permissions import Caller
from queen.wire.messages import Acknowledgment


def outside(caller: Caller) -> errors.Forbidden:
    """Return the same error whether the object exists or not."""
    return errors.Forbidden(f"{caller.name} may not do this: the object is outside its scopes")


async def visible(cluster: Cluster, caller: Caller, names: Iterable[str]) -> set[str]:
    """Return the queues that the caller may see."""
    wanted = set(names)
    if caller.scopes is None:
        return wanted
    seen = {name for name in wanted if caller.sees(name, None)}
    if rest := wanted - seen:
        try:
            known = await cluster.queues(rest)
        except (errors.DatabaseUnavailable, errors.OutcomeUnknown) as error:
            # The push may go to disk. Queues cannot move to another namespace during an outage.
            known = cluster.remembered(rest)
            if unknown := sorted(rest - set(known)):
                raise errors.DatabaseUnavailable(
                    f"The database is unavailable, and the namespace of queue {unknown[0]} is not"
                    " cached here. During the outage, only scopes by queue name cover that queue."
                ) from error
        seen |= {
            name
            for name in rest
            if caller.sees(name, known[name].namespace if name in known else "")
        }
    return seen


async def require_queues(cluster: Cluster, caller: Caller, names: Iterable[str]) -> None:
    if caller.scopes is None:
        return
    wanted = set(names)
    if await visible(cluster, caller, wanted) != wanted:
        raise outside(caller)


async def require_scope(
    cluster: Cluster,
    caller: Caller,
    *,
    queue: str | None,
    namespace: str | None,
    is_made: bool,
) -> None:
    """Raise Forbidden unless a queue, before and after, or a whole namespace is in scope."""
    if caller.scopes is None:
        return
    if queue is None:
        if namespace is None or not caller.sees_all_of(namespace):
            raise outside(caller)
        return
    if not is_made:
        await require_queues(cluster, caller, [queue])
        return
    known = (await cluster.queues([queue])).get(queue)
    if known is not None and not caller.sees(queue, known.namespace):
        raise outside(caller)
    if (known is None or namespace is not None) and not caller.sees(queue, namespace or ""):
        raise outside(caller)
    is_moved = namespace and namespace != (known.namespace if known is not None else "")
    if is_moved and not caller.may_name(queue, namespace or ""):
        # Consumers of that namespace would receive another tenant's messages.
        raise outside(caller)


async def require_partitions(cluster: Cluster, caller: Caller, ids: Iterable[int]) -> None:
    """Raise Forbidden unless all partitions are in scope. Missing ones are not."""
    if caller.scopes is None:
        return
    wanted = set(ids)
    queues = await cluster.queues_of_partitions(wanted)
    if len(queues) < len(wanted):
        raise outside(caller)
    await require_queues(cluster, caller, queues.values())


async def require_leases(cluster: Cluster, caller: Caller, lease_ids: Iterable[str]) -> None:
    """Raise Forbidden unless all leases are in scope. The engine rejects lost ones."""
    if caller.scopes is None:
        return
    wanted: set[tuple[int, UUID]] = set()
    for lease_id in lease_ids:
        try:
            lease = Lease.parse(lease_id)
        except errors.LeaseLost:
            continue
        wanted.add((lease.delivery_id, lease.token))
    queues = await cluster.queues_of_leases(wanted)
    await require_queues(cluster, caller, queues.values())


async def require_acks(
    cluster: Cluster, caller: Caller, acknowledgments: Sequence[Acknowledgment]
) -> None:
    """Raise Forbidden unless each names a message in scope: a transactionId is ambiguous."""
    if caller.scopes is None:
        return
    partition_ids: set[int | None] = set()
    leases: list[str] = []
    for each in acknowledgments:
        if each.partition_id is not None:
            partition_ids.add(id_of(each.partition_id))
        if each.id is not None:
            place = place_of(each.id)
            partition_ids.add(place and place.partition_id)
        if each.partition_id is not None or each.id is not None:
            continue
        if each.lease_id is None:
            raise outside(caller)
        leases.append(each.lease_id)
        if place := place_of(each.transaction_id or ""):
            # If the lease is lost, the engine also accepts an id in place of a transactionId.
            partition_ids.add(place.partition_id)
    if None in partition_ids:
        raise outside(caller)
    await require_partitions(cluster, caller, [each for each in partition_ids if each is not None])
    if leases:
        await require_leases(cluster, caller, leases)
