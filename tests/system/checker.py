"""
Check a history and the following dump against the invariants, without code of the server.

A history is JSON lines: one before each call, one after it, and the faults::

    {"e":"inv","proc":"p1","seq":41,"op":"push","t":NS,"args":{…}}
    {"e":"ret","proc":"p1","seq":41,"t":NS,"outcome":"ok|fail|info","code":"…","result":{…}}
    {"e":"fault","t":NS,"id":"F3","target":"pg","phase":"begin|end"}

``ok`` was applied, ``fail`` was not, ``info`` may have been. A call without its second line may
have
been applied too.
"""

import base64
import hashlib
import json
import math
import struct
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

Line = Mapping[str, Any]
Place = tuple[int, int]
"""Partition id and offset."""


@dataclass(frozen=True)
class Violation:
    """A broken invariant and its place."""

    invariant: str
    text: str


@dataclass
class Op:
    """One call by one client."""

    proc: str
    name: str
    inv: int
    args: dict[str, Any]
    ret: float = math.inf
    outcome: str = "info"
    code: str | None = None
    result: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def is_ok(self) -> bool:
        return self.outcome == "ok"

    @property
    def is_possible(self) -> bool:
        """True if it was or may have been applied."""
        return self.outcome != "fail"


@dataclass(frozen=True)
class Fault:
    """The time from the first failure until the database is reachable again."""

    begin: int
    end: float
    target: str = "pg"


@dataclass(frozen=True)
class Stored:
    """One message of the dump."""

    place: Place
    key: str
    sha: str
    transaction_id: str | None
    created_at: int


@dataclass
class Handed:
    """One delivery that a consumer received."""

    pop: Op
    queue: str
    group: str
    partition_id: int
    lease_id: str
    until: int
    granted_at: int
    attempt: int
    messages: list[dict[str, Any]]
    settles: list[Op] = field(default_factory=list[Op])

    @cached_property
    def offsets(self) -> list[int]:
        return [message["offset"] for message in self.messages]

    @cached_property
    def settled_from(self) -> float:
        """Time of the first call to settle it that was or may have been applied."""
        return min((op.inv for op in self.settles if op.is_possible), default=math.inf)

    def covered(self, op: Op) -> list[int]:
        """The offsets that an ack or nack of this delivery covers."""
        named = op.args.get("offsets")
        return self.offsets if named is None else named


def read(lines: Iterable[Line]) -> tuple[list[Op], list[Fault]]:
    """The calls of a history, in the order of their start, and its faults."""
    ops: dict[tuple[str, int], Op] = {}
    begun: dict[str, tuple[int, str]] = {}
    faults: list[Fault] = []
    for line in lines:
        match line["e"]:
            case "inv":
                key = (line["proc"], line["seq"])
                ops[key] = Op(line["proc"], line["op"], line["t"], line["args"])
            case "ret":
                op = ops[line["proc"], line["seq"]]
                op.ret, op.outcome = line["t"], line["outcome"]
                op.code, op.result = line.get("code"), line.get("result") or {}
            case "fault" if line["phase"] == "begin":
                begun[line["id"]] = (line["t"], line["target"])
            case "fault":
                begin, target = begun.pop(line["id"])
                faults.append(Fault(begin, line["t"], target))
            case other:
                raise ValueError(f"a history has no {other!r}")
    faults += [Fault(begin, math.inf, target) for begin, target in begun.values()]
    return (
        sorted(ops.values(), key=lambda op: op.inv),
        sorted(faults, key=lambda fault: fault.begin),
    )


def read_files(paths: Iterable[Path]) -> Iterator[Line]:
    for path in paths:
        with path.open() as file:
            for line in file:
                # The last line of a killed client may be incomplete.
                if line.endswith("\n"):
                    yield json.loads(line)


def stored_messages(dump: Line) -> list[Stored]:
    """The messages in the segments of a dump, decoded by the documented layout."""
    found: list[Stored] = []
    for partition_id, base, count, created_at, body, ends, extras in dump["segments"]:
        payloads = _values(base64.b64decode(body), base64.b64decode(ends), count)
        beside: list[bytes] = [b""] * count
        if extras is not None:
            raw = base64.b64decode(extras)
            beside = _values(raw[4 * (count + 1) :], raw[: 4 * (count + 1)], count)
        for at, (payload, extra) in enumerate(zip(payloads, beside, strict=True)):
            found.append(
                Stored(
                    place=(partition_id, base + at),
                    key=json.loads(payload)["key"],
                    sha=hashlib.sha256(payload).hexdigest(),
                    transaction_id=json.loads(extra).get("transactionId") if extra else None,
                    created_at=created_at,
                )
            )
    return found


def _values(body: bytes, ends: bytes, count: int) -> list[bytes]:
    positions = struct.unpack(f"<{count + 1}i", ends)
    return [body[a:b] for a, b in pairwise(positions)]


class Checker:
    """
    Checks one history and one dump.

    Usage::

        checker = Checker(read_files(paths), dump)
        assert checker.check() == []
        assert checker.counts["kills"] >= 20  # Without kills, the check proves nothing.
    """

    def __init__(self, lines: Iterable[Line], dump: Line) -> None:
        self.ops, self.disturbances = read(lines)
        # Only a crash of the database may lose claims. A lost connection does not.
        self.faults = [fault for fault in self.disturbances if fault.target == "pg"]
        self._dump = dump
        self._ordered: dict[str, bool] = dump["queues"]
        self._partitions: dict[int, tuple[str, str]] = {
            int(id_): (queue, name) for id_, (queue, name) in dump["partitions"].items()
        }
        self._stored = stored_messages(dump)
        self._at = {stored.place: stored for stored in self._stored}
        self._places: defaultdict[str, list[Place]] = defaultdict(list)
        for stored in self._stored:
            self._places[stored.key].append(stored.place)
        self._pushes: defaultdict[str, list[Op]] = defaultdict(list)
        """The attempts of one push, by the key of its first message."""
        self._sent: dict[str, tuple[Op, dict[str, Any]]] = {}
        """Maps a key to its first attempt and its item."""
        for op in self.ops:
            if op.name == "push":
                self._pushes[op.args["items"][0]["key"]].append(op)
                for item in op.args["items"]:
                    self._sent.setdefault(item["key"], (op, item))
        self._handed = self._deliveries()
        self._of_pair: defaultdict[tuple[str, int], list[Handed]] = defaultdict(list)
        self._of_message: defaultdict[tuple[str, Place], list[Handed]] = defaultdict(list)
        for handed in sorted(self._handed, key=lambda handed: handed.granted_at):
            self._of_pair[handed.group, handed.partition_id].append(handed)
            for offset in handed.offsets:
                self._of_message[handed.group, (handed.partition_id, offset)].append(handed)
        self._begins = [fault.begin for fault in self.faults]
        self.counts: Counter[str] = Counter()
        self._violations: list[Violation] = []

    def check(self) -> list[Violation]:
        """All violations in the history."""
        self._violations = []
        self._count()
        self._check_dense()
        self._check_pushes()
        self._check_sequences()
        self._check_keys()
        self._check_push_order()
        self._check_bytes_and_phantoms()
        self._check_terminal()
        self._check_fifo()
        self._check_holders()
        self._check_fencing()
        self._check_final_acks()
        self._check_attempts()
        return self._violations

    def recoveries(self) -> list[tuple[float, float]]:
        """Per fault: seconds without the database, and from then until a push succeeded."""
        answers = sorted(op.ret for op in self.ops if op.name == "push" and op.is_ok)
        found: list[tuple[float, float]] = []
        for fault in self.faults:
            at = bisect_left(answers, fault.end)
            if at < len(answers):
                found.append(((fault.end - fault.begin) / 1e9, (answers[at] - fault.end) / 1e9))
        return found

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

    def _count(self) -> None:
        counts = self.counts
        counts["ops"] = len(self.ops)
        counts["kills"] = len(self.faults)
        counts["messages"] = len(self._stored)
        for op in self.ops:
            counts[f"{op.name}_{op.outcome}"] += 1
            if op.code is not None:
                counts[op.code] += 1
            if op.name == "push" and op.is_ok:
                counts["acknowledged"] += len(op.args["items"])
                counts["replayed"] += bool(op.result.get("is_replayed"))
                counts["duplicates"] += sum(
                    item["status"] == "duplicate" for item in op.result["items"]
                )
        counts["delivered"] = sum(len(each.offsets) for each in self._handed)
        counts["redelivered"] = sum(len(each) > 1 for each in self._of_message.values())
        counts["unknown"] = sum(n for name, n in counts.items() if name.endswith("_info"))
        counts["unknown_retried_ok"] = sum(
            attempts[0].outcome == "info" and any(op.is_ok for op in attempts[1:])
            for attempts in self._pushes.values()
        )

    def _say(self, invariant: str, text: str) -> None:
        self._violations.append(Violation(invariant, text))

    def _is_excused(self, begin: float, end: float) -> bool:
        """True if a crash in this time may have lost the claims."""
        at = bisect_left(self._begins, begin)
        if at < len(self.faults) and self._begins[at] <= end:
            return True
        return at > 0 and self.faults[at - 1].end >= begin

    def _may_have_claimed_unseen(self, op: Op) -> bool:
        """
        True if the call was lost, or waited through a fault, after which the server repeats it.
        """
        return op.outcome == "info" or any(
            op.inv < fault.end and op.ret > fault.begin for fault in self.disturbances
        )

    def _charged_unseen(self, unseen: Sequence[Op], pushed: Op, handed: Sequence[Handed]) -> int:
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
            if before and before.settled_from == math.inf and not self._is_excused(begin, end):
                room -= 1
            claims = sum(
                1 + int((min(op.ret, end) - max(op.inv, begin)) // lease)
                for op in unseen
                if op.ret > begin and op.inv + lease < end
            )
            charged += max(0, min(claims, room))
            before = each
        return charged

    def _check_dense(self) -> None:
        """I5: segments cover each partition from 0 without gaps. I6: their times never decrease."""
        expected: defaultdict[int, int] = defaultdict(int)
        latest: dict[int, int] = {}
        for partition_id, base, count, created_at, *_ in sorted(
            self._dump["segments"], key=lambda segment: (segment[0], segment[1])
        ):
            if base != expected[partition_id]:
                self._say("I5", f"{partition_id} has {base}, expected {expected[partition_id]}")
            expected[partition_id] = base + count
            if created_at < latest.get(partition_id, created_at):
                self._say("I6", f"{partition_id}/{base} is older than the message before it")
            latest[partition_id] = created_at

    def _check_pushes(self) -> None:
        """I1: a successful push is stored, I4: at the returned place, and I19: once."""
        for attempts in self._pushes.values():
            is_ok = any(op.is_ok for op in attempts)
            for index, item in enumerate(attempts[0].args["items"]):
                places = self._places.get(item["key"], [])
                if is_ok and not places:
                    self._say("I1", f"{item['key']} was acknowledged and is not stored")
                if len(places) > 1:
                    is_idempotent = item["tx"] is not None or attempts[0].args["producer"]
                    invariant = "I19" if is_idempotent else "I2"
                    self._say(invariant, f"{item['key']} is stored {len(places)} times")
                for op in attempts:
                    if op.is_ok and not op.result.get("is_replayed"):
                        self._check_answer(item, op.result["items"][index], places)
            stored = [bool(self._places.get(i["key"])) for i in attempts[0].args["items"]]
            if any(stored) and not all(stored):
                self._say("I20", f"{attempts[0].args['items'][0]['key']}: half of a push is stored")

    def _check_answer(self, item: Line, answer: Line, places: Sequence[Place]) -> None:
        place = (answer["partition_id"], answer["offset"])
        if places and place not in places:
            self._say("I4", f"{item['key']} was said to be at {place} and is at {places}")
        there = self._partitions.get(answer["partition_id"])
        if there is not None and there[1] != item["partition"]:
            self._say("I4", f"{item['key']} went to partition {there[1]}")

    def _check_sequences(self) -> None:
        """I19: the last sequence again returns `replayed`, and a lower one is rejected."""
        by_producer: defaultdict[str, list[Op]] = defaultdict(list)
        for op in self.ops:
            if op.name == "push" and op.args["producer"] is not None:
                by_producer[op.args["producer"]].append(op)
        for producer, ops in by_producer.items():
            # A producer has one request in flight, so results have the order of the calls.
            highest = -1
            maybe: set[int] = set()
            for op in ops:
                sequence = op.args["sequence"]
                if op.is_ok:
                    is_replayed = op.result.get("is_replayed", False)
                    if sequence < highest:
                        self._say("I19", f"{producer}: {sequence} was taken after {highest}")
                    elif sequence == highest and not is_replayed:
                        self._say("I19", f"{producer}: {sequence} was taken twice")
                    elif sequence > highest and is_replayed and sequence not in maybe:
                        self._say("I19", f"{producer}: {sequence} is no replay")
                    highest = max(highest, sequence)
                elif op.outcome == "info":
                    maybe.add(sequence)

    def _check_keys(self) -> None:
        """I17: a transactionId is stored once per partition, and all results name that message."""
        firsts: dict[tuple[int, str], Place] = {}
        for stored in self._stored:
            if stored.transaction_id is not None:
                key = (stored.place[0], stored.transaction_id)
                if key in firsts:
                    self._say("I17", f"{key} is stored at {firsts[key]} and {stored.place}")
                firsts[key] = stored.place
        for op in self.ops:
            if op.name != "push" or not op.is_ok:
                continue
            for item, answer in zip(op.args["items"], op.result["items"], strict=False):
                if item["tx"] is None:
                    continue
                first = firsts.get((answer["partition_id"], item["tx"]))
                place = (answer["partition_id"], answer["offset"])
                if first is not None and place != first:
                    self._say("I17", f"{item['tx']} is at {first}, an answer says {place}")

    def _check_push_order(self) -> None:
        """
        I6: a push that returned before another began has lower offsets, and a batch keeps its
        order.
        """
        events: list[tuple[float, int, dict[int, list[int]], str]] = []
        for key, attempts in self._pushes.items():
            offsets_of: defaultdict[int, list[int]] = defaultdict(list)
            for item in attempts[0].args["items"]:
                for partition_id, offset in self._places.get(item["key"], [])[:1]:
                    offsets_of[partition_id].append(offset)
            for partition_id, offsets in offsets_of.items():
                if offsets != sorted(offsets):
                    self._say("I6", f"{partition_id}: the batch of {key} is out of order")
            events.append((attempts[0].inv, 1, offsets_of, key))
            returned = [op.ret for op in attempts if op.is_ok]
            if returned:
                events.append((min(returned), 0, offsets_of, key))
        highest: defaultdict[int, int] = defaultdict(lambda: -1)
        for _, is_begin, of_push, key in sorted(events, key=lambda event: event[:2]):
            for partition_id, offsets in of_push.items():
                if not is_begin:
                    highest[partition_id] = max(highest[partition_id], *offsets)
                elif min(offsets) < highest[partition_id]:
                    self._say(
                        "I6",
                        f"{partition_id}: {key} at {min(offsets)} began after "
                        f"{highest[partition_id]} had returned",
                    )

    def _check_bytes_and_phantoms(self) -> None:
        """I2: stored and delivered messages were pushed, I3: byte for byte, I4: at one place."""
        for stored in self._stored:
            self._check_source(stored.key, stored.sha, f"stored at {stored.place}")
        for handed in self._handed:
            for message in handed.messages:
                place = (handed.partition_id, message["offset"])
                where = f"delivered at {place}"
                self._check_source(message["key"], message["sha"], where)
                stored = self._at.get(place)
                if stored is None:
                    self._say("I4", f"{message['key']} was {where}, where nothing is stored")
                elif stored.key != message["key"]:
                    self._say("I4", f"{message['key']} was {where}, where {stored.key} is")

    def _check_source(self, key: str, sha: str, where: str) -> None:
        if key not in self._sent:
            self._say("I2", f"{key}, {where}, was never pushed")
            return
        op, item = self._sent[key]
        attempts = self._pushes[op.args["items"][0]["key"]]
        if not any(attempt.is_possible for attempt in attempts):
            self._say("I2", f"{key}, {where}, was refused")
        if item["sha"] != sha:
            self._say("I3", f"{key}, {where}, has other bytes")

    def _check_terminal(self) -> None:
        """I1: every group received and settled every message."""
        positions = {
            (partition_id, f"{queue}/{group}"): claimed
            for partition_id, queue, group, claimed in self._dump["positions"]
        }
        for partition_id, queue, group, *_ in self._dump["deliveries"]:
            self._say("I1", f"{queue}/{group} has something of {partition_id} out at the end")
        groups: defaultdict[str, list[str]] = defaultdict(list)
        for queue, group in self._dump["groups"]:
            groups[queue].append(f"{queue}/{group}")
        for stored in self._stored:
            partition_id, offset = stored.place
            for group in groups[self._partitions[partition_id][0]]:
                if positions.get((partition_id, group), 0) <= offset:
                    self._say("I1", f"{group} is not done with {stored.key}")
                handed = self._of_message.get((group, stored.place), [])
                if not handed:
                    self._say("I1", f"{stored.key} was never delivered to {group}")
                elif not any(
                    op.is_possible and op.name == "ack" and offset in each.covered(op)
                    for each in handed
                    for op in each.settles
                ):
                    self._say("I1", f"{group} never acked {stored.key}")

    def _check_fifo(self) -> None:
        """I7: on its first delivery, all messages before it are settled or delivered with it."""
        for (group, partition_id), handed in self._of_pair.items():
            if not self._ordered[handed[0].queue]:
                continue
            events: list[tuple[float, int, Handed, Sequence[int]]] = []
            for each in handed:
                events.append((each.pop.ret, 1, each, each.offsets))
                events += [
                    (op.inv, 0, each, each.covered(op))
                    for op in each.settles
                    if op.name == "ack" and op.is_possible
                ]
            settled: set[int] = set()
            seen: set[int] = set()
            mark = 0
            for _, is_delivery, _, offsets in sorted(events, key=lambda event: event[:2]):
                if not is_delivery:
                    settled.update(offsets)
                    continue
                while mark in settled:
                    mark += 1
                at = mark
                for offset in offsets:
                    while at in settled:
                        at += 1
                    if offset not in seen and offset > at:
                        self._say("I7", f"{group}: {partition_id}/{offset} came before {at}")
                        break
                    at = max(at, offset + 1)
                seen.update(offsets)

    def _check_holders(self) -> None:
        """I9: a leased message goes to no other consumer before its lease is over or lost."""
        for (group, partition_id), handed in self._of_pair.items():
            is_ordered = self._ordered[handed[0].queue]
            live: list[Handed] = []
            for each in handed:
                live = [
                    old
                    for old in live
                    if old.until > each.granted_at
                    and old.settled_from > each.pop.ret
                    and not self._is_excused(old.pop.inv, each.pop.ret)
                ]
                for old in live:
                    common = set(old.offsets).intersection(each.offsets)
                    if is_ordered or common:
                        self._say(
                            "I9",
                            f"{group}: {partition_id} {old.offsets[:1]} is held by {old.lease_id} "
                            f"and was given to {each.lease_id}",
                        )
                live.append(each)

    def _check_fencing(self) -> None:
        """I10: a lease belongs to one delivery, and a stale lease settles no message."""
        for lease_id, times in Counter(each.lease_id for each in self._handed).items():
            if times > 1:
                self._say("I10", f"lease {lease_id} was given out {times} times")
        for token, times in Counter(e.lease_id.split(".")[-1] for e in self._handed).items():
            if times > 1:
                self._say("I10", f"token {token} was given out {times} times")
        for each in self._handed:
            for op in each.settles:
                if not op.is_ok:
                    continue
                for later in self._later(each, each.covered(op)):
                    is_known = later.pop.ret < op.inv
                    if is_known and not self._is_excused(later.pop.inv, op.ret):
                        self._say("I10", f"{op.name} by {each.lease_id} after {later.lease_id}")

    def _check_final_acks(self) -> None:
        """I12: a pop that begins after a successful ack does not return the message again."""
        for each in self._handed:
            for op in each.settles:
                if not op.is_ok or op.name != "ack":
                    continue
                for later in self._later(each, each.covered(op)):
                    if later.pop.inv > op.ret:
                        self._say(
                            "I12",
                            f"{each.group}: {each.partition_id}/{op.args.get('offsets')} acked by "
                            f"{each.lease_id} came again as {later.lease_id}",
                        )

    def _later(self, handed: Handed, offsets: Iterable[int]) -> list[Handed]:
        """Deliveries of any of these messages that were granted after this one."""
        found: dict[int, Handed] = {}
        for offset in offsets:
            for each in self._of_message[handed.group, (handed.partition_id, offset)]:
                if each is not handed and each.granted_at > handed.granted_at:
                    found[id(each)] = each
        return list(found.values())

    def _check_attempts(self) -> None:
        """
        I13: one more than the counted failures. A crash may repeat a number, but never skip one.
        """
        unseen: defaultdict[str, list[Op]] = defaultdict(list)
        for op in self.ops:
            if op.name == "pop" and self._may_have_claimed_unseen(op):
                unseen[f"{op.args['queue']}/{op.args['group']}"].append(op)
        for (group, place), handed in self._of_message.items():
            if len(handed) == 1 and handed[0].attempt == 1:
                continue
            stored = self._at.get(place)
            pushed = self._sent.get(stored.key) if stored else None
            if pushed is None:
                continue  # Reported as another violation.
            for at, each in enumerate(handed):
                nacks = [
                    op
                    for old in handed[:at]
                    for op in old.settles
                    if op.name == "nack" and place[1] in old.covered(op)
                ]
                least = 1 + sum(op.is_ok and op.ret < each.pop.inv for op in nacks)
                if each.attempt < least:
                    self._say("I13", f"{group}: {place} attempt {each.attempt} after {least - 1}")
                most = 1 + self._charged_unseen(unseen[group], pushed[0], handed[: at + 1])
                for old in handed[:at]:
                    is_ordered = self._ordered[old.queue]
                    most += _may_be_charged(old, place[1], is_ordered=is_ordered)
                if each.attempt > most:
                    self._say("I13", f"{group}: {place} attempt {each.attempt}, at most {most}")
                if at and each.attempt < handed[at - 1].attempt:
                    before = handed[at - 1]
                    if not self._is_excused(before.pop.inv, each.pop.ret):
                        self._say("I13", f"{group}: {place} attempt fell to {each.attempt}")


def _may_be_charged(handed: Handed, offset: int, *, is_ordered: bool) -> bool:
    """A delivery charges the messages of a nack, or at its expiry the first unsettled message."""
    settled: set[int] = set()
    for op in handed.settles:
        if not op.is_possible:
            continue
        if op.name == "nack" and offset in handed.covered(op):
            return True
        if op.name == "nack" and op.is_ok and is_ordered:
            return False  # The delivery ended there.
        settled.update(handed.covered(op))
    before = [each for each in handed.offsets if each < offset]
    return settled.issuperset(before)
