"""Jobs and workflows of the demo: emails, a report every minute, and trips that are booked."""

import asyncio
import contextlib
import random
from typing import Any, Final

from queen import DeadLetter, Queen, errors
from queen.cli.dev.demo_streams import EMAILS, RETENTION_SECONDS, TRIPS
from queen.jobs import Job, QueueManager, Step, Workflow

_EMAILS: Final = EMAILS.queue
_TRIPS: Final = TRIPS.queue
_REPORTS: Final = "demo.reports"
_RETENTION: Final = {
    "retentionEnabled": True,
    "completedRetentionSeconds": 12 * RETENTION_SECONDS,
}
_CITIES: Final = ("Lisbon", "Oslo", "Kyoto", "Lima", "Cairo")
_FAILED_ID: Final = "demo-trip-without-a-car"
_WAITING_ID: Final = "demo-offer-1"


class DemoJobs:
    """The job queues of the demo with their worker."""

    def __init__(self, queen: Queen) -> None:
        self._queen = queen
        self._manager = manager = QueueManager(queen)
        self._chance = random.Random(11)
        self._step_seconds = 0.05
        for queue in (_EMAILS, _REPORTS, _TRIPS):
            manager.register_queue(queue, options=_RETENTION)

        async def send_email(job: Job[Any]) -> None:
            await self._work(0.15)

        async def refresh_report(job: Job[Any]) -> None:
            for part in range(1, 5):
                await self._work(1)
                await job.progress(part / 4)

        async def book(job: Job[Any]) -> dict[str, Any]:
            await self._work(self._step_seconds)
            if job.data.get("isSoldOut"):
                raise DeadLetter("no car is left")
            return {"booking": f"{job.data['what']}-{self._chance.randrange(10_000)}"}

        async def do(job: Job[Any]) -> None:
            await self._work(self._step_seconds)

        manager.register_processor(_EMAILS, send_email, name="send_email")
        manager.every("1m", queue=_REPORTS, name="refresh_report")(refresh_report)
        manager.register_processor(_TRIPS, book, name="book")
        manager.register_processor(_TRIPS, do)

    async def start(self) -> None:
        """Start the worker."""
        await self._manager.start_workers(concurrency=20, shutdown_timeout=0.5)

    async def stop(self) -> None:
        await self._manager.shutdown()

    async def add_emails(self, count: int) -> None:
        data = {"template": "order-confirmation"}
        await self._manager.add_bulk(
            _EMAILS, [{"name": "send_email", "data": data} for _ in range(count)]
        )

    async def book_trip(self) -> None:
        """Start a workflow that completes within some seconds."""
        await self._manager.execute_workflow(_trip(self._chance.choice(_CITIES)))

    async def book_first_trips(self) -> None:
        """Start runs in different states: one fails and is compensated, one waits for a signal."""
        with contextlib.suppress(errors.WorkflowExists):
            await self._manager.execute_workflow(_offer())
            sold_out = _trip("Reykjavik", id_=_FAILED_ID, is_sold_out=True)
            failed = await self._manager.execute_workflow(sold_out)
            await failed.wait(timeout="1m")
            # The run shows its failure. Only the payments need attention.
            operation = await self._queen.admin.purge_dead_letters(_TRIPS)
            await self._queen.admin.finished(operation)
        self._step_seconds = TRIPS.work_seconds
        for city in _CITIES:
            await self._manager.execute_workflow(_trip(city))

    async def _work(self, seconds: float) -> None:
        await asyncio.sleep(self._chance.uniform(0.5, 1.5) * seconds)


def _trip(city: str, *, id_: str | None = None, is_sold_out: bool = False) -> Workflow:
    def undo(what: str) -> Step:
        return Step(_TRIPS, "cancel_booking", {"what": what})

    car = {"what": "car", "isSoldOut": is_sold_out}
    return (
        Workflow(name="trip", id=id_, metadata={"correlationId": city, "tags": ["travel"]})
        .step("flight", _TRIPS, "book", {"what": "flight"}, compensate=undo("flight"))
        .step(
            "hotel", _TRIPS, "book", {"what": "hotel"}, after=["flight"], compensate=undo("hotel")
        )
        .step("car", _TRIPS, "book", car, after=["flight"])
        .step("insurance", _TRIPS, "check_offer", after=["flight"])
        .step("pay", _TRIPS, "pay", after=["hotel", "car", "insurance"])
        .step("tickets", _TRIPS, "send_tickets", after=["pay"])
        .step("invoice", _TRIPS, "send_invoice", after=["pay"])
    )


def _offer() -> Workflow:
    return (
        Workflow(name="offer", id=_WAITING_ID, metadata={"tags": ["sales"]})
        .step("draft", _TRIPS, "draft")
        .wait_for("approve", timeout="2d", after=["draft"], on_failure=["revise"])
        .step("send", _TRIPS, "send_offer", after=["approve"])
        .step("revise", _TRIPS, "revise")
    )
