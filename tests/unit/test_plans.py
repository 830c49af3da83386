"""A workflow definition becomes steps and edges, or one clear error."""

import msgspec
import pytest

from queen import errors
from queen.jobs.workflows.definition import Step, Workflow
from queen.wire.workflow_plan import Plan, PlannedStep, plan_of


def plan(*steps: Step, **members: object) -> Plan:
    return plan_of(Workflow(name="test", steps=steps, **members).request())  # pyright: ignore[reportArgumentType]


def by_name(found: Plan) -> dict[str, PlannedStep]:
    return {step.name: step for step in found.steps}


def refusal(*steps: Step, **members: object) -> str:
    with pytest.raises(errors.InvalidWorkflow) as raised:
        plan(*steps, **members)
    return str(raised.value)


def test_nested_steps_are_flattened() -> None:
    found = plan(
        Step(
            "q",
            "a",
            on_success=[Step("q", "b", on_failure=[Step("q", "alert")])],
            on_failure=["alert"],
        )
    )

    steps = by_name(found)
    assert list(steps) == ["a", "b", "alert"]
    assert (steps["a"].on_success, steps["a"].on_failure) == (("b",), ("alert",))
    assert steps["b"].on_failure == ("alert",)
    assert steps["alert"].sources == 2


def test_a_step_after_failures_starts_with_the_first_failure() -> None:
    steps = by_name(
        plan(
            Step("q", "a", on_success=["both"], on_failure=["alert"]),
            Step("q", "b", on_success=["both"], on_failure=["alert"]),
            Step("q", "both"),
            Step("q", "alert"),
        )
    )

    assert steps["both"].needs_all
    assert not steps["alert"].needs_all


def test_a_map_over_a_step_follows_it() -> None:
    steps = by_name(plan(Step("q", "split"), Step("q", "count", over="split")))

    assert steps["split"].on_success == ("count",)
    assert (steps["count"].kind, steps["count"].items_of) == ("map", "split")


def test_compensation_is_a_step() -> None:
    found = plan(Step("q", "book", {"n": 1}, compensate=Step("q", "unbook", {"n": 1})))

    undo = by_name(found)["book:undo"]
    assert (undo.kind, undo.undoes, undo.sources) == ("undo", "book", 0)
    assert undo.template is not None
    assert msgspec.json.decode(undo.template) == {"name": "unbook", "data": {"n": 1}}


def test_aliases_of_fields_are_accepted() -> None:
    flow = Workflow(
        name="test",
        steps=[{"queueName": "q", "jobName": "a", "onSuccess": [{"queue": "q", "job": "b"}]}],
    )

    assert [step.name for step in plan_of(flow.request()).steps] == ["a", "b"]


def test_a_workflow_round_trips_as_json() -> None:
    flow = (
        Workflow(name="report", id="r1", metadata={"tags": ["x"]})
        .step("split", "work", "split-file", {"path": "a.csv"}, priority=2, timeout="1m")
        .map("count", "work", "count-lines", over="split", attempts=3)
        .wait_for("approved", timeout="2h", after=["count"])
        .step("sum", "work", "sum-up", after=["approved"])
    )

    text = flow.to_json()

    assert Workflow.from_json(text).to_json() == text
    assert plan_of(Workflow.from_json(text).request()).digest() == plan_of(flow.request()).digest()


@pytest.mark.parametrize(
    ("steps", "text"),
    [
        ((), "at least one step"),
        ((Step("q", "a"), Step("q", "a")), "two steps are called a"),
        ((Step("q", "a", on_success=["b"]),), "step a refers to b, which does not exist"),
        ((Step("q", "a", after=["b"]),), "step a refers to b, which does not exist"),
        ((Step("q", "a", over="b"),), "step a refers to b, which does not exist"),
        ((Step("q", "a", on_success=["a"]),), "the steps form a cycle: a → a"),
        (
            (Step("q", "a", after=["c"]), Step("q", "b", after=["a"]), Step("q", "c", after=["b"])),
            "the steps form a cycle: a → b → c → a",
        ),
        ((Step("q"),), "a step needs a queue and a job, or a signal"),
        ((Step("q", name="a"),), "a job needs both"),
        ((Step("q", "a", signal="go"),), "either queue and job, or signal"),
        ((Step(signal="go", data=1),), "data cannot be combined with a signal"),
        ((Step(signal="go", attempts=1),), "attempts cannot be combined with a signal"),
        ((Step("q", "a", 1, over=[1]),), "`over` and `data` cannot be combined"),
        ((Step("q", "a", over=range(10_001)),), "at most 10000 items"),
        ((Step("q", "a", name="a:b"),), "without colons"),
        ((Step("q", "a", name="x" * 101),), "1 to 100 bytes"),
        (tuple(Step("q", f"s{n}") for n in range(1_001)), "at most 1000 steps"),
        ((Step("q", "a", priority=9),), "$.steps[0].priority"),
        ((Step("q", "a", attempts=0),), "$.steps[0].attempts"),
    ],
)
def test_an_invalid_workflow_is_rejected_with_one_clear_error(
    steps: tuple[Step, ...], text: str
) -> None:
    assert text in refusal(*steps)


@pytest.mark.parametrize(
    "metadata", [{"tags": "x"}, {"tags": [1]}, {"tags": ["x"] * 21}, {"correlationId": 1}]
)
def test_searchable_metadata_must_be_text(metadata: dict[str, object]) -> None:
    assert "metadata" in refusal(Step("q", "a"), metadata=metadata)


def test_an_invalid_step_is_rejected() -> None:
    with pytest.raises(errors.InvalidWorkflow, match="invalid step"):
        Workflow(name="test", steps=[{"quue": "q"}]).request()
    with pytest.raises(errors.InvalidWorkflow, match="invalid workflow"):
        Workflow.from_json('{"steps": []}')
