"""Workflows as they cross HTTP: what is started, what is shown, what their messages carry."""

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
    """A job that a step is, or that undoes one."""

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
    A step: a job (``queue`` and ``job``), or what waits for a signal (``signal``).

    Steps that follow are given by name, or in place.
    """

    name: Text | None = None
    """The job's or the signal's if not said."""
    queue: Name | None = None
    job: Name | None = None
    data: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    over: "Text | list[msgspec.Raw] | None" = None
    """A list, or the step whose result is one: the step is a job an item."""
    signal: Name | None = None
    timeout_seconds: Positive | None = None
    """Of a job: each attempt may take so long. Of a signal: it is waited for so long."""
    key: Name | None = None
    priority: Priority | None = None
    delay_seconds: Delay | None = None
    attempts: Attempts | None = None
    backoff: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    after: tuple[Text, ...] = ()
    on_success: tuple[Text | dict[str, msgspec.Raw], ...] = ()
    """Names, or steps in place: objects with these members."""
    on_failure: tuple[Text | dict[str, msgspec.Raw], ...] = ()
    join: Join | None = None
    """Begin when all that may lead here do, or with the first; `all` if not said, `any` where only
    failures lead here."""
    compensate: JobStep | None = None
    """What undoes this step, if the workflow fails later."""


class WorkflowRequest(Request, frozen=True, kw_only=True, omit_defaults=True):
    """A workflow to start. The same again is the same workflow, if it has an id."""

    name: Name
    steps: list[Step]
    id: Name | None = None
    metadata: dict[str, Any] | None = None
    """``correlationId`` and ``tags`` can be searched for."""


class WorkflowPlace(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """Where in a workflow a message stands: its member `workflow`."""

    id: str
    step: str
    token: str
    part: int | None = None
    parts: int | None = None
    results: dict[str, msgspec.Raw] = msgspec.field(default_factory=dict[str, msgspec.Raw])
    """Of the steps that led here, by name."""
    errors: dict[str, str] = msgspec.field(default_factory=dict[str, str])

    def result_of(self, step: str) -> Any:  # noqa: ANN401 - whatever JSON can hold
        """What a step that led here came to."""
        return msgspec.json.decode(self.results[step])

    def advance(
        self,
        outcome: Outcome,
        *,
        result: bytes | None = None,
        error: str | None = None,
        attempt: int | None = None,
    ) -> AdvanceOperation:
        """What settles the step, beside the ack of its message; ``result`` is JSON."""
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
    """A step of a run: what it is, and how far it is."""

    name: str
    kind: StepKind
    state: StepState
    tries: int
    """How often it was begun; more than once only where it was retried."""
    queue: str | None = None
    job: str | None = None
    job_id: str | None = None
    """Of the job that it was begun as last; parts have their own."""
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
    """Without those that undo others, as in ``open_steps``."""
    error: str | None
    created_at: datetime
    ended_at: datetime | None


class WorkflowDetail(WorkflowInfo, frozen=True, kw_only=True):
    """A run, its steps and what came of it."""

    trace_id: str | None
    """Of the trace that it was started in, which its messages carry on."""
    steps: list[StepInfo]
    result: msgspec.Raw
    """By name, of the steps that nothing follows on success; null unless it completed."""


class WorkflowStarted(Wire, frozen=True, kw_only=True):
    """It was started, or, not `new`, had been with exactly these steps."""

    id: str
    name: str
    new: bool


class Workflows(Wire, frozen=True, kw_only=True):
    """A page of runs, newest first."""

    workflows: list[WorkflowInfo]
    next_cursor: str | None


class WorkflowsQuery(PageQuery, frozen=True, kw_only=True):
    """Which runs: each filter narrows."""

    state: WorkflowState | None = None
    name: Name | None = None
    correlation_id: Name | None = None
    tag: Name | None = None


class WorkflowQuery(Request, frozen=True, kw_only=True):
    """``wait``: answer when the run has ended, or after ``timeout`` milliseconds as it is."""

    wait: bool = False
    timeout: Annotated[int, Meta(ge=0, le=2**31)] | None = None
    results: bool = True
    """False: steps are shown without theirs, which may be large."""


class PartInfo(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """A part of a map: the job of one item."""

    part: int
    state: Literal["active", "completed", "failed", "cancelled"]
    job_id: str | None = None
    attempts: int | None = None
    result: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    error: str | None = None
    ended_at: datetime | None = None


class Parts(Wire, frozen=True, kw_only=True):
    """A page of parts, in the order of the items."""

    parts: list[PartInfo]
    next_cursor: str | None


class PartsQuery(PageQuery, frozen=True, kw_only=True):
    """Parts in one state, or all."""

    state: Literal["active", "completed", "failed", "cancelled"] | None = None


class SignalRequest(Request, frozen=True, kw_only=True, omit_defaults=True):
    """What steps wait for has happened, or has failed."""

    signal: Name
    data: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    outcome: Outcome = "success"


class Signalled(Wire, frozen=True, kw_only=True):
    """How many steps took the signal; each takes the first and no other."""

    id: str
    taken: int


class CancelRequest(Request, frozen=True, kw_only=True, omit_defaults=True):
    """Why, and whether what was done is undone."""

    reason: Text | None = None
    compensate: bool = True


class Cancelled(Wire, frozen=True, kw_only=True):
    """The run stops: ``openSteps`` are out, and are waited for."""

    id: str
    state: WorkflowState
    open_steps: int


class WorkflowRetryRequest(Request, frozen=True, kw_only=True, omit_defaults=True):
    """A step to begin anew besides what failed."""

    from_step: Text | None = None


class Retried(Wire, frozen=True, kw_only=True):
    """The run goes on."""

    id: str
    state: WorkflowState


class WorkflowDeleted(Wire, frozen=True, kw_only=True):
    """It is forgotten."""

    success: bool
    id: str
