"""`Job`: the argument of a processor."""

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Generic, Unpack

import msgspec
from msgspec import UNSET, UnsetType

from queen import errors
from queen.client.message import Message, part
from queen.client.payloads import Codec, encode
from queen.jobs.api import JobCalls
from queen.jobs.envelope import child_of, item_of
from queen.jobs.options import JobOptions, JobPriority
from queen.wire.jobs import PRIORITIES, Envelope, Link, Parent
from queen.wire.messages import MessageRun, PushItem
from queen.wire.workflows import WorkflowPlace

if TYPE_CHECKING:
    from typing_extensions import TypeVar  # That of `typing` has defaults from Python 3.13 on.

    from queen.client.client import Queen

    T = TypeVar("T", default=Any)
else:
    from typing import TypeVar

    T = TypeVar("T")

ENVELOPES: Final = Codec(Envelope)


class JobTransaction:
    """
    What is pushed in the transaction that acks the job: all of it if the job is done, or nothing.

    Usage::

        effects = job.transaction()
        effects.push("orders", {"data": {"n": 1}}, partition="user-7")
        effects.add_job("email", "send-welcome", {"to": "a@b.c"})
    """

    __slots__ = ("_queen", "items", "queues")

    def __init__(self, queen: "Queen") -> None:
        self._queen = queen
        self.items: list[PushItem] = []
        self.queues: set[str] = set()
        """Of its jobs: a queue that is not there yet is made for jobs."""

    def push(
        self,
        queue: str,
        items: "Sequence[Mapping[str, Any]] | Mapping[str, Any]",
        *,
        partition: str = "Default",
    ) -> None:
        """Messages, as `queen.queue(name).push` takes them."""
        self.items += self._queen.queue(queue).partition(partition).items(items)

    def add_job(
        self, queue: str, name: str, data: object = None, **options: Unpack[JobOptions]
    ) -> None:
        """A job, as `add_job` takes it."""
        self.items.append(item_of(queue, name, data, options))
        self.queues.add(queue)

    def add(self, *links: Link) -> None:
        """Jobs that ``processor.s(…)`` made."""
        self.items += [child_of(link, None) for link in links]
        self.queues.update(link.queue for link in links)


class Job(msgspec.Struct, Generic[T], eq=False):
    """
    One job that a worker runs.

    Usage::

        @jobs.processor("email")
        async def send_welcome(job: Job[Welcome]) -> None:
            await job.progress(0.5)
            await send(job.data.to)
    """

    _run: MessageRun
    _at: int
    """Its place in the run."""
    envelope: Envelope
    _codec: Codec[T]
    max_attempts: int
    _queen: "Queen | None" = None
    """None with ``process=True``: that process has no connection."""
    is_cancelled: bool = False
    """It was cancelled, another worker has it, or it timed out. Threads can check this."""
    _loop: asyncio.AbstractEventLoop | None = None
    _transaction: JobTransaction | None = None
    _data: T | UnsetType = UNSET
    _message: Message[Envelope] | None = None

    @property
    def message(self) -> Message[Envelope]:
        """The message that it is."""
        if self._message is None:
            queen: Any = self._queen
            self._message = Message(self._run, self._at, ENVELOPES, queen)
            if self.is_cancelled:
                self._message.is_lost = True
        return self._message

    @property
    def data(self) -> T:
        """As the processor's annotation says, decoded when it is first looked at."""
        if self._data is UNSET:
            self._data = self._codec.decode(self.envelope.data)
        return self._data

    @property
    def id(self) -> str:
        """Its name in the queue."""
        return self.message.transaction_id

    @property
    def name(self) -> str:
        return self.envelope.name

    @property
    def queue(self) -> str:
        return self._run.queue

    @property
    def key(self) -> str | None:
        """What it was added with as ``key``."""
        return None if self._run.partition == "Default" else self._run.partition

    @property
    def attempt(self) -> int:
        """1 for the first."""
        return self._run.attempt

    @property
    def priority(self) -> JobPriority:
        return JobPriority(PRIORITIES.get(self._run.priority, JobPriority.NORMAL))

    @property
    def created_at(self) -> datetime:
        return self._run.created_at

    @property
    def tick(self) -> datetime | None:
        """Of a job that a schedule added: the instant that it is for."""
        tick = self.message.headers.get("queen-tick")
        return None if tick is None else datetime.fromisoformat(tick)

    @property
    def metadata(self) -> dict[str, Any]:
        return self.envelope.metadata or {}

    @property
    def correlation_id(self) -> str | None:
        return self.metadata.get("correlationId")

    @property
    def tags(self) -> list[str]:
        return self.metadata.get("tags", [])

    @property
    def parent(self) -> Parent | None:
        """The job before it in a chain, with its result."""
        return self.envelope.parent

    @property
    def parent_result(self) -> Any:  # noqa: ANN401 - whatever it returned
        """What the job before it in a chain returned; None without one."""
        parent = self.envelope.parent
        return None if parent is None else _ANY.decode(parent.result)

    @property
    def workflow(self) -> WorkflowPlace | None:
        """The step of a workflow that it is, with the results of those before."""
        return self.envelope.workflow

    async def progress(self, value: object) -> None:
        """Say how far it has come: any JSON, often a share from 0 to 1. Raises LeaseLost."""
        lease_id = self._run.lease_id
        if lease_id is None or self._queen is None:
            raise errors.LeaseLost("a job without a lease reports nothing")
        await JobCalls(self._queen).report_progress(
            self.queue, self.id, lease_id, encode(value), self._run.partition
        )

    def report_progress(self, value: object) -> None:
        """The same from a processor that is a plain function: it runs in a thread, and waits."""
        self.wait_for(self.progress(value))

    def wait_for(self, coroutine: "Coroutine[Any, Any, Any]") -> Any:  # noqa: ANN401 - its result
        """Run something of the SDK from a processor in a thread, and wait for it."""
        if self._loop is None:
            coroutine.close()
            raise errors.BadRequest("only a processor in a thread waits like this; use await")
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def transaction(self) -> JobTransaction:
        """
        What is pushed together with the ack of this job, if it is done.

        Raises BadRequest in a process of its own: what it gathers there would reach nobody.
        """
        if self._queen is None:
            raise errors.BadRequest(
                "a processor with process=True has no transaction: return what is to follow"
            )
        if self._transaction is None:
            self._transaction = JobTransaction(self._queen)
        return self._transaction

    # For the worker.

    @property
    def is_plain(self) -> bool:
        """Nothing follows from it when it is done, as of most."""
        envelope = self.envelope
        return self._transaction is None and not envelope.chain and envelope.workflow is None

    def pushed(self) -> list[PushItem]:
        """What its transaction holds."""
        return [] if self._transaction is None else self._transaction.items

    def followed_in(self) -> set[str]:
        """Queues that jobs go to when this one is done."""
        own = set[str]() if self._transaction is None else self._transaction.queues
        return own.union(link.queue for link in self.envelope.chain)

    def part(self) -> MessageRun:
        """Its message alone, as it came: the job goes to a process."""
        return part(self._run, self._at)

    def withdraw(self) -> None:
        """It is not this worker's any more: whoever runs it may look."""
        self.is_cancelled = True
        if self._message is not None:
            self._message.is_lost = True

    def lend_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        """From now on `wait_for` works: the job goes to a thread."""
        self._loop = loop

    def __repr__(self) -> str:
        return f"Job({self.queue}/{self.name} {self.id}, attempt {self.attempt})"


_ANY: Codec[Any] = Codec(None)
