"""Workflows: declared in Python or JSON, and checked before they start."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from queen import errors
from queen.client.durations import LONG_SECONDS, Duration, seconds_of
from queen.client.payloads import encode
from queen.jobs.options import Backoff
from queen.jobs.workflows.api import WorkflowCalls
from queen.jobs.workflows.handle import WorkflowHandle
from queen.wire import workflows as wire
from queen.wire.workflow_plan import plan_of

if TYPE_CHECKING:
    from queen.client.client import Queen

_SEED_NAMES: Final = {"queue_name": "queue", "job_name": "job"}
"""Field names in other job queues."""


class _Nothing:
    """No data given, because None is data."""


NOTHING: Final = _Nothing()


@dataclass(frozen=True)
class Step:
    """
    A step: a job of a queue, or with ``signal`` a wait for that signal.

    Usage::

        Step("email", "send-welcome", {"userId": 1}, on_success=[Step("crm", "add-contact")])
        Step("work", "count-words", over="split")
        Step(signal="approved", timeout="2d")

    Give the steps that follow directly or by name. ``over`` creates one job per item of a list, or
    per item of the named step's result.
    """

    queue: str | None = None
    """The queue of the job."""
    job: str | None = None
    """The name of the job."""
    data: Any = NOTHING
    """The data of the job."""
    name: str | None = field(default=None, kw_only=True)
    """Default: the name of the job or signal."""
    over: str | Sequence[Any] | None = field(default=None, kw_only=True)
    """A list, or the name of the step whose result is the list: one job per item."""
    signal: str | None = field(default=None, kw_only=True)
    """The signal to wait for, instead of a job."""
    timeout: Duration | None = field(default=None, kw_only=True)
    """Time limit per attempt of a job, or for the wait for a signal."""
    key: str | None = field(default=None, kw_only=True)
    """The partition, for example a tenant. Limits per key count by it."""
    priority: int | None = field(default=None, kw_only=True)
    """Order among waiting jobs."""
    delay: Duration | None = field(default=None, kw_only=True)
    """Time before the job can start."""
    attempts: int | None = field(default=None, kw_only=True)
    """Number of attempts before the step fails."""
    backoff: Any = field(default=None, kw_only=True)
    """Delay before the next attempt."""
    after: Sequence[str] = field(default=(), kw_only=True)
    """Names of the steps that run before this one."""
    on_success: "Sequence[str | Step | Mapping[str, Any]]" = field(default=(), kw_only=True)
    """Steps that follow if this one succeeds."""
    on_failure: "Sequence[str | Step | Mapping[str, Any]]" = field(default=(), kw_only=True)
    """Steps that follow if this one fails."""
    join: Literal["all", "any"] | None = field(default=None, kw_only=True)
    """With several earlier steps: start after ``all`` of them, or after ``any``."""
    compensate: "Step | Mapping[str, Any] | None" = field(default=None, kw_only=True)
    """A job that undoes the step if the workflow fails later. It gets the step's result."""

    @classmethod
    def of(cls, given: "Step | Mapping[str, Any]") -> "Step":
        """Convert a mapping to a step. Its keys may be camelCase."""
        if isinstance(given, Step):
            return given
        members = {_SEED_NAMES.get(snake := _snake(name), snake): given[name] for name in given}
        for duration in ("timeout", "delay"):
            if (seconds := members.pop(f"{duration}_seconds", None)) is not None:
                members[duration] = _exact(seconds)
        try:
            return cls(**members)
        except TypeError as error:
            raise errors.InvalidWorkflow(f"invalid step: {error}") from error

    def wire(self) -> dict[str, Any]:
        """Return the step for the wire, without fields that are not set."""
        found: dict[str, Any] = {
            "name": self.name,
            "queue": self.queue,
            "job": self.job,
            "signal": self.signal,
            "timeoutSeconds": _seconds(self.timeout, "timeout"),
            "key": self.key,
            "priority": None if self.priority is None else int(self.priority),
            "delaySeconds": _seconds(self.delay, "delay"),
            "attempts": self.attempts,
            "backoff": None if self.backoff is None else Backoff.of(self.backoff).wire,
            "after": list(self.after) or None,
            "onSuccess": _following(self.on_success),
            "onFailure": _following(self.on_failure),
            "join": self.join,
        }
        if self.data is not NOTHING:
            found["data"] = encode(self.data)
        if self.over is not None:
            is_name = isinstance(self.over, str)
            found["over"] = self.over if is_name else [encode(item) for item in self.over]
        if self.compensate is not None:
            found["compensate"] = Step.of(self.compensate).wire()
        return {name: value for name, value in found.items() if value is not None}


def _seconds(duration: Duration | None, name: str) -> float | None:
    return None if duration is None else seconds_of(duration, name, most=LONG_SECONDS)


def _exact(seconds: Duration) -> Duration:
    """Return seconds of a field that has the unit in its name, so that no bound applies."""
    return timedelta(seconds=seconds) if isinstance(seconds, int | float) else seconds


def _following(steps: "Iterable[str | Step | Mapping[str, Any]]") -> list[Any] | None:
    found = [each if isinstance(each, str) else Step.of(each).wire() for each in steps]
    return found or None


def _snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)


@dataclass(frozen=True, kw_only=True)
class Workflow:
    """
    Steps that follow each other. Each method returns a new workflow.

    Usage::

        flow = (
            Workflow(name="report")
            .step("split", "work", "split-file", {"path": "a.csv"})
            .map("count", "work", "count-lines", over="split")
            .step("sum", "work", "sum-up", after=["count"])
        )
        handle = await jobs.execute_workflow(flow)
    """

    name: str
    """The name of the workflow."""
    id: str | None = None
    """Id of the run. Starting the same id again returns the same run."""
    steps: Sequence[Step | Mapping[str, Any]] = ()
    """The steps."""
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """You can search for ``correlationId`` and ``tags``."""

    @classmethod
    def from_json(cls, text: str | bytes) -> "Workflow":
        """Create a workflow from JSON with id, name, steps and metadata."""
        try:
            given = msgspec.json.decode(text, type=dict[str, Any])
            return cls(**given)
        except (msgspec.DecodeError, TypeError) as error:
            raise errors.InvalidWorkflow(f"invalid workflow: {error}") from error

    def step(
        self,
        name: str,
        queue: str,
        job: str,
        data: object = NOTHING,
        **members: Any,  # noqa: ANN401 - of Step
    ) -> "Workflow":
        """Add a job. ``members`` are the fields of ``Step``."""
        return self.add(Step(queue, job, data, name=name, **members))

    def map(
        self,
        name: str,
        queue: str,
        job: str,
        *,
        over: "str | Sequence[Any]",
        **members: Any,  # noqa: ANN401 - of Step
    ) -> "Workflow":
        """Add a step with one job per item. Its result is the list of their results, in order."""
        return self.add(Step(queue, job, name=name, over=over, **members))

    def wait_for(
        self,
        signal: str,
        *,
        name: str | None = None,
        timeout: Duration | None = None,
        **members: Any,  # noqa: ANN401 - of Step
    ) -> "Workflow":
        """Add a step that waits for a signal. Its result is the data of the signal."""
        return self.add(Step(name=name, signal=signal, timeout=timeout, **members))

    def add(self, *steps: Step | Mapping[str, Any]) -> "Workflow":
        """Return a workflow with more steps."""
        return replace(self, steps=(*self.steps, *steps))

    def request(self) -> wire.WorkflowRequest:
        """Return the workflow for the wire. Raises InvalidWorkflow if it could not run."""
        body = {
            "name": self.name,
            "id": self.id,
            "steps": [Step.of(step).wire() for step in self.steps],
            "metadata": dict(self.metadata),
        }
        try:
            # Structs check their fields when they are decoded, not when they are created.
            request = msgspec.json.decode(msgspec.json.encode(body), type=wire.WorkflowRequest)
        except msgspec.ValidationError as error:
            raise errors.InvalidWorkflow(f"invalid workflow: {error}") from error
        plan_of(request)
        return request

    def to_json(self) -> bytes:
        """Return JSON for ``from_json`` and ``POST /api/v1/workflows``, after checking it."""
        return msgspec.json.encode(self.request())


async def execute_workflow(
    queen: "Queen", workflow: Workflow | Mapping[str, Any]
) -> WorkflowHandle:
    """Check a workflow and start it. The server checks it again as a whole."""
    given = workflow if isinstance(workflow, Workflow) else Workflow(**workflow)
    started = await WorkflowCalls(queen).start(given.request())
    return WorkflowHandle(queen, started.id, is_new=started.new)
