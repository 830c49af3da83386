"""`queen generate`: files for other tools, generated from this release."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
import yaml

from queen import telemetry
from queen.cli.generate.alerts import RULES
from queen.cli.generate.compose import Topology, compose_text
from queen.cli.generate.kubernetes import Options, manifests_text
from tests.cli.shell import Shell
from tests.support.server import Server

ROOT = Path(__file__).parents[3]


@pytest.fixture
async def exported(server: Server) -> set[str]:
    """The metrics that a server exports, and all that the catalogue lists."""
    text = (await server.get("/metrics")).body.decode()
    served = set(re.findall(r"^# TYPE (\w+) ", text, flags=re.MULTILINE))
    assert served
    page = (ROOT / "docs" / "reference" / "metrics.md").read_text("utf-8")
    documented = set(re.findall(r"^\| `(queen_\w+)` \|", page, flags=re.MULTILINE))
    return served | documented


def _metrics(expression: str) -> Iterator[str]:
    histograms = {each.name for each in telemetry.METRICS if each.kind == "histogram"}
    for name in re.findall(r"\bqueen_\w+", expression):
        base = re.sub(r"_(bucket|count|sum)$", "", name)
        yield base if base in histograms else name


def _is_whole(expression: str) -> bool:
    pairs = {")": "(", "}": "{", "]": "["}
    open_: list[str] = []
    for each in expression:
        if each in pairs.values():
            open_.append(each)
        elif each in pairs and (not open_ or open_.pop() != pairs[each]):
            return False
    return not open_


async def test_the_dashboard_shows_metrics_that_exist(shell: Shell, exported: set[str]) -> None:
    dashboard = (await shell.run("generate", "grafana")).json

    panels = [each for each in dashboard["panels"] if each["type"] != "row"]
    targets = [target for panel in panels for target in panel["targets"]]
    assert len(panels) > 15
    assert {name for each in targets for name in _metrics(each["expr"])} <= exported
    assert all(_is_whole(each["expr"]) for each in targets)
    assert len({each["id"] for each in dashboard["panels"]}) == len(dashboard["panels"])
    places = [tuple(each["gridPos"].values()) for each in dashboard["panels"]]
    assert len({place[:2] for place in places}) == len(places)
    assert all(x + w <= 24 for x, _, w, _ in places)


async def test_charts_and_rules_use_existing_labels(shell: Shell) -> None:
    labels = {each.name: {*each.labels, "le", "instance"} for each in telemetry.METRICS}
    dashboard = (await shell.run("generate", "grafana")).json
    expressions = [each.expression for each in RULES]
    for panel in dashboard["panels"]:
        expressions += [each["expr"] for each in panel.get("targets", [])]
    for expression in expressions:
        # Servers are matched by their instance only.
        measured = {*_metrics(expression)} - {telemetry.BUILD.name, telemetry.STARTED.name}
        known = set[str].intersection(*(labels[each] for each in measured or {"queen_build_info"}))
        for words in re.findall(r"by \(([\w, ]+)\)", expression):
            assert {word.strip() for word in words.split(",")} <= known, expression
        for word in re.findall(r"(\w+)=~", expression):
            assert word in known, expression


async def test_each_rule_uses_existing_metrics_and_has_a_runbook(
    shell: Shell, exported: set[str]
) -> None:
    file = yaml.safe_load((await shell.run("generate", "alerts")).out)

    (group,) = file["groups"]
    assert [each["alert"] for each in group["rules"]] == [each.name for each in RULES]
    page = (ROOT / "docs" / "operate" / "runbooks.md").read_text("utf-8")
    runbooks = re.findall(r"^## (\w+)$", page, flags=re.MULTILINE)
    assert runbooks == [each.name for each in RULES]
    for rule in group["rules"]:
        assert set(_metrics(rule["expr"])) <= exported
        assert set(_metrics(rule["expr"]))
        assert _is_whole(rule["expr"])
        assert re.fullmatch(r"\d+m", rule["for"])
        assert rule["labels"]["severity"] in ("warning", "critical")
        labels = re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"])
        assert all(f"{label}" in rule["expr"] for label in labels)


async def test_openapi_equals_the_servers_document(shell: Shell, server: Server) -> None:
    assert (await shell.run("generate", "openapi")).json == (await server.get("/openapi.json")).body


@pytest.mark.parametrize("shell_name", ["bash", "zsh", "fish"])
async def test_completion_is_a_script(shell: Shell, shell_name: str) -> None:
    ended = await shell.run("generate", "completion", shell_name)
    assert "_QUEEN_COMPLETE=complete_" + shell_name in ended.out
    assert (await shell.run("generate", "completion", "tcsh")).code == 2


async def test_bash_completes_commands_and_options(shell: Shell, tmp_path: Path) -> None:
    script = await shell.run("generate", "completion", "bash")
    (tmp_path / "queen.bash").write_text(script.out)
    (tmp_path / "queen").write_text(f'#!/bin/sh\nexec {sys.executable} -m queen "$@"\n')
    (tmp_path / "queen").chmod(0o755)
    check = (
        f"source {tmp_path}/queen.bash; COMP_WORDS=(queen queue pu); COMP_CWORD=2; "
        "_queen_completion queen; printf '%s\\n' \"${COMPREPLY[@]}\""
    )
    told = {**shell.environment, "PATH": f"{tmp_path}:{shell.environment['PATH']}"}
    answer = subprocess.run(["bash", "-c", check], env=told, capture_output=True, text=True)  # noqa: ASYNC221 - short
    assert answer.stdout == "purge\n"


def test_generated_files_contain_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PG_PASSWORD", "hunter2")
    for topology in get_args(Topology):
        assert "hunter2" not in compose_text(topology)
    assert "hunter2" not in manifests_text(Options())
