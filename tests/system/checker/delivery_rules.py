"""Checks of deliveries: complete, in order, one holder, counted attempts."""

from collections import Counter, defaultdict
from collections.abc import Sequence

from tests.system.checker.history import Handed, Op
from tests.system.checker.rules import Rules, Violation


class DeliveryRules(Rules):
    """I1, I7, I9, I10, I12 and I13: each group receives and settles every message."""

    def check(self) -> list[Violation]:
        """All violations of these invariants."""
        self._violations = []
        self._check_terminal()
        self._check_fifo()
        self._check_holders()
        self._check_fencing()
        self._check_final_acks()
        self._check_attempts()
        return self._violations

    def _check_terminal(self) -> None:
        """I1: every group received and settled every message."""
        positions = {
            (partition_id, f"{queue}/{group}"): claimed
            for partition_id, queue, group, claimed in self._evidence.dump["positions"]
        }
        for partition_id, queue, group, *_ in self._evidence.dump["deliveries"]:
            self._say("I1", f"{queue}/{group} has something of {partition_id} out at the end")
        groups: defaultdict[str, list[str]] = defaultdict(list)
        for queue, group in self._evidence.dump["groups"]:
            groups[queue].append(f"{queue}/{group}")
        for stored in self._evidence.stored:
            partition_id, offset = stored.place
            for group in groups[self._evidence.partitions[partition_id][0]]:
                if positions.get((partition_id, group), 0) <= offset:
                    self._say("I1", f"{group} is not done with {stored.key}")
                handed = self._evidence.of_message.get((group, stored.place), [])
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
        for (group, partition_id), handed in self._evidence.of_pair.items():
            if not self._evidence.ordered[handed[0].queue]:
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
        for (group, partition_id), handed in self._evidence.of_pair.items():
            is_ordered = self._evidence.ordered[handed[0].queue]
            live: list[Handed] = []
            for each in handed:
                live = [
                    old
                    for old in live
                    if old.until > each.granted_at
                    and old.settled_from > each.pop.ret
                    and not self._evidence.is_excused(old.pop.inv, each.pop.ret)
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
        for lease_id, times in Counter(each.lease_id for each in self._evidence.handed).items():
            if times > 1:
                self._say("I10", f"lease {lease_id} was given out {times} times")
        for token, times in Counter(
            e.lease_id.split(".")[-1] for e in self._evidence.handed
        ).items():
            if times > 1:
                self._say("I10", f"token {token} was given out {times} times")
        for each in self._evidence.handed:
            for op in each.settles:
                if not op.is_ok:
                    continue
                for later in self._evidence.later(each, each.covered(op)):
                    is_known = later.pop.ret < op.inv
                    if is_known and not self._evidence.is_excused(later.pop.inv, op.ret):
                        self._say("I10", f"{op.name} by {each.lease_id} after {later.lease_id}")

    def _check_final_acks(self) -> None:
        """I12: a pop that begins after a successful ack does not return the message again."""
        for each in self._evidence.handed:
            for op in each.settles:
                if not op.is_ok or op.name != "ack":
                    continue
                for later in self._evidence.later(each, each.covered(op)):
                    if later.pop.inv > op.ret:
                        self._say(
                            "I12",
                            f"{each.group}: {each.partition_id}/{op.args.get('offsets')} acked by "
                            f"{each.lease_id} came again as {later.lease_id}",
                        )

    def _check_attempts(self) -> None:
        """
        I13: one more than the counted failures. A crash may repeat a number, but never skip one.
        """
        unseen: defaultdict[str, list[Op]] = defaultdict(list)
        for op in self._evidence.ops:
            if op.name == "pop" and self._evidence.may_have_claimed_unseen(op):
                unseen[f"{op.args['queue']}/{op.args['group']}"].append(op)
        for (group, place), handed in self._evidence.of_message.items():
            if len(handed) == 1 and handed[0].attempt == 1:
                continue
            stored = self._evidence.at.get(place)
            pushed = self._evidence.sent.get(stored.key) if stored else None
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
                most = 1 + self._evidence.charged_unseen(unseen[group], pushed[0], handed[: at + 1])
                for old in handed[:at]:
                    is_ordered = self._evidence.ordered[old.queue]
                    most += _may_be_charged(old, place[1], is_ordered=is_ordered)
                if each.attempt > most:
                    self._say("I13", f"{group}: {place} attempt {each.attempt}, at most {most}")
                if at and each.attempt < handed[at - 1].attempt:
                    before = handed[at - 1]
                    if not self._evidence.is_excused(before.pop.inv, each.pop.ret):
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
