"""A history and its dump, indexed for the checks."""

import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from tests.system.checker.history import Handed, Line, Op, Place, read, stored_messages


class Evidence:
    """The calls, faults, stored messages and deliveries of one history."""

    def __init__(self, lines: Iterable[Line], dump: Line) -> None:
        self.ops, self.disturbances = read(lines)
        # Only a crash of the database may lose claims. A lost connection does not.
        self.faults = [fault for fault in self.disturbances if fault.target == "pg"]
        self.dump = dump
        self.ordered: dict[str, bool] = dump["queues"]
        self.partitions: dict[int, tuple[str, str]] = {
            int(id_): (queue, name) for id_, (queue, name) in dump["partitions"].items()
        }
        self.stored = stored_messages(dump)
        self.at = {stored.place: stored for stored in self.stored}
        self.places: defaultdict[str, list[Place]] = defaultdict(list)
        for stored in self.stored:
            self.places[stored.key].append(stored.place)
        self.pushes: defaultdict[str, list[Op]] = defaultdict(list)
        """The attempts of one push, by the key of its first message."""
        self.sent: dict[str, tuple[Op, dict[str, Any]]] = {}
        """Maps a key to its first attempt and its item."""
        for op in self.ops:
            if op.name == "push":
                self.pushes[op.args["items"][0]["key"]].append(op)
                for item in op.args["items"]:
                    self.sent.setdefault(item["key"], (op, item))
        self.handed = self._deliveries()
        self.of_pair: defaultdict[tuple[str, int], list[Handed]] = defaultdict(list)
        self.of_message: defaultdict[tuple[str, Place], list[Handed]] = defaultdict(list)
        for handed in sorted(self.handed, key=lambda handed: handed.granted_at):
            self.of_pair[handed.group, handed.partition_id].append(handed)
            for offset in handed.offsets:
                self.of_message[handed.group, (handed.partition_id, offset)].append(handed)
        self._begins = [fault.begin for fault in self.faults]

    def _deliveries(self) -> list[Handed]:
        handed = [
            Handed(
                pop=op,
                queue=op.args["queue"],
                group=f"{op.args['queue']}/{op.args['group']}",
                partition_id=each["partition_id"],
                lease_id=each["lease_id"],
                until=each["until"],
                granted_at=each["until"] - round(each["lease_seconds"] * 1e6),
                attempt=each["attempt"],
                messages=each["messages"],
            )
            for op in self.ops
            if op.name == "pop" and op.is_ok
            for each in op.result["deliveries"]
        ]
        by_lease = {each.lease_id: each for each in handed}
        for op in self.ops:
            if op.name in ("ack", "nack") and (each := by_lease.get(op.args["lease_id"])):
                each.settles.append(op)
        return handed

    def is_excused(self, begin: float, end: float) -> bool:
        """True if a crash in this time may have lost the claims."""
        at = bisect_left(self._begins, begin)
        if at < len(self.faults) and self._begins[at] <= end:
            return True
        return at > 0 and self.faults[at - 1].end >= begin

    def later(self, handed: Handed, offsets: Iterable[int]) -> list[Handed]:
        """Deliveries of any of these messages that were granted after this one."""
        found: dict[int, Handed] = {}
        for offset in offsets:
            for each in self.of_message[handed.group, (handed.partition_id, offset)]:
                if each is not handed and each.granted_at > handed.granted_at:
                    found[id(each)] = each
        return list(found.values())

    def may_have_claimed_unseen(self, op: Op) -> bool:
        """
        True if the call was lost, or waited through a fault, after which the server repeats it.
        """
        return op.outcome == "info" or any(
            op.inv < fault.end and op.ret > fault.begin for fault in self.disturbances
        )

    def charged_unseen(self, unseen: Sequence[Op], pushed: Op, handed: Sequence[Handed]) -> int:
        """
        The largest number of failures that claims without a response may have charged.

        If a pop was lost, or waited through a fault, a server may have claimed messages and lost
        the response. It then claims again for a client that still waits. The history has no other
        trace of such a claim.

        Such a claim only charges by expiry, while no other consumer leases the message. So between
        two deliveries in the history, there are at most as many of them as pops that may have
        caused them. There are also at most as many as whole leases fit, less that of a delivery
        that expired itself. A long pop may cause one with each lease.
        """
        lease = min(each.until - each.granted_at for each in handed) * 1_000
        charged = 0
        before: Handed | None = None
        for each in handed:
            begin, end = before.pop.inv if before else pushed.inv, each.pop.ret
            room = int((end - begin) // lease)
            # If a crash may have lost the claim, it did not necessarily expire.
            if before and before.settled_from == math.inf and not self.is_excused(begin, end):
                room -= 1
            claims = sum(
                1 + int((min(op.ret, end) - max(op.inv, begin)) // lease)
                for op in unseen
                if op.ret > begin and op.inv + lease < end
            )
            charged += max(0, min(claims, room))
            before = each
        return charged
