"""A Grafana dashboard for `/metrics`."""

from typing import Any, Final, NamedTuple

from queen import telemetry as t


class Panel(NamedTuple):
    """A chart: its title, its unit, and the legend and expression of each line."""

    title: str
    unit: str
    lines: tuple[tuple[str, str], ...]


def _rate(metric: t.Metric, by: str = "queue") -> str:
    return f'sum by ({by}) (rate({metric.name}{{queue=~"$queue"}}[$__rate_interval]))'


def _rate_of_all(metric: t.Metric, by: str) -> str:
    return f"sum by ({by}) (rate({metric.name}[$__rate_interval]))"


def _sum(metric: t.Metric) -> str:
    return f'sum by (queue, group) ({metric.name}{{queue=~"$queue"}})'


def _most(metric: t.Metric, by: str = "queue") -> str:
    """Return the maximum over hosts, because one process samples for all."""
    return f'max by ({by}) ({metric.name}{{queue=~"$queue"}})'


def _quantile(quantile: float, metric: t.Metric, by: str = "") -> str:
    labels = f"le, {by}" if by else "le"
    scope = '{queue=~"$queue"}' if "queue" in metric.labels else ""
    return (
        f"histogram_quantile({quantile}, sum by ({labels}) "
        f"(rate({metric.name}_bucket{scope}[$__rate_interval])))"
    )


def _quantiles(metric: t.Metric) -> tuple[tuple[str, str], ...]:
    return tuple((f"p{q * 100:g}", _quantile(q, metric)) for q in (0.5, 0.95, 0.99))


ROWS: Final[dict[str, tuple[Panel, ...]]] = {
    "Queues": (
        Panel("Pushed", "cps", (("{{queue}}", _rate(t.PUSHED)),)),
        Panel("Acked", "cps", (("{{queue}}", _rate(t.ACKED)),)),
        Panel("Unacknowledged messages", "short", (("{{queue}}", _most(t.QUEUE_MESSAGES)),)),
        Panel("Dead letters", "short", (("{{queue}}", _most(t.DEAD_LETTERS)),)),
        Panel("Unacknowledged payload", "bytes", (("{{queue}}", _most(t.QUEUE_BYTES)),)),
        Panel("Held back", "short", (("{{queue}}", _most(t.SCHEDULED)),)),
    ),
    "Groups": (
        Panel("Lag", "short", (("{{queue}} {{group}}", _most(t.GROUP_LAG, "queue, group")),)),
        Panel("Oldest message", "s", (("{{queue}} {{group}}", _most(t.OLDEST, "queue, group")),)),
        Panel("From push to pop", "s", _quantiles(t.WAIT)),
        Panel("From pop to ack", "s", _quantiles(t.PROCESSING)),
    ),
    "Deliveries": (
        Panel(
            "Leased or waiting for a retry",
            "short",
            (("{{queue}} {{group}}", _most(t.DELIVERIES, "queue, group")),),
        ),
        Panel(
            "Expired leases",
            "cps",
            (("{{queue}} {{group}}", _rate(t.LAPSED, "queue, group")),),
        ),
        Panel(
            "Given back, dead",
            "cps",
            (("given back", _rate(t.NACKED)), ("dead", _rate(t.DEAD_LETTERED))),
        ),
        Panel("Waiting pops", "short", (("{{queue}} {{group}}", _sum(t.WAITERS)),)),
    ),
    "Server": (
        Panel(
            "Calls",
            "reqps",
            (("{{status}}", f"sum by (status) (rate({t.HTTP.name}_count[$__rate_interval]))"),),
        ),
        Panel("Request duration", "s", (("p99 {{route}}", _quantile(0.99, t.HTTP, "route")),)),
        Panel("Rejected by limits", "cps", (("{{code}}", _rate_of_all(t.RATE_LIMITED, "code")),)),
        Panel("Event loop lag", "s", (("{{instance}}", f"max by (instance) ({t.LOOP_LAG.name})"),)),
    ),
    "Database": (
        Panel("Statement duration", "s", (("p99 {{call}}", _quantile(0.99, t.DB_CALL, "call")),)),
        Panel("Wait for a connection", "s", _quantiles(t.DB_POOL_WAIT)),
        Panel(
            "Dead row versions", "short", (("{{table}}", f"max by (table) ({t.TABLE_DEAD.name})"),)
        ),
        Panel("Size", "bytes", (("{{table}}", f"max by (table) ({t.TABLE_BYTES.name})"),)),
        Panel("Oldest transaction", "s", (("age", f"max({t.OLDEST_TRANSACTION.name})"),)),
    ),
}

_SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
_WIDTH: Final = 6
_HEIGHT: Final = 7


def dashboard() -> dict[str, Any]:
    """Return the dashboard for Grafana to import."""
    panels: list[dict[str, Any]] = []
    y = 0
    for title, row in ROWS.items():
        place = {"x": 0, "y": y, "w": 24, "h": 1}
        panels.append({"type": "row", "title": title, "gridPos": place, "id": len(panels) + 1})
        y += 1
        for at, panel in enumerate(row):
            x = at * _WIDTH % 24
            panels.append(_panel(panel, len(panels) + 1, x, y + at * _WIDTH // 24 * _HEIGHT))
        y += _HEIGHT * -(-len(row) * _WIDTH // 24)
    return {
        "title": "Queen",
        "uid": "queen",
        "tags": ["queen"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": [_datasource(), _queues()]},
        "panels": panels,
    }


def _panel(panel: Panel, id_: int, x: int, y: int) -> dict[str, Any]:
    return {
        "id": id_,
        "type": "timeseries",
        "title": panel.title,
        "datasource": _SOURCE,
        "gridPos": {"x": x, "y": y, "w": _WIDTH, "h": _HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": {"tooltip": {"mode": "multi", "sort": "desc"}},
        "targets": [
            {"refId": chr(ord("A") + at), "expr": expression, "legendFormat": legend}
            for at, (legend, expression) in enumerate(panel.lines)
        ],
    }


def _datasource() -> dict[str, Any]:
    return {"name": "datasource", "type": "datasource", "query": "prometheus"}


def _queues() -> dict[str, Any]:
    return {
        "name": "queue",
        "type": "query",
        "datasource": _SOURCE,
        "query": f"label_values({t.PUSHED.name}, queue)",
        "refresh": 2,
        "includeAll": True,
        "multi": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }
