"""A workflow is one trace, whichever worker runs its steps, and so is a chain."""

from collections.abc import Iterator

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from queen.client import tracing
from queen.jobs import Job, QueueManager, Workflow
from tests.jobs.waiting import until


@pytest.fixture
def exporter(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    found = InMemorySpanExporter()
    tracer = TracerProvider()
    tracer.add_span_processor(SimpleSpanProcessor(found))
    monkeypatch.setattr(trace, "get_tracer", tracer.get_tracer)
    tracing.forget()
    yield found
    tracing.forget()
    tracer.shutdown()


def spans(exporter: InMemorySpanExporter, name: str) -> list[ReadableSpan]:
    return [span for span in exporter.get_finished_spans() if span.name == name]


def traces(found: list[ReadableSpan]) -> set[int]:
    return {span.context.trace_id for span in found if span.context is not None}


async def test_the_steps_of_a_workflow_are_one_trace(
    jobs: QueueManager, queue: str, exporter: InMemorySpanExporter
) -> None:
    async def step(job: Job[object]) -> list[int]:
        return [1, 2, 3]

    jobs.register_processor(queue, step)
    await jobs.start_workers()
    flow = Workflow(name="count").step("split", queue, "split")
    flow = flow.map("parts", queue, "part", over="split").step("sum", queue, "sum", after=["parts"])
    handle = await jobs.execute_workflow(flow)
    await handle.wait(timeout=30)

    (start,) = spans(exporter, "start count")
    await until(lambda: len(spans(exporter, f"process {queue}")) == 5)
    processed = spans(exporter, f"process {queue}")
    assert traces(processed) == traces([start])
    ids = {str((span.attributes or {})["queen.workflow"]) for span in processed}
    assert ids == {handle.id}
    names = sorted(str((span.attributes or {})["queen.job"]) for span in processed)
    assert names == ["part", "part", "part", "split", "sum"]


async def test_a_chain_is_one_trace(
    jobs: QueueManager, queue: str, exporter: InMemorySpanExporter
) -> None:
    @jobs.processor(queue)
    async def first(job: Job[int]) -> int:
        return job.data + 1

    @jobs.processor(queue)
    async def second(job: Job[int]) -> None: ...

    await jobs.start_workers()
    await first.add(1, chain_to=[second.s()])
    await until(lambda: len(spans(exporter, f"process {queue}")) == 2)

    before, after = spans(exporter, f"process {queue}")
    assert traces([before, after]) == traces(spans(exporter, f"send {queue}"))
    assert len(traces([before, after])) == 1
