"""The benchmark page shows the committed results, and each result has its run."""

import re
from typing import Any

import pytest

from tools import write_benchmarks
from tools.write_benchmarks import (
    BLOCK,
    IMAGES,
    PAGE,
    README,
    SUMMARY,
    Chart,
    charts,
    drawn,
    names,
    rendered,
    result,
    summarized,
)


def test_the_tables_are_those_of_the_results() -> None:
    page = PAGE.read_text("utf-8")
    assert rendered(page) == page, "Run `make results`."


def test_the_summary_of_the_readme_is_that_of_the_results() -> None:
    page = README.read_text("utf-8")
    assert SUMMARY.search(page)
    assert summarized(page) == page, "Run `make results`."


def test_the_summary_names_the_commit_of_every_result_in_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    used: list[str] = []

    def read(name: str) -> dict[str, Any]:
        used.append(name)
        return result(name)

    monkeypatch.setattr(write_benchmarks, "result", read)
    shown = summarized(README.read_text("utf-8"))

    assert len(used) >= 3
    assert [each for each in used if f"`{result(each)['commit']}`" not in shown] == []


def test_every_result_is_on_the_page_once() -> None:
    shown = [name for _, name, _ in BLOCK.findall(PAGE.read_text("utf-8"))]
    assert sorted(shown) == names()


@pytest.mark.parametrize("name", names())
def test_a_result_names_its_run(name: str) -> None:
    data = result(name)
    assert data["benchmark"] == name
    assert re.fullmatch(r"20\d\d-\d\d-\d\d", data["date"])
    assert re.fullmatch(r"[0-9a-f]{7,12}", data["commit"])
    assert data["machine"]
    assert data["versions"]["PostgreSQL"]
    assert data["command"].startswith("make ")
    for row in data["rows"]:
        assert set(row) <= set(data["columns"])


@pytest.mark.parametrize("chart", charts(), ids=lambda chart: chart.file)
def test_a_chart_shows_the_results(chart: Chart) -> None:
    assert (IMAGES / chart.file).read_text("utf-8") == drawn(chart), "Run `make results`."
