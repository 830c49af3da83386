"""Workflows: requests, responses, and the fields of their messages."""

from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from queen.wire.messages import AdvanceOperation, Request, Wire
from queen.wire.resources.paging import Name, PageQuery, Text

WorkflowState = Literal["running", "stopping", "compensating", "completed", "failed", "cancelled"]
StepState = Literal["pending", "active", "waiting", "completed", "failed", "skipped", "cancelled"]
StepKind = Literal["job", "map", "signal", "undo"]
Join = Literal["all", "any"]
Outcome = Literal["success", "failure"]
Priority = Annotated[int, Meta(ge=1, le=5)]
Positive = Annotated[float, Meta(gt=0, le=31_536_000)]
Delay = Annotated[float, Meta(ge=0, le=31_536_000)]
Attempts = Annotated[int, Meta(ge=1, le=1_000)]


class JobStep(Request, frozen=True, kw_only=True, omit_defaults=True):
    """A job that runs or compensates a step."""

    queue: Name
    job: Name
    data: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    key: Name | None = None
    priority: Priority | None = None
    delay_seconds: Delay | None = None
    attempts: Attempts | None = None
    backoff: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    timeout_seconds: Positive | None = None


class Step(Request, frozen=True, kw_only=True, omit_defaults=True):
    """
    A step: a job (``queue`` and ``job``), or a wait for a signal (``signal``).

    The next steps are names, or nested steps.
    """

    name: Text | None = None
    """By default the name of the job or signal."""
    queue: Name | None = None
    job: Name | None = None
    data: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    over: "Text | list[msgspec.Raw] | None" = None
    """A list, or the name of a step that returns one. The step runs one job per item."""
    signal: Name | None = None
    timeout_seconds: Positive | None = None
    """For a job, the time limit of each attempt. For a signal, the time limit of the wait."""
    key: Name | None = None
    priority: Priority | None = None
    delay_seconds: Delay | None = None
    attempts: Attempts | None = None
    backoff: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    after: tuple[Text, ...] = ()
    on_success: tuple[Text | dict[str, msgspec.Raw], ...] = ()
    """Names, or nested steps: objects with these fields."""
    on_failure: tuple[Text | dict[str, msgspec.Raw], ...] = ()
    join: Join | None = None
    """Whether the step starts after all steps that lead to it, or after the first. `all` by
    default, `any` if only failures lead to it."""
    compensate: JobStep | None = None
    """The job that compensates this step if the workflow fails later."""


class WorkflowRequest(Request, frozen=True, kw_only=True, omit_defaults=True):
    """A workflow to start. With an id, the request can be repeated."""

    name: Name
    steps: list[Step]
    id: Name | None = None
    metadata: dict[str, Any] | None = None
    """You can search for ``correlationId`` and ``tags``."""


class WorkflowPlace(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """The position of a message in a workflow: its field `workflow`."""

    id: str
    step: str
    token: str
    part: int | None = None
    parts: int | None = None
    results: dict[str, msgspec.Raw] = msgspec.field(default_factory=dict[str, msgspec.Raw])
    """Results of the steps that led here, by name."""
    errors: dict[str, str] = msgspec.field(default_factory=dict[str, str])

    def result_of(self, step: str) -> Any:  # noqa: ANN401 - whatever JSON can hold
        """Return the result of a step that led here."""
        return msgspec.json.decode(self.results[step])

    def advance(
        self,
        outcome: Outcome,
        *,
        result: bytes | None = None,
        error: str | None = None,
        attempt: int | None = None,
    ) -> AdvanceOperation:
        """Build the operation that ends the step, for the transaction of its ack."""
        return AdvanceOperation(
            workflow=self.id,
            step=self.step,
            token=self.token,
            part=self.part,
            outcome=outcome,
            result=msgspec.UNSET if result is None else msgspec.Raw(result),
            error=error,
            attempt=attempt,
        )


class StepInfo(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """A step of a run, and its state."""

    name: str
    kind: StepKind
    state: StepState
    tries: int
    """Number of starts; more than one after a retry."""
    queue: str | None = None
    job: str | None = None
    job_id: str | None = None
    """Id of the step's last job. Parts have their own ids."""
    key: str | None = None
    signal: str | None = None
    over: str | None = None
    undoes: str | None = None
    on_success: tuple[str, ...] = ()
    on_failure: tuple[str, ...] = ()
    join: Join = "all"
    attempts: int | None = None
    parts: int | None = None
    open_parts: int | None = None
    failed_parts: int | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    times_out_at: datetime | None = None
    result: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    error: str | None = None


class WorkflowInfo(Wire, frozen=True, kw_only=True):
    """A run, without its steps."""

    id: str
    name: str
    state: WorkflowState
    correlation_id: str | None
    tags: list[str]
    metadata: msgspec.Raw
    open_steps: int
    total_steps: int
    """Without compensating steps, as in ``open_steps``."""
    error: str | None
    created_at: datetime
    ended_at: datetime | None


class WorkflowDetail(WorkflowInfo, frozen=True, kw_only=True):
    """A run with its steps and its results."""

    trace_id: str | None
    """The trace that started the workflow. Its messages continue it."""
    steps: list[StepInfo]
    result: msgspec.Raw
    """Results by name, of the steps without a next step on success; null unless completed."""


class WorkflowStarted(Wire, frozen=True, kw_only=True):
    """The workflow was started, or (``new`` is false) existed with the same steps."""

    id: str
    name: str
    new: bool


class Workflows(Wire, frozen=True, kw_only=True):
    """A page of runs, newest first."""

    workflows: list[WorkflowInfo]
    next_cursor: str | None


class WorkflowsQuery(PageQuery, frozen=True, kw_only=True):
    """Filters for runs. All of them must match."""

    state: WorkflowState | None = None
    name: Name | None = None
    correlation_id: Name | None = None
    tag: Name | None = None


class WorkflowQuery(Request, frozen=True, kw_only=True):
    """``wait``: respond when the run has ended, or after ``timeout`` milliseconds."""

    wait: bool = False
    timeout: Annotated[int, Meta(ge=0, le=2**31)] | None = None
    results: bool = True
    """False: omit the results of steps, which may be large."""


class PartInfo(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """A part of a map step: the job of one item."""

    part: int
    state: Literal["active", "completed", "failed", "cancelled"]
    job_id: str | None = None
    attempts: int | None = None
    result: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    error: str | None = None
    ended_at: datetime | None = None


class Parts(Wire, frozen=True, kw_only=True):
    """A page of parts, in the order of their items."""

    parts: list[PartInfo]
    next_cursor: str | None


class PartsQuery(PageQuery, frozen=True, kw_only=True):
    """The parts in one state, or all."""

    state: Literal["active", "completed", "failed", "cancelled"] | None = None


class SignalRequest(Request, frozen=True, kw_only=True, omit_defaults=True):
    """The event that steps wait for has happened or failed."""

    signal: Name
    data: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    outcome: Outcome = "success"


class Signalled(Wire, frozen=True, kw_only=True):
    """The number of steps that received the signal. Each step receives only its first."""

    id: str
    taken: int


class CancelRequest(Request, frozen=True, kw_only=True, omit_defaults=True):
    """The reason, and whether to compensate completed steps."""

    reason: Text | None = None
    compensate: bool = True


class Cancelled(Wire, frozen=True, kw_only=True):
    """The run is stopping, but still waits for ``openSteps``."""

    id: str
    state: WorkflowState
    open_steps: int


class WorkflowRetryRequest(Request, frozen=True, kw_only=True, omit_defaults=True):
    """A step to start again, in addition to the failed ones."""

    from_step: Text | None = None


class Retried(Wire, frozen=True, kw_only=True):
    """The run continues."""

    id: str
    state: WorkflowState


class WorkflowDeleted(Wire, frozen=True, kw_only=True):
    """The workflow was deleted."""

    success: bool
    id: str
