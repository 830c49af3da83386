"""Workflows: requests, responses, and the fields of their messages."""

from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from queen.wire.messages import Request, Wire
from queen.wire.resources.paging import Name, PageQuery, Text
from queen.wire.transactions import AdvanceOperation

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
    """Name of the job's queue, which must exist and be unordered."""
    job: Name
    """Name of the job, which selects its processor."""
    data: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    """Data of the job: any JSON value. Default: null."""
    key: Name | None = None
    """Partition of the job. Default: `Default`."""
    priority: Priority | None = None
    """Priority from 1 (first) to 5 (last). Default: 3."""
    delay_seconds: Delay | None = None
    """Seconds until the job is available. Default: 0."""
    attempts: Attempts | None = None
    """Largest number of attempts, 1 to 1,000. Default: that of the processor, 3 in the SDK."""
    backoff: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    """Delay between attempts, as for a job. Default: that of the processor."""
    timeout_seconds: Positive | None = None
    """Time limit of each attempt in seconds. Default: that of the processor."""


class Step(Request, frozen=True, kw_only=True, omit_defaults=True):
    """
    A step: a job (``queue`` and ``job``), or a wait for a signal (``signal``).

    The next steps are names, or nested steps.
    """

    name: Text | None = None
    """Name of the step, 1 to 100 bytes without `:` and `/`. Default: the name of its job or
    signal."""
    queue: Name | None = None
    """Name of the job's queue, which must exist and be unordered."""
    job: Name | None = None
    """Name of the job, which selects its processor."""
    data: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    """Data of the job: any JSON value. Default: null. Excludes `over`."""
    over: "Text | list[msgspec.Raw] | None" = None
    """A list with at most 10,000 items, or the name of a step that returns one. The step runs one
    job per item."""
    signal: Name | None = None
    """Name of the signal to wait for. The result of the step is the signal's data."""
    timeout_seconds: Positive | None = None
    """For a job, the time limit of each attempt in seconds. For a signal, the time limit of the
    wait."""
    key: Name | None = None
    """Partition of the job. Default: `Default`."""
    priority: Priority | None = None
    """Priority from 1 (first) to 5 (last). Default: 3."""
    delay_seconds: Delay | None = None
    """Seconds until the job is available. Default: 0."""
    attempts: Attempts | None = None
    """Largest number of attempts, 1 to 1,000. Default: that of the processor, 3 in the SDK."""
    backoff: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    """Delay between attempts, as for a job. Default: that of the processor."""
    after: tuple[Text, ...] = ()
    """Names of steps that lead to this one on success. Default: none."""
    on_success: tuple[Text | dict[str, msgspec.Raw], ...] = ()
    """Next steps if this one succeeds: names, or nested steps with these same fields. Default:
    none."""
    on_failure: tuple[Text | dict[str, msgspec.Raw], ...] = ()
    """Next steps if this one fails: names, or nested steps. Default: none, and then the workflow
    fails."""
    join: Join | None = None
    """Whether the step starts after `all` steps that lead to it, or after `any` of them. Default:
    `all`, or `any` if only failures lead to it."""
    compensate: JobStep | None = None
    """Job that compensates this step if the workflow fails later. Default: none."""


class WorkflowRequest(Request, frozen=True, kw_only=True, omit_defaults=True):
    """A workflow to start. With an id, the request can be repeated."""

    name: Name
    """Name of the workflow. You can list runs by it."""
    steps: list[Step]
    """Steps, 1 to 1,000 including nested ones."""
    id: Name | None = None
    """Id of the run, 1 to 100 bytes without `:` and `/`. With it, the request can be repeated.
    Default: a generated id."""
    metadata: dict[str, Any] | None = None
    """Any object, which each job receives. You can list runs by its `correlationId` and its `tags`
    (at most 20)."""


class WorkflowPlace(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """The position of a message in a workflow: its field `workflow`."""

    id: str
    """Id of the run."""
    step: str
    """Name of the step."""
    token: str
    """Token that proves that the worker received this message."""
    part: int | None = None
    """Index of the part that the job runs, for a map step, starting at 0; otherwise omitted."""
    parts: int | None = None
    """Number of parts of a map step; otherwise omitted."""
    results: dict[str, msgspec.Raw] = msgspec.field(default_factory=dict[str, msgspec.Raw])
    """Results of the completed steps that led here, by name."""
    errors: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    """Errors of the failed steps that led here, by name."""

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
    """Name of the step. A compensating step has the suffix `:undo`."""
    kind: StepKind
    """`job`, `map` (one job per item), `signal` (waits for a signal) or `undo` (compensates another
    step)."""
    state: StepState
    """`pending`, `active` (its job is queued or runs), `waiting` (for its signal), `completed`,
    `failed`, `skipped` or `cancelled`."""
    tries: int
    """Number of starts; more than one after a retry of the workflow."""
    queue: str | None = None
    """Name of the job's queue; omitted for a signal."""
    job: str | None = None
    """Name of the job; omitted for a signal."""
    job_id: str | None = None
    """Id of the step's last job; omitted before it starts, and for map steps, whose parts have
    ids."""
    key: str | None = None
    """Partition of the job; omitted if it is `Default`."""
    signal: str | None = None
    """Name of the signal that the step waits for; omitted for other kinds."""
    over: str | None = None
    """Name of the step whose result is the list of a map step; omitted if the list is in the
    definition."""
    undoes: str | None = None
    """Name of the step that this one compensates; omitted for other kinds."""
    on_success: tuple[str, ...] = ()
    """Names of the next steps on success; omitted if there are none."""
    on_failure: tuple[str, ...] = ()
    """Names of the next steps on failure; omitted if there are none."""
    join: Join = "all"
    """Whether the step starts after `all` steps that lead to it, or after `any`. Omitted if it is
    `all`."""
    attempts: int | None = None
    """Number of delivery attempts of its job, known when the job has ended."""
    parts: int | None = None
    """Number of parts of a map step; omitted before it starts and for other kinds."""
    open_parts: int | None = None
    """Number of parts of a map step that have not ended."""
    failed_parts: int | None = None
    """Number of parts of a map step that failed."""
    started_at: datetime | None = None
    """Time when the step started; omitted before."""
    ended_at: datetime | None = None
    """Time when the step ended; omitted before."""
    times_out_at: datetime | None = None
    """Time when the wait for a signal fails; omitted without a time limit."""
    result: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    """Result of a completed step: any JSON value. Omitted with `results=false`."""
    error: str | None = None
    """Reason of a failure."""


class WorkflowInfo(Wire, frozen=True, kw_only=True):
    """A run, without its steps."""

    id: str
    """Id of the run."""
    name: str
    """Name of the workflow."""
    state: WorkflowState
    """`running`, `stopping` (waits for leased messages), `compensating`, `completed`, `failed` or
    `cancelled`."""
    correlation_id: str | None
    """The `correlationId` of its metadata; null if it has none."""
    tags: list[str]
    """The `tags` of its metadata; empty if it has none."""
    metadata: msgspec.Raw
    """The metadata of the run; an empty object if it has none."""
    open_steps: int
    """Number of steps that have not ended, without compensating steps."""
    total_steps: int
    """Number of all steps, without compensating steps."""
    error: str | None
    """Reason why the run failed or was cancelled; null for other runs."""
    created_at: datetime
    """Time when the run started."""
    ended_at: datetime | None
    """Time when the run ended; null before."""


class WorkflowDetail(WorkflowInfo, frozen=True, kw_only=True):
    """A run with its steps and its results."""

    trace_id: str | None
    """Id of the trace that started the run and that its messages continue; null without one."""
    steps: list[StepInfo]
    """Steps of the run, in the order of their definition."""
    result: msgspec.Raw
    """Results, by name, of the steps without a next step on success; null unless the run
    completed."""


class WorkflowStarted(Wire, frozen=True, kw_only=True):
    """The workflow was started, or existed already with the same steps."""

    id: str
    """Id of the run."""
    name: str
    """Name of the workflow."""
    new: bool
    """False if a run with this id and the same steps existed already."""


class Workflows(Wire, frozen=True, kw_only=True):
    """A page of runs, newest first."""

    workflows: list[WorkflowInfo]
    """Runs of this page."""
    next_cursor: str | None
    """Cursor of the next page; null at the end of the list."""


class WorkflowsQuery(PageQuery, frozen=True, kw_only=True):
    """Filters for runs. All of them must match."""

    state: WorkflowState | None = None
    """Only runs in this state."""
    name: Name | None = None
    """Only runs of the workflow with this name."""
    correlation_id: Name | None = None
    """Only runs with this `correlationId` in their metadata."""
    tag: Name | None = None
    """Only runs with this tag in their metadata."""


class WorkflowQuery(Request, frozen=True, kw_only=True):
    """Whether to wait for the end of the run, and whether to include results."""

    wait: bool = False
    """Whether to respond only when the run has ended, or after `timeout`. Default: false."""
    timeout: Annotated[int, Meta(ge=0, le=2**31)] | None = None
    """Longest wait in milliseconds, at most 60,000 by default. Default: 30,000."""
    results: bool = True
    """Whether to include the results of steps, which may be large. Default: true."""


class PartInfo(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """A part of a map step: the job of one item."""

    part: int
    """Index of the part, starting at 0."""
    state: Literal["active", "completed", "failed", "cancelled"]
    """`active` (its job is queued or runs), `completed`, `failed` or `cancelled`."""
    job_id: str | None = None
    """Id of the part's job; omitted if a retry of the workflow kept an earlier result."""
    attempts: int | None = None
    """Number of delivery attempts of its job, known when the job has ended."""
    result: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    """Result of a completed part: any JSON value."""
    error: str | None = None
    """Reason of a failure."""
    ended_at: datetime | None = None
    """Time when the part ended; omitted before."""


class Parts(Wire, frozen=True, kw_only=True):
    """A page of parts, in the order of their items."""

    parts: list[PartInfo]
    """Parts of this page."""
    next_cursor: str | None
    """Cursor of the next page; null at the end of the list."""


class PartsQuery(PageQuery, frozen=True, kw_only=True):
    """The parts in one state, or all."""

    state: Literal["active", "completed", "failed", "cancelled"] | None = None
    """Only parts in this state."""


class SignalRequest(Request, frozen=True, kw_only=True, omit_defaults=True):
    """The event that steps wait for has happened or failed."""

    signal: Name
    """Name of the signal."""
    data: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    """Data of the signal, which becomes the result of the waiting steps: any JSON value. Default:
    null."""
    outcome: Outcome = "success"
    """Whether the waiting steps succeed or fail. Default: `success`."""


class Signalled(Wire, frozen=True, kw_only=True):
    """The signal was stored."""

    id: str
    """Id of the run."""
    taken: int
    """Number of steps that received the signal. Each step receives only its first signal."""


class CancelRequest(Request, frozen=True, kw_only=True, omit_defaults=True):
    """The reason, and whether to compensate completed steps."""

    reason: Text | None = None
    """Reason, shown as the error of the run. Default: `cancelled`."""
    compensate: bool = True
    """Whether to compensate completed steps. Default: true."""


class Cancelled(Wire, frozen=True, kw_only=True):
    """The run was cancelled. It ends when its open steps have ended."""

    id: str
    """Id of the run."""
    state: WorkflowState
    """State of the run after the request."""
    open_steps: int
    """Number of steps that have not ended, without compensating steps."""


class WorkflowRetryRequest(Request, frozen=True, kw_only=True, omit_defaults=True):
    """A step to start again, in addition to the failed ones."""

    from_step: Text | None = None
    """Name of a step to start again in addition to the failed ones, even if it completed."""


class Retried(Wire, frozen=True, kw_only=True):
    """The run continues."""

    id: str
    """Id of the run."""
    state: WorkflowState
    """State of the run after the request."""


class WorkflowDeleted(Wire, frozen=True, kw_only=True):
    """The workflow was deleted."""

    success: bool
    """Always true: a rejected request returns a problem instead."""
    id: str
    """Id of the deleted run."""
