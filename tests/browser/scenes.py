"""Queues that make no progress, each for another reason, and workflow runs in all states."""

from queen import Queen
from tests.browser.runs import runs


async def scenes(queen: Queen) -> None:
    """Create the queues and the runs."""
    paused = queen.queue("demo.emails").config({"paused": True})
    await paused.create()
    await paused.push([{"data": {"to": "a@b.c", "template": "welcome"}}] * 3)
    await queen.queue("demo.reports").push([{"data": {"month": month}} for month in range(1, 6)])
    await _poison(queen)
    limited = queen.queue("demo.sms").config({"rateLimit": {"max": 1, "durationMillis": 600_000}})
    await limited.create()
    await limited.push([{"data": {"to": f"+39 {number}"}} for number in range(4)])
    for message in await limited.group("carrier").pop():
        await queen.ack(message, True, {"group": "carrier"})
    held = queen.queue("demo.exports").config({"leaseTime": 3600})
    await held.create()
    await held.partition("eu").push([{"data": {"file": f"{number}.csv"}} for number in range(6)])
    await held.group("exporter").batch(2).pop()
    await runs(queen)


async def _poison(queen: Queen) -> None:
    """Push a message that fails and so blocks its partition."""
    payments = queen.queue("demo.payments").config(
        {"retryDelay": 3_600_000, "maxRetryDelay": 86_400_000, "retryLimit": 10}
    )
    await payments.create()
    await payments.partition("card-7").push([{"data": {"amount": 12}}, {"data": {"amount": 30}}])
    for message in await payments.group("ledger").pop():
        why = "ValueError: the currency is missing"
        await queen.ack(message, False, {"error": why, "group": "ledger"})
