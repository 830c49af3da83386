"""Helm renders the committed files, accepts the chart, and rejects wrong values.

`make test-nightly` builds helm, which takes minutes.
"""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.deploy.files import CHART, GOLDEN, program
from tests.deploy.test_chart import VALUE_SETS
from tools.deploy.render import render

pytestmark = pytest.mark.nightly

WORKER = (
    "workers[0].name=mailer,workers[0].image=shop,workers[0].app=shop:app,"
    "workers[0].queues[0]=email,workers[0].autoscaling.enabled=true,"
    "workers[0].autoscaling.existingSecret=keda-token"
)


def helm(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([program("helm"), *arguments], capture_output=True, text=True, timeout=50)


@pytest.mark.parametrize("values", VALUE_SETS)
def test_the_committed_files_are_current(values: str) -> None:
    assert (GOLDEN / f"{values}.yaml").read_text("utf-8") == render(values), "run `make chart`"


@pytest.mark.parametrize("values", VALUE_SETS)
def test_the_chart_passes_the_linter(values: str) -> None:
    ended = helm("lint", "--strict", CHART, "--values", CHART / "ci" / f"{values}-values.yaml")
    assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.mark.parametrize("values", VALUE_SETS)
def test_the_notes_create_the_first_api_key(values: str, tmp_path: Path) -> None:
    """`helm template` renders no notes, so they are rendered in an object here."""
    chart = tmp_path / "queen"
    shutil.copytree(CHART, chart)
    (chart / "templates" / "NOTES.txt").rename(chart / "files" / "NOTES.txt")
    (chart / "templates" / "notes.yaml").write_text(
        'notes: |\n  {{- tpl (.Files.Get "files/NOTES.txt") . | nindent 2 }}\n'
    )
    ended = helm(
        "template", "queen", chart, "--show-only", "templates/notes.yaml",
        "--values", chart / "ci" / f"{values}-values.yaml",
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    kind = "statefulset" if values == "buffer" else "deploy"
    assert f"exec {kind}/queen -- queen token create ops --role admin" in ended.stdout
    assert "<no value>" not in ended.stdout


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("database.existingSecret=", "Set database.existingSecret"),
        ("settings.NO_SUCH=1", "NO_SUCH"),
        ("replicas=0", "replicas"),
        ("buffer.enabled=true,autoscaling.enabled=true", "Turn off autoscaling or buffer"),
        ("buffer.enabled=true,buffer.size=1Gi", "Set buffer.maxBytes below buffer.size"),
        ("buffer.enabled=true,buffer.size=1073741.824k", "Set buffer.maxBytes below buffer.size"),
        ("buffer.enabled=true,buffer.size=2K", "/buffer/size"),
        ("autoscaling.enabled=true,autoscaling.minReplicas=7", "Set autoscaling.minReplicas"),
        ("metrics.serviceMonitor.enabled=true", "Set metrics.serviceMonitor.existingSecret"),
        (f"{WORKER},workers[0].autoscaling.minReplicas=11", "Set autoscaling.minReplicas"),
        ("ingress.enabled=true", "Set ingress.host"),
        ("httpRoute.enabled=true", "Set httpRoute.parentRefs"),
    ],
)
def test_wrong_values_are_rejected(setting: str, message: str) -> None:
    minimal = CHART / "ci" / "minimal-values.yaml"
    ended = helm("template", "queen", CHART, "--values", minimal, "--set", setting)
    assert ended.returncode != 0
    assert message in ended.stderr
