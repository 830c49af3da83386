"""Validate a workflow, and turn it into steps and edges."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from queen import errors
from queen.wire.jobs import LEVELS, NORMAL, RetryBackoff
from queen.wire.messages import Wire
from queen.wire.workflows import JobStep, Join, Step, WorkflowRequest

MOST_STEPS: Final = 1_000
MOST_EDGES: Final = 10_000
MOST_PARTS: Final = 10_000
MOST_ID_BYTES: Final = 100
"""Length of a workflow's id and of a step's name: both are part of a transactionId."""
MOST_TAGS: Final = 20
UNDO: Final = ":undo"
"""Suffix of a step that compensates another one. Other names have no colon."""


class PlannedStep(msgspec.Struct, frozen=True, kw_only=True):
    """A row of ``queen.workflow_steps``, before the step starts."""

    name: str
    kind: str
    queue: str | None = None
    partition: str | None = None
    template: str | None = None
    """JSON: the payload of its message, without the fields that the run adds."""
    priority: int | None = None
    delay_seconds: float | None = None
    items: str | None = None
    """JSON: the list of a map step, unless it is another step's result."""
    items_of: str | None = None
    signal: str | None = None
    timeout_seconds: float | None = None
    undoes: str | None = None
    on_success: tuple[str, ...] = ()
    on_failure: tuple[str, ...] = ()
    needs_all: bool = True
    sources: int = 0


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """A workflow that can run."""

    name: str
    metadata: Mapping[str, Any]
    correlation_id: str | None
    tags: tuple[str, ...]
    steps: tuple[PlannedStep, ...]

    @property
    def queues(self) -> set[str]:
        return {step.queue for step in self.steps if step.queue is not None}

    def encoded_steps(self) -> bytes:
        """Encode the steps as JSON, without their JSON from the caller."""
        plain = [msgspec.structs.replace(each, template=None, items=None) for each in self.steps]
        return msgspec.json.encode(plain)

    def digest(self) -> bytes:
        """Return a digest that identifies the plan."""
        return hashlib.sha256(msgspec.json.encode(self)).digest()


class Template(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """The payload of a job's message, without the fields that the run adds."""

    name: str
    data: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    attempts: int | None = None
    backoff: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    timeout_seconds: float | None = None
    metadata: dict[str, Any] | None = None


class _Node:
    """A step with its name, and the names of its next steps."""

    def __init__(self, name: str, step: Step) -> None:
        self.name = name
        self.step = step
        # Ordered sets.
        self.on_success: dict[str, None] = {}
        self.on_failure: dict[str, None] = {}

    @property
    def targets(self) -> dict[str, None]:
        return {**self.on_success, **self.on_failure}


def plan_of(request: WorkflowRequest) -> Plan:
    """Validate a workflow; raises InvalidWorkflow with the first error."""
    check_id(request.id)
    nodes = _flat(request.steps)
    for node in nodes.values():
        _check(node)
    _link(nodes)
    _refuse_cycles(nodes)
    metadata = request.metadata or {}
    correlation_id, tags = _searched(metadata)
    sources: dict[str, list[_Node]] = {name: [] for name in nodes}
    for node in nodes.values():
        for target in node.targets:
            sources[target].append(node)
    steps = [_planned(node, sources[node.name], metadata) for node in nodes.values()]
    steps += [
        _undo(node.name, node.step.compensate, metadata)
        for node in nodes.values()
        if node.step.compensate is not None
    ]
    return Plan(
        name=request.name,
        metadata=metadata,
        correlation_id=correlation_id,
        tags=tags,
        steps=tuple(steps),
    )


def check_id(id_: str | None) -> None:
    """Raise InvalidWorkflow unless this can be the id of a workflow."""
    if id_ is not None:
        _check_name("the id of a workflow", id_)


def _flat(steps: Sequence[Step]) -> dict[str, _Node]:
    """Collect all steps by name: the outer ones first, then the steps inside them."""
    nodes: dict[str, _Node] = {}
    todo: list[tuple[Step, dict[str, None] | None]] = [(step, None) for step in reversed(steps)]
    if not todo:
        raise errors.InvalidWorkflow("a workflow needs at least one step")
    while todo:
        step, edges = todo.pop()
        name = step.name or step.job or step.signal
        if name is None:
            raise errors.InvalidWorkflow("a step needs a queue and a job, or a signal")
        _check_name("the name of a step", name)
        if name in nodes:
            raise errors.InvalidWorkflow(f"two steps are called {name}. Rename one of them.")
        if len(nodes) >= MOST_STEPS:
            raise errors.InvalidWorkflow(f"a workflow has at most {MOST_STEPS} steps")
        node = nodes[name] = _Node(name, step)
        if edges is not None:
            edges[name] = None
        inside: list[tuple[Step, dict[str, None] | None]] = []
        for given, found in (
            (step.on_success, node.on_success),
            (step.on_failure, node.on_failure),
        ):
            for each in given:
                if isinstance(each, str):
                    found[each] = None
                else:
                    inside.append((_inner(name, each), found))
        todo += reversed(inside)
    return nodes


def _inner(name: str, given: Mapping[str, msgspec.Raw]) -> Step:
    """Decode a step that is defined inside another one."""
    try:
        return msgspec.json.decode(msgspec.json.encode(given), type=Step)
    except msgspec.ValidationError as error:
        raise errors.InvalidWorkflow(f"the step after {name}: {error}") from error


def _check_name(what: str, name: str) -> None:
    size = len(name.encode())
    if not 1 <= size <= MOST_ID_BYTES or not name.isprintable() or ":" in name or "/" in name:
        raise errors.InvalidWorkflow(
            f"{what} must have 1 to {MOST_ID_BYTES} bytes, without colons, slashes or control"
            f" characters: {name[:MOST_ID_BYTES]!r}"
        )


def _check(node: _Node) -> None:
    """Validate one step on its own."""
    step, name = node.step, node.name
    for each in (step, step.compensate):
        if each is not None:
            _check_backoff(name, each.backoff)
    if (step.signal is None) is (step.queue is None and step.job is None):
        raise errors.InvalidWorkflow(f"step {name}: set either queue and job, or signal")
    if step.signal is not None:
        of_jobs = {
            "data": step.data is not msgspec.UNSET,
            "over": step.over is not None,
            "attempts": step.attempts is not None,
            "backoff": step.backoff is not msgspec.UNSET,
            "priority": step.priority is not None,
            "key": step.key is not None,
            "delaySeconds": step.delay_seconds is not None,
        }
        if wrong := [member for member, is_given in of_jobs.items() if is_given]:
            raise errors.InvalidWorkflow(
                f"step {name}: {wrong[0]} cannot be combined with a signal"
            )
        return
    if step.queue is None or step.job is None:
        raise errors.InvalidWorkflow(f"step {name}: a job needs both queue and job")
    if step.over is not None and step.data is not msgspec.UNSET:
        raise errors.InvalidWorkflow(f"step {name}: `over` and `data` cannot be combined")
    if isinstance(step.over, list) and len(step.over) > MOST_PARTS:
        raise errors.InvalidWorkflow(f"step {name}: `over` has at most {MOST_PARTS} items")


def _check_backoff(name: str, backoff: msgspec.Raw | msgspec.UnsetType) -> None:
    """Raise InvalidWorkflow if a worker could not decode the backoff."""
    if backoff is not msgspec.UNSET:
        try:
            msgspec.json.decode(backoff, type=RetryBackoff)
        except msgspec.ValidationError as error:
            raise errors.InvalidWorkflow(f"step {name}: invalid backoff: {error}") from error


def _link(nodes: Mapping[str, _Node]) -> None:
    """Move all edges to their start, and reject those to unknown steps."""
    for node in nodes.values():
        for source in node.step.after:
            _known(nodes, node.name, source).on_success[node.name] = None
        if isinstance(node.step.over, str):
            _known(nodes, node.name, node.step.over).on_success[node.name] = None
    count = 0
    for node in nodes.values():
        for target in node.targets:
            _known(nodes, node.name, target)
        count += len(node.targets)
    if count > MOST_EDGES:
        raise errors.InvalidWorkflow(
            f"the steps have {count} connections; the limit is {MOST_EDGES}"
        )


def _known(nodes: Mapping[str, _Node], name: str, other: str) -> _Node:
    if other not in nodes:
        raise errors.InvalidWorkflow(f"step {name} refers to {other}, which does not exist")
    return nodes[other]


def _refuse_cycles(nodes: Mapping[str, _Node]) -> None:
    done: set[str] = set()
    for start in nodes:
        path: dict[str, Iterator[str]] = {}
        if start not in done:
            path[start] = iter(nodes[start].targets)
        while path:
            name, targets = next(reversed(path.items()))
            target = next(targets, None)
            if target is None:
                done.add(name)
                del path[name]
            elif target in path:
                names = [*path]
                circle = [*names[names.index(target) :], target]
                raise errors.InvalidWorkflow(f"the steps form a cycle: {' → '.join(circle)}")
            elif target not in done:
                path[target] = iter(nodes[target].targets)


def _searched(metadata: Mapping[str, Any]) -> tuple[str | None, tuple[str, ...]]:
    """Return the correlation id and the tags, by which runs can be found."""
    correlation_id = metadata.get("correlationId")
    tags = metadata.get("tags", [])
    if correlation_id is not None and not isinstance(correlation_id, str):
        raise errors.InvalidWorkflow("metadata: correlationId must be a string")
    try:
        found = msgspec.convert(tags, list[str])
    except msgspec.ValidationError as error:
        raise errors.InvalidWorkflow("metadata: tags must be a list of strings") from error
    if len(found) > MOST_TAGS:
        raise errors.InvalidWorkflow(f"metadata: at most {MOST_TAGS} tags")
    if any("\0" in text for text in (correlation_id or "", *found)):
        raise errors.InvalidWorkflow("metadata: strings must not contain NUL")
    return correlation_id, tuple(dict.fromkeys(found))


def _planned(node: _Node, sources: Iterable[_Node], metadata: dict[str, Any]) -> PlannedStep:
    step, before = node.step, list(sources)
    join: Join = step.join or "all"
    if step.join is None and before:
        # If only failures lead to a step, it runs once, after the first of them.
        join = "all" if any(node.name in each.on_success for each in before) else "any"
    if step.signal is not None:
        kind, template = "signal", None
    else:
        kind = "message" if step.over is None else "map"
        template = _template(step, step.job or "", metadata)
    return PlannedStep(
        name=node.name,
        kind=kind,
        queue=step.queue,
        partition=step.key,
        template=template,
        priority=None if kind == "signal" else LEVELS[step.priority or NORMAL],
        delay_seconds=step.delay_seconds,
        items=msgspec.json.encode(step.over).decode() if isinstance(step.over, list) else None,
        items_of=step.over if isinstance(step.over, str) else None,
        signal=step.signal,
        timeout_seconds=step.timeout_seconds if kind == "signal" else None,
        on_success=tuple(node.on_success),
        on_failure=tuple(node.on_failure),
        needs_all=join == "all" or not before,
        sources=len(before),
    )


def _undo(name: str, step: JobStep, metadata: dict[str, Any]) -> PlannedStep:
    return PlannedStep(
        name=f"{name}{UNDO}",
        kind="undo",
        queue=step.queue,
        partition=step.key,
        template=_template(step, step.job, metadata),
        priority=LEVELS[step.priority or NORMAL],
        delay_seconds=step.delay_seconds,
        undoes=name,
    )


def _template(step: Step | JobStep, job: str, metadata: dict[str, Any]) -> str:
    return msgspec.json.encode(
        Template(
            name=job,
            data=step.data,
            attempts=step.attempts,
            backoff=step.backoff,
            timeout_seconds=step.timeout_seconds,
            metadata=metadata or None,
        )
    ).decode()
