"""A Grafana dashboard for `/metrics`."""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from queen import telemetry as t


class Panel(NamedTuple):
    """A chart: its title, its unit, and the legend and expression of each line."""

    title: str
    unit: str
    lines: tuple[tuple[str, str], ...]


def _scope(metric: t.Metric) -> str:
    return '{queue=~"$queue"}' if "queue" in metric.labels else ""


def _rate(metric: t.Metric, by: str = "queue") -> str:
    return f"sum by ({by}) (rate({metric.name}{_scope(metric)}[$__rate_interval]))"


def _sum(metric: t.Metric, by: str) -> str:
    return f"sum by ({by}) ({metric.name}{_scope(metric)})"


def _most(metric: t.Metric, by: str = "queue") -> str:
    """Return the maximum over hosts, because one process samples for all."""
    return f"max by ({by}) ({metric.name}{_scope(metric)})"


def _by_group(
    read: Callable[[t.Metric, str], str], metric: t.Metric
) -> tuple[tuple[str, str], ...]:
    return (("{{queue}} {{group}}", read(metric, "queue, group")),)


def _quantile(quantile: float, metric: t.Metric, by: str = "") -> str:
    labels = f"le, {by}" if by else "le"
    return (
        f"histogram_quantile({quantile}, sum by ({labels}) "
        f"(rate({metric.name}_bucket{_scope(metric)}[$__rate_interval])))"
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
        Panel("Lag", "short", _by_group(_most, t.GROUP_LAG)),
        Panel("Oldest message", "s", _by_group(_most, t.OLDEST)),
        Panel("From push to pop", "s", _quantiles(t.WAIT)),
        Panel("From pop to ack", "s", _quantiles(t.PROCESSING)),
    ),
    "Deliveries": (
        Panel("Leased or waiting for a retry", "short", _by_group(_most, t.DELIVERIES)),
        Panel("Expired leases", "cps", _by_group(_rate, t.LAPSED)),
        Panel(
            "Given back, dead",
            "cps",
            (("given back", _rate(t.NACKED)), ("dead", _rate(t.DEAD_LETTERED))),
        ),
        Panel("Waiting pops", "short", _by_group(_sum, t.WAITERS)),
    ),
    "Server": (
        Panel(
            "Calls",
            "reqps",
            (("{{status}}", f"sum by (status) (rate({t.HTTP.name}_count[$__rate_interval]))"),),
        ),
        Panel("Request duration", "s", (("p99 {{route}}", _quantile(0.99, t.HTTP, "route")),)),
        Panel("Rejected by limits", "cps", (("{{code}}", _rate(t.RATE_LIMITED, "code")),)),
        Panel("Event loop lag", "s", (("{{instance}}", _most(t.LOOP_LAG, "instance")),)),
    ),
    "Database": (
        Panel("Statement duration", "s", (("p99 {{call}}", _quantile(0.99, t.DB_CALL, "call")),)),
        Panel("Wait for a connection", "s", _quantiles(t.DB_POOL_WAIT)),
        Panel("Dead row versions", "short", (("{{table}}", _most(t.TABLE_DEAD, "table")),)),
        Panel("Size", "bytes", (("{{table}}", _most(t.TABLE_BYTES, "table")),)),
        Panel("Oldest transaction", "s", (("age", f"max({t.OLDEST_TRANSACTION.name})"),)),
    ),
}

_SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
_DATASOURCE: Final = {"name": "datasource", "type": "datasource", "query": "prometheus"}
_QUEUES: Final = {
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
        "templating": {"list": [_DATASOURCE, _QUEUES]},
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
