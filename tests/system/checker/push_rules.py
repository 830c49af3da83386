"""Checks of pushes: stored once, complete, in order, byte for byte."""

from collections import defaultdict
from collections.abc import Sequence

from tests.system.checker.history import Line, Op, Place
from tests.system.checker.rules import Rules, Violation


class PushRules(Rules):
    """I1 to I6, I17, I19 and I20: each push is stored as it returned."""

    def check(self) -> list[Violation]:
        """All violations of these invariants."""
        self._violations = []
        self._check_dense()
        self._check_pushes()
        self._check_sequences()
        self._check_keys()
        self._check_push_order()
        self._check_bytes_and_phantoms()
        return self._violations

    def _check_dense(self) -> None:
        """I5: segments cover each partition from 0 without gaps. I6: their times never decrease."""
        expected: defaultdict[int, int] = defaultdict(int)
        latest: dict[int, int] = {}
        for partition_id, base, count, created_at, *_ in sorted(
            self._evidence.dump["segments"], key=lambda segment: (segment[0], segment[1])
        ):
            if base != expected[partition_id]:
                self._say("I5", f"{partition_id} has {base}, expected {expected[partition_id]}")
            expected[partition_id] = base + count
            if created_at < latest.get(partition_id, created_at):
                self._say("I6", f"{partition_id}/{base} is older than the message before it")
            latest[partition_id] = created_at

    def _check_pushes(self) -> None:
        """I1: a successful push is stored, I4: at the returned place, and I19: once."""
        for attempts in self._evidence.pushes.values():
            is_ok = any(op.is_ok for op in attempts)
            for index, item in enumerate(attempts[0].args["items"]):
                places = self._evidence.places.get(item["key"], [])
                if is_ok and not places:
                    self._say("I1", f"{item['key']} was acknowledged and is not stored")
                if len(places) > 1:
                    is_idempotent = item["tx"] is not None or attempts[0].args["producer"]
                    invariant = "I19" if is_idempotent else "I2"
                    self._say(invariant, f"{item['key']} is stored {len(places)} times")
                for op in attempts:
                    if op.is_ok and not op.result.get("is_replayed"):
                        self._check_answer(item, op.result["items"][index], places)
            stored = [bool(self._evidence.places.get(i["key"])) for i in attempts[0].args["items"]]
            if any(stored) and not all(stored):
                self._say("I20", f"{attempts[0].args['items'][0]['key']}: half of a push is stored")

    def _check_answer(self, item: Line, answer: Line, places: Sequence[Place]) -> None:
        place = (answer["partition_id"], answer["offset"])
        if places and place not in places:
            self._say("I4", f"{item['key']} was said to be at {place} and is at {places}")
        there = self._evidence.partitions.get(answer["partition_id"])
        if there is not None and there[1] != item["partition"]:
            self._say("I4", f"{item['key']} went to partition {there[1]}")

    def _check_sequences(self) -> None:
        """I19: the last sequence again returns `replayed`, and a lower one is rejected."""
        by_producer: defaultdict[str, list[Op]] = defaultdict(list)
        for op in self._evidence.ops:
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
                        self._say("I19", f"{producer}: {sequence} is not a replay")
                    highest = max(highest, sequence)
                elif op.outcome == "info":
                    maybe.add(sequence)

    def _check_keys(self) -> None:
        """I17: a transactionId is stored once per partition, and all results name that message."""
        firsts: dict[tuple[int, str], Place] = {}
        for stored in self._evidence.stored:
            if stored.transaction_id is not None:
                key = (stored.place[0], stored.transaction_id)
                if key in firsts:
                    self._say("I17", f"{key} is stored at {firsts[key]} and {stored.place}")
                firsts[key] = stored.place
        for op in self._evidence.ops:
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
        for key, attempts in self._evidence.pushes.items():
            offsets_of: defaultdict[int, list[int]] = defaultdict(list)
            for item in attempts[0].args["items"]:
                for partition_id, offset in self._evidence.places.get(item["key"], [])[:1]:
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
        for stored in self._evidence.stored:
            self._check_source(stored.key, stored.sha, f"stored at {stored.place}")
        for handed in self._evidence.handed:
            for message in handed.messages:
                place = (handed.partition_id, message["offset"])
                where = f"delivered at {place}"
                self._check_source(message["key"], message["sha"], where)
                stored = self._evidence.at.get(place)
                if stored is None:
                    self._say("I4", f"{message['key']} was {where}, where nothing is stored")
                elif stored.key != message["key"]:
                    self._say("I4", f"{message['key']} was {where}, where {stored.key} is")

    def _check_source(self, key: str, sha: str, where: str) -> None:
        if key not in self._evidence.sent:
            self._say("I2", f"{key}, {where}, was never pushed")
            return
        op, item = self._evidence.sent[key]
        attempts = self._evidence.pushes[op.args["items"][0]["key"]]
        if not any(attempt.is_possible for attempt in attempts):
            self._say("I2", f"{key}, {where}, was refused")
        if item["sha"] != sha:
            self._say("I3", f"{key}, {where}, has other bytes")
