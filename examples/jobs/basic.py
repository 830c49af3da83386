"""A job: a queue with a rate limit, a typed processor, retries with backoff, a result."""

import asyncio

import msgspec

from queen import Queen
from queen.jobs import Backoff, Job, JobPriority, QueueManager, Rate

jobs = QueueManager(Queen.from_env())
jobs.register_queue("email-notifications", rate_limit=Rate(max=100, duration="1m"))


class Welcome(msgspec.Struct):
    to: str
    subject: str


class Sent(msgspec.Struct):
    sent: bool
    attempt: int


@jobs.processor(
    "email-notifications", attempts=3, backoff=Backoff("exponential", delay="50ms"), timeout="30s"
)
async def send_welcome_email(job: Job[Welcome]) -> Sent:
    if job.attempt == 1:
        raise ConnectionError("the mail server is busy")  # Retried after its backoff.
    print("to", job.data.to, ":", job.data.subject)
    return Sent(sent=True, attempt=job.attempt)


async def main() -> None:
    async with jobs.queen:
        await jobs.start_workers()
        handle = await send_welcome_email.add(
            Welcome(to="user@example.com", subject="Welcome!"), priority=JobPriority.HIGH
        )
        result = await handle.result(timeout="30s")
        assert result == Sent(sent=True, attempt=2)
        await jobs.shutdown()


asyncio.run(main())
