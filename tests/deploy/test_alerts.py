"""Prometheus accepts the rules and the dashboard's queries, and each alert fires when it should."""

import json
import re
from pathlib import Path

import pytest
import yaml

from queen.cli.generate.alerts import RULES
from queen.cli.generate.compose import observability_files
from queen.cli.generate.grafana import ROWS, dashboard
from tests.deploy.files import DEPLOY, output
from tools.deploy.alert_tests import CASES

MONITORING = DEPLOY / "monitoring"


def queries() -> list[str]:
    """The dashboard's queries, with Grafana's variables replaced as Grafana would."""
    found = [
        target["expr"] for panel in dashboard()["panels"] for target in panel.get("targets", [])
    ]
    return [
        each.replace("$__rate_interval", "5m").replace("$queue", "orders|invoices")
        for each in found
    ]


def test_prometheus_accepts_the_rules() -> None:
    checked = output("promtool", "check", "rules", MONITORING / "queen-alerts.yaml")
    assert f"{len(RULES)} rules found" in checked


def test_each_alert_fires_and_stays_silent_as_expected() -> None:
    output("promtool", "test", "rules", MONITORING / "queen-alerts.test.yaml")


@pytest.mark.parametrize("rule", [each.name for each in RULES])
def test_each_alert_has_a_case_that_fires_and_one_that_does_not(rule: str) -> None:
    cases = [case.labels is None for case in CASES if case.alert == rule]
    assert set(cases) == {True, False}


def test_a_wrong_expectation_fails(tmp_path: Path) -> None:
    """Otherwise the tests above prove nothing."""
    (tmp_path / "queen-alerts.yaml").write_text((MONITORING / "queen-alerts.yaml").read_text())
    changed = (MONITORING / "queen-alerts.test.yaml").read_text().replace("1200x60", "600x60")
    (tmp_path / "test.yaml").write_text(changed)
    with pytest.raises(AssertionError, match="QueenOldestMessage"):
        output("promtool", "test", "rules", tmp_path / "test.yaml")


def test_prometheus_parses_every_query_of_the_dashboard(tmp_path: Path) -> None:
    found = queries()
    assert len(found) >= sum(len(row) for row in ROWS.values())
    assert not any("$" in each for each in found)
    rules = [{"record": f"query_{n}", "expr": each} for n, each in enumerate(found)]
    file = tmp_path / "queries.yaml"
    file.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    assert f"{len(found)} rules found" in output("promtool", "check", "rules", file)


def test_prometheus_accepts_its_configuration_in_compose(tmp_path: Path) -> None:
    files = observability_files()
    (tmp_path / "token").write_text("qk_")
    (tmp_path / "queen-alerts.yaml").write_text(files["alerts"])
    config = tmp_path / "prometheus.yml"
    config.write_text(
        files["prometheus"].replace("/run/secrets/prometheus_token", str(tmp_path / "token"))
    )
    output("promtool", "check", "config", config)


def test_grafana_finds_the_dashboard_where_compose_mounts_it() -> None:
    services = yaml.safe_load((DEPLOY / "compose" / "observability.yaml").read_text())["services"]
    mounted = {each["source"]: each["target"] for each in services["grafana"]["configs"]}
    (provider,) = yaml.safe_load(observability_files()["grafana-dashboards"])["providers"]
    assert mounted["dashboard"].startswith(provider["options"]["path"])
    assert re.fullmatch(r"\S+\.json", mounted["dashboard"])
