"""Findings of `queen shard doctor`: what was lost or is older in a database that was restored."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from queen.cli.doctor.findings import CRITICAL, WARNING, Finding
from queen.cli.doctor.slot_findings import REPAIR

if TYPE_CHECKING:
    from queen.store.checks.comparison import LostHome, NewerId, Outbox
    from queen.store.checks.spread_queues import StaleQueue


def homes(lost: Sequence["LostHome"], first: str) -> list[Finding]:
    """Check that requests find all queues."""
    found: list[Finding] = []
    for each in lost:
        text = f"is in slot {each.slot} of {each.database}, but {first} "
        if each.recorded is None:
            text, advice = f"{text}does not know it", f"{first} was restored: {REPAIR}"
        else:
            text = f"{text}searches for it in slot {each.recorded}"
            slot = f"update queen.homes set slot = {each.slot} where name = '{each.queue}'"
            advice = f"for the queue in {each.database}: {slot}, in {first}. Restart all servers"
        found.append(Finding(CRITICAL, f"queue {each.queue}", text, advice))
    return found


def ids(newer: Sequence["NewerId"]) -> list[Finding]:
    """Check that no database creates an id that exists elsewhere."""
    by_pair: dict[tuple[str, str], list[str]] = {}
    for each in newer:
        by_pair.setdefault((each.database, each.found_in), []).append(_kind(each.sequence))
    return [
        Finding(
            CRITICAL,
            f"ids of {database}",
            f"{found_in} has newer ones: {', '.join(sorted(kinds))}",
            f"{database} was restored: {REPAIR}",
        )
        for (database, found_in), kinds in by_pair.items()
    ]


def outboxes(differing: Sequence["Outbox"]) -> list[Finding]:
    """Check that messages between databases are neither lost nor sent again."""
    found: list[Finding] = []
    for each in differing:
        check = f"outbox of {each.queue}"
        if each.waiting:
            messages = "1 message" if each.waiting == 1 else f"{each.waiting:,} messages"
            text = f"{each.sender} has {messages} that {each.receiver} may have stored already"
            advice = f"{each.sender} was restored. To keep them in its outbox: {REPAIR}"
            found.append(Finding(CRITICAL, check, text, advice))
        else:
            # A sequence is a time in microseconds.
            last = datetime.fromtimestamp(each.lost / 1e6, UTC)
            text = f"{each.receiver} lacks messages that {each.sender} has sent, the last"
            advice = f"{each.receiver} was restored: they are lost, unless you enqueue them again"
            found.append(Finding(WARNING, check, f"{text} at {last:%Y-%m-%d %H:%M:%S} UTC", advice))
    return found


def spread_queues(stale: Sequence["StaleQueue"]) -> list[Finding]:
    """Check that spread queues are equal in all databases."""
    return [
        Finding(
            CRITICAL,
            f"queue {each.queue}",
            f"is spread, and {each.database} lacks changes that {each.newest} has",
            f"{each.database} was restored: {REPAIR}",
        )
        for each in stale
    ]


def _kind(sequence: str) -> str:
    return sequence.removeprefix("queen.").removesuffix("_id_seq").removesuffix("_ids")
