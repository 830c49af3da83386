"""
Write the tables of docs/why/benchmarks.md and README.md, and two charts, from benchmarks/results.

Usage::

    python -m tools.write_benchmarks
"""

import json
import re
from pathlib import Path
from typing import Any, NamedTuple
from xml.sax.saxutils import escape

REPOSITORY = Path(__file__).parents[1]
RESULTS = REPOSITORY / "benchmarks" / "results"
PAGE = REPOSITORY / "docs" / "why" / "benchmarks.md"
README = REPOSITORY / "README.md"
IMAGES = REPOSITORY / "docs" / "images"
BLOCK = re.compile(r"(<!-- results: ([\w-]+) -->\n).*?(<!-- end of results -->)", flags=re.DOTALL)
SUMMARY = re.compile(r"(<!-- summary -->\n).*?(<!-- end of summary -->)", flags=re.DOTALL)
_WIDTH = 760
_LABELS = 210
_BAR = 18
_STYLE = """
    .back { fill: #ffffff }
    text { fill: #3b4250 }
    .title { font-weight: 600; fill: #161a22 }
    .queen { fill: #5a3fc0 }
    .other { fill: #9aa4b2 }
    @media (prefers-color-scheme: dark) {
      .back { fill: #161a22 }
      text { fill: #c3cad6 }
      .title { fill: #f2f4f8 }
      .queen { fill: #a48cff }
      .other { fill: #59616f }
    }
"""


class Chart(NamedTuple):
    """A bar chart of some columns of one result, with a group of bars per entry."""

    file: str
    title: str
    groups: tuple[tuple[str, dict[str, float]], ...]


def result(name: str) -> dict[str, Any]:
    """Return one file of benchmarks/results."""
    return json.loads((RESULTS / f"{name}.json").read_text("utf-8"))


def names() -> list[str]:
    """Return the names of all results."""
    return sorted(path.stem for path in RESULTS.glob("*.json"))


def rendered(page: str) -> str:
    """Return the page with all its tables written again."""
    return BLOCK.sub(lambda found: f"{found[1]}{_section(result(found[2]))}{found[3]}", page)


def summarized(page: str) -> str:
    """Return README.md with its table written again."""
    return SUMMARY.sub(lambda found: f"{found[1]}{_summary()}{found[2]}", page)


def _summary() -> str:
    """Return the table for people who have a minute: good and weak results."""
    http = result("http-peers")
    queen, *others = (row for row in http["rows"] if "no queue" not in row["queue"])
    lines = [_row(("Messages or jobs per second", "Queen over HTTP", "best other, in process"))]
    lines.append("|---|---|---|")
    for key, title in (
        ("push_1000", "push, 1,000 per request"),
        ("push_100", "push, 100 per request"),
        ("push_1", "push, 1 per request"),
        ("mixed_100", "push + pop + ack, 100 per request, each way"),
    ):
        best = max(others, key=lambda row: row[key])
        lines.append(_row((title, _cell(queen[key]), f"{_cell(best[key])} ({best['queue']})")))
    jobs, latency = result("jobs"), result("http-latency")
    bulk = jobs["rows"][0]
    best_runner = max(("pgqueuer", "procrastinate"), key=lambda each: bulk[each])
    other = f"{_cell(bulk[best_runner])} ({best_runner})"
    lines.append(_row(("no-op jobs, added in bulk and run", _cell(bulk["queen"]), other)))
    p50, p99, *_ = (_cell(row.get("value")) for row in latency["rows"])
    lines.append(_row(("latency at 1,000 msg/s, p50 / p99", f"{p50} / {p99} ms", "\u2013")))
    versions = f"PostgreSQL {http['versions']['PostgreSQL']}, Python {http['versions']['Python']}"
    machine = f"{http['machine']}: PostgreSQL, server and load together"
    sources = {"Push": http, "Jobs": jobs, "Latency": latency}
    runs = [f"{name}: {each['date']}, commit `{each['commit']}`." for name, each in sources.items()]
    lines += ["", f"Machine: {machine}. {versions}. {' '.join(runs)}", ""]
    return "\n".join(lines)


def _section(data: dict[str, Any]) -> str:
    columns: dict[str, str] = data["columns"]
    lines = [f"```sh\n{data['command']}\n```\n", _row(columns.values())]
    lines.append("|" + "---|" * len(columns))
    lines += [_row(_cell(row.get(key)) for key in columns) for row in data["rows"]]
    lines += ["", _caption(data), *data.get("notes", ()), ""]
    return "\n".join(lines)


def _row(cells: Any) -> str:  # noqa: ANN401 - any iterable of strings
    return f"| {' | '.join(cells)} |"


def _cell(value: Any) -> str:  # noqa: ANN401 - any JSON value
    if value is None:
        return "\u2013"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _caption(data: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in data["versions"].items())
    settings = ", ".join(f"{name}: {_cell(each)}" for name, each in data["configuration"].items())
    run = f"Run of {data['date']}, commit `{data['commit']}`. Machine: {data['machine']}."
    return f"{run} Versions: {versions}. Configuration: {settings}."


def charts() -> list[Chart]:
    """Return the charts of the page, with their values."""
    peers = {row["queue"]: row for row in result("http-peers")["rows"]}
    queues = ("Queen", "rows by COPY, no queue", "pgmq", "pgqueuer", "procrastinate")
    jobs = result("jobs")["rows"]
    runners = ("queen", "pgmq", "pgqueuer", "procrastinate")
    headers: dict[str, str] = result("jobs")["columns"]
    return [
        Chart(
            "benchmark-messages.svg",
            "Messages pushed per second",
            tuple(
                (f"{batch} per request", {each: peers[each][f"push_{key}"] for each in queues})
                for key, batch in (("1", "1"), ("100", "100"), ("1000", "1,000"))
            ),
        ),
        Chart(
            "benchmark-jobs.svg",
            "Jobs added and run per second",
            tuple(
                (title, {headers[each]: row[each] for each in runners})
                for title, row in zip(("in bulk", "one by one"), jobs[:2], strict=True)
            ),
        ),
    ]


def drawn(chart: Chart) -> str:
    """Return a chart as SVG, in the colors of the reader's light or dark theme."""
    scale = (_WIDTH - _LABELS - 90) / max(max(values.values()) for _, values in chart.groups)
    parts = [f'  <text class="title" x="12" y="24" font-size="15">{escape(chart.title)}</text>']
    top = 42
    for title, values in chart.groups:
        parts.append(f'  <text class="title" x="12" y="{top + 12}">{escape(title)}</text>')
        top += 20
        for name, value in values.items():
            kind = "queen" if name == "Queen" else "other"
            width = max(1.0, round(value * scale, 1))
            parts += [
                f'  <text x="{_LABELS - 8}" y="{top + 13}" text-anchor="end">{escape(name)}</text>',
                f'  <rect class="{kind}" x="{_LABELS}" y="{top}" '
                f'width="{width}" height="{_BAR - 3}"/>',
                f'  <text x="{_LABELS + width + 6}" y="{top + 13}">{value:,}</text>',
            ]
            top += _BAR
        top += 10
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {top}" role="img" '
        f'font-family="system-ui, sans-serif" font-size="12">'
    )
    back = f'  <rect class="back" x="0" y="0" width="{_WIDTH}" height="{top}"/>'
    return "\n".join([head, f"  <style>{_STYLE}  </style>", back, *parts, "</svg>", ""])


def main() -> None:
    PAGE.write_text(rendered(PAGE.read_text("utf-8")), "utf-8")
    README.write_text(summarized(README.read_text("utf-8")), "utf-8")
    for chart in charts():
        (IMAGES / chart.file).write_text(drawn(chart), "utf-8")


if __name__ == "__main__":
    main()
