"""Prometheus rules for `/metrics`; docs/operate/runbooks.md has a runbook for each."""

from typing import Any, Final, NamedTuple

from queen import telemetry as t


class Rule(NamedTuple):
    """An alert: its expression, duration, summary and severity."""

    name: str
    expression: str
    for_: str
    summary: str
    severity: str = "warning"


def _grew(metric: t.Metric, by: str) -> str:
    """
    Return an expression that is true for 15 minutes after a counter has grown.

    `increase` ignores the first value of a series. A counter that appears with it has grown too, if
    Prometheus has scraped the server before, or the server has just started.
    """
    return (
        f"sum by ({by}) (increase({metric.name}[15m]) > 0 "
        f"or ({metric.name} unless {metric.name} offset 15m) > 0 and on (job, instance) "
        f"({t.BUILD.name} offset 15m or {t.STARTED.name} > time() - 900))"
    )


RULES: Final = (
    Rule(
        "QueenDown",
        f"absent({t.BUILD.name})",
        "2m",
        "Prometheus scrapes no server.",
        "critical",
    ),
    Rule(
        "QueenOldestMessage",
        f"max by (queue, group) ({t.OLDEST.name}) > 900",
        "5m",
        "Group {{ $labels.group }} leaves messages of {{ $labels.queue }} unread for 15 minutes.",
    ),
    Rule(
        "QueenBacklogWithoutConsumers",
        f"max by (queue) ({t.QUEUE_MESSAGES.name}) > 0 unless on (queue) "
        f"sum by (queue) (rate({t.POPPED.name}[10m])) > 0",
        "10m",
        "Messages of {{ $labels.queue }} wait, but no consumer pops them.",
    ),
    Rule(
        "QueenDeadLettersGrow",
        _grew(t.DEAD_LETTERED, "queue, group"),
        "0m",
        "Group {{ $labels.group }} dead-lettered messages of {{ $labels.queue }}.",
    ),
    Rule(
        "QueenLeasesExpire",
        f"sum by (queue, group) (rate({t.LAPSED.name}[10m])) > 0.1",
        "10m",
        "Consumers of {{ $labels.queue }} ({{ $labels.group }}) crash or exceed the lease.",
    ),
    Rule(
        "QueenServerErrors",
        f'sum(rate({t.HTTP.name}_count{{status=~"5.."}}[5m])) '
        f"/ sum(rate({t.HTTP.name}_count[5m])) > 0.01",
        "5m",
        "More than 1 % of all requests fail with a server error.",
        "critical",
    ),
    Rule(
        "QueenUnexpectedErrors",
        _grew(t.ERRORS, "route"),
        "0m",
        "{{ $labels.route }} failed with an unexpected error.",
    ),
    Rule(
        "QueenPoolWait",
        f"histogram_quantile(0.99, sum by (le) (rate({t.DB_POOL_WAIT.name}_bucket[5m]))) > 0.5",
        "10m",
        "Requests wait for a database connection.",
    ),
    Rule(
        "QueenOldTransaction",
        f"max({t.OLDEST_TRANSACTION.name}) > 600",
        "5m",
        "A transaction has been open for 10 minutes and blocks vacuum.",
    ),
    Rule(
        "QueenHorizonHeld",
        f"max({t.HORIZON.name}) > 600",
        "5m",
        "Pipelines and retention have waited for an open transaction for 10 minutes.",
    ),
    Rule(
        "QueenHoldOld",
        # A recall keeps old messages on purpose, and its hold expires.
        f'max by (queue, name) ({t.HOLD_AGE.name}{{name!~"recall:.*"}}) > 172800',
        "15m",
        "The hold {{ $labels.name }} keeps messages of {{ $labels.queue }} for 2 days.",
    ),
    Rule(
        "QueenDeadTuples",
        f"max by (table) ({t.TABLE_DEAD.name}) > 1e6",
        "30m",
        "Vacuum does not keep up with {{ $labels.table }}.",
    ),
    Rule(
        "QueenUpkeepLate",
        f"time() - max by (duty) ({t.UPKEEP.name}) > 600",
        "5m",
        "The background task {{ $labels.duty }} has not run for 10 minutes.",
    ),
    Rule(
        "QueenPipelineSilent",
        f"time() - max by (pipeline) ({t.PIPELINE_UPDATED.name}) > 180",
        "5m",
        "The pipeline {{ $labels.pipeline }} has not reported for 3 minutes.",
    ),
    Rule(
        "QueenEventLoopLate",
        f"max by (instance) ({t.LOOP_LAG.name}) > 0.5",
        "5m",
        "The event loop of {{ $labels.instance }} is overloaded.",
    ),
)


def rules() -> dict[str, Any]:
    """Return the rules file for Prometheus."""
    return {
        "groups": [
            {
                "name": "queen",
                "rules": [
                    {
                        "alert": rule.name,
                        "expr": rule.expression,
                        "for": rule.for_,
                        "labels": {"severity": rule.severity},
                        "annotations": {
                            "summary": rule.summary,
                            "runbook": f"docs/operate/runbooks.md#{rule.name.lower()}",
                        },
                    }
                    for rule in RULES
                ],
            }
        ]
    }
