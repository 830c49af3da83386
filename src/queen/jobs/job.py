"""`Job`: the argument of a processor."""

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Generic, Unpack

import msgspec
from msgspec import UNSET, UnsetType

from queen import errors
from queen.client.message import Message, T, part
from queen.client.payloads import Codec, encode
from queen.jobs.api import JobCalls
from queen.jobs.envelope import child_of, item_of
from queen.jobs.options import JobOptions, JobPriority
from queen.wire.jobs import PRIORITIES, Envelope, Link, Parent
from queen.wire.messages import MessageRun, PushItem
from queen.wire.workflows import WorkflowPlace

if TYPE_CHECKING:
    from queen.client.client import Queen

ENVELOPES: Final = Codec(Envelope)


class JobTransaction:
    """
    Pushes that are applied in the transaction that acknowledges the job, or not at all.

    Usage::

        effects = job.transaction()
        effects.push("orders", {"data": {"n": 1}}, partition="user-7")
        effects.add_job("email", "send-welcome", {"to": "a@b.c"})
    """

    __slots__ = ("_queen", "items", "queues")

    def __init__(self, queen: "Queen") -> None:
        self._queen = queen
        self.items: list[PushItem] = []
        """The messages to push."""
        self.queues: set[str] = set()
        """Queues of its jobs. Missing ones are created as job queues."""

    def push(
        self,
        queue: str,
        items: "Sequence[Mapping[str, Any]] | Mapping[str, Any]",
        *,
        partition: str = "Default",
    ) -> None:
        """Push messages, with the arguments of `queen.queue(name).push`."""
        self.items += self._queen.queue(queue).partition(partition).items(items)

    def add_job(
        self, queue: str, name: str, data: object = None, **options: Unpack[JobOptions]
    ) -> None:
        """Add a job, with the arguments of `QueueManager.add_job`."""
        self.items.append(item_of(queue, name, data, options))
        self.queues.add(queue)

    def add(self, *links: Link) -> None:
        """Add jobs from ``processor.s(…)``."""
        self.items += [child_of(link, None) for link in links]
        self.queues.update(link.queue for link in links)


class Job(msgspec.Struct, Generic[T], eq=False):
    """
    The job that a processor runs.

    Usage::

        @jobs.processor("email")
        async def send_welcome(job: Job[Welcome]) -> None:
            await job.progress(0.5)
            await send(job.data.to)
    """

    _run: MessageRun
    _at: int
    """Its index in the run of messages."""
    envelope: Envelope
    """The stored form of the job."""
    _codec: Codec[T]
    max_attempts: int
    """The number of attempts before the job fails."""
    _queen: "Queen | None" = None
    """None with ``process=True``, because that process has no connection."""
    is_cancelled: bool = False
    """The job was cancelled, lost to another worker, or timed out. Threads can check this."""
    _loop: asyncio.AbstractEventLoop | None = None
    _transaction: JobTransaction | None = None
    _data: T | UnsetType = UNSET
    _message: Message[Envelope] | None = None

    @property
    def message(self) -> Message[Envelope]:
        """The message that contains the job."""
        if self._message is None:
            queen: Any = self._queen
            self._message = Message(self._run, self._at, ENVELOPES, queen)
            if self.is_cancelled:
                self._message.is_lost = True
        return self._message

    @property
    def data(self) -> T:
        """The data, decoded at the first access to the type of the processor's annotation."""
        if self._data is UNSET:
            self._data = self._codec.decode(self.envelope.data)
        return self._data

    @property
    def id(self) -> str:
        """Its id in the queue."""
        return self.message.transaction_id

    @property
    def name(self) -> str:
        """The name of the job, which selects its processor."""
        return self.envelope.name

    @property
    def queue(self) -> str:
        """The name of the queue."""
        return self._run.queue

    @property
    def key(self) -> str | None:
        """The ``key`` that it was added with."""
        return None if self._run.partition == "Default" else self._run.partition

    @property
    def attempt(self) -> int:
        """The number of this attempt, from 1."""
        return self._run.attempt

    @property
    def priority(self) -> JobPriority:
        """The priority of the job."""
        return JobPriority(PRIORITIES.get(self._run.priority, JobPriority.NORMAL))

    @property
    def created_at(self) -> datetime:
        """The time when the job was added."""
        return self._run.created_at

    @property
    def tick(self) -> datetime | None:
        """The scheduled time, if a schedule added the job."""
        tick = self.message.headers.get("queen-tick")
        return None if tick is None else datetime.fromisoformat(tick)

    @property
    def metadata(self) -> dict[str, Any]:
        """The metadata that was added with the job."""
        return self.envelope.metadata or {}

    @property
    def correlation_id(self) -> str | None:
        """The id that connects related jobs, or None."""
        return self.metadata.get("correlationId")

    @property
    def tags(self) -> list[str]:
        """The tags that the job was added with."""
        return self.metadata.get("tags", [])

    @property
    def parent(self) -> Parent | None:
        """The previous job of the chain, with its result."""
        return self.envelope.parent

    @property
    def parent_result(self) -> Any:  # noqa: ANN401 - whatever it returned
        """The previous job's result in a chain, or None."""
        parent = self.envelope.parent
        return None if parent is None else _ANY.decode(parent.result)

    @property
    def workflow(self) -> WorkflowPlace | None:
        """Its workflow step, with the results of previous steps."""
        return self.envelope.workflow

    async def progress(self, value: object) -> None:
        """Report progress: any JSON, often a share from 0 to 1. Raises LeaseLost."""
        lease_id = self._run.lease_id
        if lease_id is None or self._queen is None:
            raise errors.LeaseLost("a job without a lease can't report progress")
        await JobCalls(self._queen).report_progress(
            self.queue, self.id, lease_id, encode(value), self._run.partition
        )

    def report_progress(self, value: object) -> None:
        """Report progress from a plain function, which runs in a thread, and wait."""
        self.wait_for(self.progress(value))

    def wait_for(self, coroutine: "Coroutine[Any, Any, Any]") -> Any:  # noqa: ANN401 - its result
        """Run a coroutine of the SDK from a processor in a thread, and wait for it."""
        if self._loop is None:
            coroutine.close()
            raise errors.BadRequest("wait_for needs a processor that runs in a thread: use await")
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def transaction(self) -> JobTransaction:
        """
        Return the pushes that are applied together with the acknowledgment of this job.

        Raises BadRequest with ``process=True``, because that process can't push.
        """
        if self._queen is None:
            raise errors.BadRequest(
                "a processor with process=True has no transaction: return the data to push instead"
            )
        if self._transaction is None:
            self._transaction = JobTransaction(self._queen)
        return self._transaction

    # For the worker.

    @property
    def is_plain(self) -> bool:
        """Completing the job has no further effect, as for most jobs."""
        envelope = self.envelope
        return self._transaction is None and not envelope.chain and envelope.workflow is None

    def pushed(self) -> list[PushItem]:
        """The pushes of its transaction."""
        return [] if self._transaction is None else self._transaction.items

    def followed_in(self) -> set[str]:
        """Queues of the jobs that follow this one."""
        own = set[str]() if self._transaction is None else self._transaction.queues
        return own.union(link.queue for link in self.envelope.chain)

    def part(self) -> MessageRun:
        """Return only its message, undecoded, for a process."""
        return part(self._run, self._at)

    def withdraw(self) -> None:
        """Mark the job as lost for this worker. Its processor can check that."""
        self.is_cancelled = True
        if self._message is not None:
            self._message.is_lost = True

    def lend_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        """Enable `wait_for`, for a job that runs in a thread."""
        self._loop = loop

    def __repr__(self) -> str:
        return f"Job({self.queue}/{self.name} {self.id}, attempt {self.attempt})"


_ANY: Codec[Any] = Codec(None)
