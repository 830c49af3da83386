"""Unit tests of the alert rules, for `promtool test rules`."""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from queen import telemetry as t
from queen.cli.generate.alerts import RULES, Rule

_MINUTES: Final = 60
"""Length of each series. One sample per minute."""
_SERVER: Final = 'job="queen", instance="a:6632"'
_ALWAYS_UP: Final = {
    f"{t.BUILD.name}{{{_SERVER}}}": f"1x{_MINUTES}",
    f"{t.STARTED.name}{{{_SERVER}}}": f"-9000x{_MINUTES}",
}
"""A server that Prometheus has scraped from the beginning."""


class Case(NamedTuple):
    """A situation, and the labels of the alert that fires in it. None: none fires."""

    name: str
    alert: str
    minute: int
    series: dict[str, str]
    labels: dict[str, str] | None


def _of(metric: t.Metric, labels: str = "", suffix: str = "") -> str:
    inner = ", ".join(each for each in (_SERVER, labels) if each)
    return f"{metric.name}{suffix}{{{inner}}}"


_ORDERS: Final = 'queue="orders"'
_MAIL: Final = 'queue="orders", group="mail"'
_PAIR: Final = {"queue": "orders", "group": "mail"}
_LATER: Final = f"_x20 1x{_MINUTES - 20}"
"""A counter that appears after 20 minutes, with its first event."""


def _pool(*bounds: str) -> dict[str, str]:
    """Waits for a connection: 60 per minute in the buckets with these bounds, 0 in the others."""
    return {
        _of(t.DB_POOL_WAIT, f'le="{each}"', "_bucket"): "0+60x60" if each in bounds else "0x60"
        for each in ("0.001", "0.5", "1", "+Inf")
    }


def _requests(failed: int) -> dict[str, str]:
    route = 'route="/api/v1/push", method="POST"'
    return {
        _of(t.HTTP, f'{route}, status="201"', "_count"): "0+100x60",
        _of(t.HTTP, f'{route}, status="503"', "_count"): f"0+{failed}x60",
    }


CASES: Final = (
    Case("no server", "QueenDown", 3, {}, {}),
    Case("a server that vanishes", "QueenDown", 40, {_of(t.BUILD): "1x30 stale"}, {}),
    Case("a server", "QueenDown", 3, {_of(t.BUILD): "1x60"}, None),
    Case("20 minutes old", "QueenOldestMessage", 6, {_of(t.OLDEST, _MAIL): "1200x60"}, _PAIR),
    Case(
        "20 minutes old, but read",
        "QueenOldestMessage",
        8,
        {_of(t.OLDEST, _MAIL): "1200x4 0x9"},
        None,
    ),
    Case("10 minutes old", "QueenOldestMessage", 6, {_of(t.OLDEST, _MAIL): "600x60"}, None),
    Case(
        "messages of another queue are popped",
        "QueenBacklogWithoutConsumers",
        12,
        {
            _of(t.QUEUE_MESSAGES, _ORDERS): "5x60",
            _of(t.POPPED, 'queue="other", group="mail"'): "0+5x60",
        },
        {"queue": "orders"},
    ),
    Case(
        "messages are popped",
        "QueenBacklogWithoutConsumers",
        12,
        {_of(t.QUEUE_MESSAGES, _ORDERS): "5x60", _of(t.POPPED, _MAIL): "0+5x60"},
        None,
    ),
    Case(
        "a counter grows",
        "QueenDeadLettersGrow",
        30,
        {**_ALWAYS_UP, _of(t.DEAD_LETTERED, _MAIL): "3x25 4x35"},
        _PAIR,
    ),
    Case(
        "the first dead letter of a group",
        "QueenDeadLettersGrow",
        25,
        {**_ALWAYS_UP, _of(t.DEAD_LETTERED, _MAIL): _LATER},
        _PAIR,
    ),
    Case(
        "the first dead letter, on a new server",
        "QueenDeadLettersGrow",
        25,
        {
            _of(t.BUILD): "_x20 1x40",
            _of(t.STARTED): "_x20 1200x40",
            _of(t.DEAD_LETTERED, _MAIL): _LATER,
        },
        _PAIR,
    ),
    Case(
        "an old counter, first scraped now",
        "QueenDeadLettersGrow",
        25,
        {
            _of(t.BUILD): "_x20 1x40",
            _of(t.STARTED): "_x20 -9000x40",
            _of(t.DEAD_LETTERED, _MAIL): _LATER,
        },
        None,
    ),
    Case(
        "old dead letters",
        "QueenDeadLettersGrow",
        30,
        {**_ALWAYS_UP, _of(t.DEAD_LETTERED, _MAIL): "3x60"},
        None,
    ),
    Case("12 per minute", "QueenLeasesExpire", 25, {_of(t.LAPSED, _MAIL): "0+12x60"}, _PAIR),
    Case("3 per minute", "QueenLeasesExpire", 25, {_of(t.LAPSED, _MAIL): "0+3x60"}, None),
    Case("2 % fail", "QueenServerErrors", 15, _requests(2), {}),
    Case("none fails", "QueenServerErrors", 15, _requests(0), None),
    Case(
        "the first error of a route",
        "QueenUnexpectedErrors",
        25,
        {**_ALWAYS_UP, _of(t.ERRORS, 'route="/api/v1/push"'): _LATER},
        {"route": "/api/v1/push"},
    ),
    Case(
        "an old error",
        "QueenUnexpectedErrors",
        50,
        {**_ALWAYS_UP, _of(t.ERRORS, 'route="/api/v1/push"'): _LATER},
        None,
    ),
    Case("waits of up to a second", "QueenPoolWait", 25, _pool("1", "+Inf"), {}),
    Case("waits of a millisecond", "QueenPoolWait", 25, _pool("0.001", "0.5", "1", "+Inf"), None),
    Case("11 minutes", "QueenOldTransaction", 6, {_of(t.OLDEST_TRANSACTION): "660x60"}, {}),
    Case("5 minutes", "QueenOldTransaction", 6, {_of(t.OLDEST_TRANSACTION): "300x60"}, None),
    Case(
        "two million",
        "QueenDeadTuples",
        31,
        {_of(t.TABLE_DEAD, 'table="queen.deliveries"'): "2000000x60"},
        {"table": "queen.deliveries"},
    ),
    Case("20 minutes", "QueenHorizonHeld", 6, {_of(t.HORIZON): "1200x60"}, {}),
    Case("a minute", "QueenHorizonHeld", 6, {_of(t.HORIZON): "60x60"}, None),
    Case(
        "three days",
        "QueenHoldOld",
        16,
        {_of(t.HOLD_AGE, 'queue="orders", name="archive:orders"'): "259200x60"},
        {"queue": "orders", "name": "archive:orders"},
    ),
    Case(
        "a day",
        "QueenHoldOld",
        16,
        {_of(t.HOLD_AGE, 'queue="orders", name="archive:orders"'): "86400x60"},
        None,
    ),
    Case(
        "half a million",
        "QueenDeadTuples",
        31,
        {_of(t.TABLE_DEAD, 'table="queen.deliveries"'): "500000x60"},
        None,
    ),
    Case(
        "stopped after a minute",
        "QueenUpkeepLate",
        20,
        {_of(t.UPKEEP, 'duty="retention"'): "60x60"},
        {"duty": "retention"},
    ),
    Case(
        "every minute", "QueenUpkeepLate", 20, {_of(t.UPKEEP, 'duty="retention"'): "0+60x60"}, None
    ),
    Case(
        "stopped after a minute",
        "QueenPipelineSilent",
        10,
        {_of(t.PIPELINE_UPDATED, 'pipeline="archive"'): "60x60"},
        {"pipeline": "archive"},
    ),
    Case(
        "every minute",
        "QueenPipelineSilent",
        10,
        {_of(t.PIPELINE_UPDATED, 'pipeline="archive"'): "0+60x60"},
        None,
    ),
    Case("a second", "QueenEventLoopLate", 6, {_of(t.LOOP_LAG): "1x60"}, {"instance": "a:6632"}),
    Case("0.1 seconds", "QueenEventLoopLate", 6, {_of(t.LOOP_LAG): "0.1x60"}, None),
)


def alert_tests() -> dict[str, Any]:
    """Return the file for `promtool test rules`."""
    rules = {each.name: each for each in RULES}
    return {
        "rule_files": ["queen-alerts.yaml"],
        "evaluation_interval": "1m",
        "tests": [_test(case, rules[case.alert]) for case in CASES],
    }


def _test(case: Case, rule: Rule) -> dict[str, Any]:
    return {
        "name": f"{case.alert}: {case.name}",
        "interval": "1m",
        "input_series": [
            {"series": name, "values": values} for name, values in case.series.items()
        ],
        "alert_rule_test": [
            {
                "eval_time": f"{case.minute}m",
                "alertname": case.alert,
                "exp_alerts": [*_expected(case, rule)],
            }
        ],
    }


def _expected(case: Case, rule: Rule) -> Iterator[dict[str, Any]]:
    if case.labels is None:
        return
    summary = rule.summary
    for name, value in case.labels.items():
        summary = summary.replace(f"{{{{ $labels.{name} }}}}", value)
    yield {
        "exp_labels": {"severity": rule.severity, **case.labels},
        "exp_annotations": {
            "summary": summary,
            "runbook": f"docs/operate/runbooks.md#{rule.name.lower()}",
        },
    }
