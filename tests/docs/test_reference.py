"""The reference pages are complete."""

import re
from pathlib import Path

import msgspec

from queen import errors, sql, telemetry
from queen.arrow.columns import COLUMNS
from queen.server.routes.table import ROUTES
from queen.settings import Settings
from queen.spark.format.options import OPTIONS
from queen.wire.options import QueueOptions
from tests.cli.tree import COMMANDS
from tools import sql_reference, write_cli_reference as cli_page, write_reference

ROOT = Path(__file__).parents[2]


def headings(name: str) -> set[str]:
    text = (ROOT / "docs" / "reference" / name).read_text("utf-8")
    return set(re.findall(r"^## (\w+)$", text, flags=re.MULTILINE))


def test_every_setting_is_in_the_table_with_its_default() -> None:
    text = (ROOT / "docs" / "reference" / "settings.md").read_text("utf-8")
    shown = dict(re.findall(r"^\| `([A-Z_]+)` \| (.*?) \| .+ \|$", text, flags=re.MULTILINE))
    defaults = {
        name: "unset"
        if value is None
        else f"{value:.15g}"
        if isinstance(value, float)
        else str(value) or "empty"
        for name, value in msgspec.to_builtins(Settings()).items()
    }
    assert shown == {
        name: value.lower() if value in ("True", "False") else value
        for name, value in defaults.items()
    }


def test_every_generated_block_is_current() -> None:
    pages = write_reference.pages()
    assert {path.stem for path in pages} == {
        *("errors", "metrics", "queue-options", "settings", "sql"),
    }
    for path, text in pages.items():
        assert text == path.read_text("utf-8"), f"{path}: run `make reference`."


def test_every_error_has_a_heading_a_cause_and_a_remedy() -> None:
    names = {error.__name__ for error in write_reference.error_classes()}
    assert headings("errors.md") == names
    text = (ROOT / "docs" / "reference" / "errors.md").read_text("utf-8")
    assert text.count("\n**Cause:** ") == text.count("\n**Remedy:** ") == len(names)


def test_every_code_that_a_server_returns_is_in_the_index() -> None:
    text = (ROOT / "docs" / "reference" / "errors.md").read_text("utf-8")
    codes = set(re.findall(r"^\| `(\w+)` \| \d{3} \|", text, flags=re.MULTILINE))
    # A server never raises the common base of the two families.
    expected = {code for code, each in errors.every().items() if not each.is_local}
    assert codes == expected - {errors.ApiError.code}


def test_only_errors_of_requests_have_an_effect() -> None:
    text = (ROOT / "docs" / "reference" / "errors.md").read_text("utf-8")
    silent = {
        name
        for name, section in re.findall(r"^## (\w+)\n\n(.+)$", text, flags=re.MULTILINE)
        if "The request" not in section
    }
    assert silent == {
        *("DataLost", "JobCancelled", "JobFailed", "LakeDiverged", "LakeUnavailable"),
        *("UndecodablePayload", "WorkflowFailed"),
    }


def test_no_cell_of_a_generated_table_is_empty() -> None:
    pages = {**write_reference.pages(), cli_page.PAGE: cli_page.rendered()}
    for path, text in pages.items():
        assert not re.search(r"^\|(.*\|)? *\|", text, flags=re.MULTILINE), path


def test_every_group_of_settings_has_a_section() -> None:
    text = (ROOT / "docs" / "reference" / "settings.md").read_text("utf-8")
    shown = re.findall(r"^## (.+)$", text, flags=re.MULTILINE)
    assert [each for each in shown if each != "See also"] == [*write_reference.setting_groups()]


def test_every_sql_function_that_is_called_is_on_the_page() -> None:
    text = (ROOT / "docs" / "reference" / "sql.md").read_text("utf-8")
    created = {
        name
        for source in sql.FUNCTIONS.values()
        for name in re.findall(r"^create or replace function queen\.(\w+)", source, re.MULTILINE)
    }
    assert {each.name for each in sql_reference.all_functions()} == created
    called = re.findall(r"\bqueen\.(\w+)\(", "\n".join(sql.CALLS.values()))
    shown = re.findall(r"^(?:### queen\.|\| `)(\w+)", text, flags=re.MULTILINE)
    assert {*called, *sql_reference.PUBLIC} & created <= set(shown)
    assert len(set(called) & created) > 50


def test_every_option_is_in_the_table() -> None:
    text = (ROOT / "docs" / "reference" / "queue-options.md").read_text("utf-8")
    (defaults,) = re.findall(
        r"jsonb_build_object\((.*?)\n  \)", sql.FUNCTIONS["options"], flags=re.DOTALL
    )
    options = set(re.findall(r"'(\w+)', [\w']", defaults))
    assert options
    assert options | {*QueueOptions.__struct_encode_fields__} <= set(re.findall(r"`(\w+)`", text))


def test_every_sqlstate_is_on_the_sql_page() -> None:
    page = (ROOT / "src" / "queen" / "sql" / "README.md").read_text("utf-8")
    used = {code for text in sql.FUNCTIONS.values() for code in re.findall(r"'(QN\d{3})'", text)}
    assert used == set(re.findall(r"^\| (QN\d{3}) \|", page, flags=re.MULTILINE))
    assert all(errors.of_sqlstate(code) for code in used)


def test_every_table_is_on_the_sql_page() -> None:
    page = (ROOT / "src" / "queen" / "sql" / "README.md").read_text("utf-8")
    tables = {
        name
        for text in sql.MIGRATIONS.values()
        for name in re.findall(
            r"^create (?:unlogged )?table queen\.(\w+)", text, flags=re.MULTILINE
        )
    }
    assert tables == set(re.findall(r"^\| `(\w+)` \|", page, flags=re.MULTILINE))


def test_every_route_is_on_the_page_and_no_other() -> None:
    text = (ROOT / "docs" / "reference" / "http.md").read_text("utf-8")
    shown = set(re.findall(r"^\| `((?:GET|POST|DELETE) /[^`]*)` \|", text, flags=re.MULTILINE))
    assert shown == {
        f"{route.method} {route.path.removeprefix('/api/v1')}"
        for route in ROUTES
        # The page mentions the second address of a message only once.
        if "{ref}/{transactionId}" not in route.path
    }


def test_every_metric_is_in_the_table() -> None:
    page = (ROOT / "docs" / "reference" / "metrics.md").read_text("utf-8")
    shown = re.findall(r"^\| `(queen_\w+)` \| (\w+) \| (.+?) \| (.+) \|$", page, flags=re.MULTILINE)
    assert shown == [
        (
            metric.name,
            metric.kind,
            ", ".join(f"`{each}`" for each in metric.labels) or "\u2013",
            metric.help,
        )
        for metric in telemetry.METRICS
    ]


def test_every_log_event_is_in_the_table() -> None:
    page = (ROOT / "docs" / "reference" / "metrics.md").read_text("utf-8")
    shown = dict(re.findall(r"^\| `([a-z_.]+)` \| ([^|]+) \|$", page, flags=re.MULTILINE))
    assert shown == telemetry.EVENTS
    names = {value for name, value in vars(telemetry.Event).items() if name.isupper()}
    assert names == set(telemetry.EVENTS)


def test_every_logged_event_is_declared() -> None:
    for path in (ROOT / "src" / "queen").rglob("*.py"):
        found = re.findall(
            r"\blog\.(?:debug|info|warning|error|exception)\((?!Event\.)", path.read_text("utf-8")
        )
        assert not found, path


def test_the_cli_page_matches_the_commands() -> None:
    text = cli_page.PAGE.read_text("utf-8")
    # `make reference` rewrites it.
    assert text.partition(cli_page.MARK)[2] == "\n" + cli_page.rendered()
    for path, command in COMMANDS.items():
        (section,) = re.findall(
            rf"^### queen {' '.join(path)}$(.*?)(?=^##|\Z)", text, flags=re.MULTILINE | re.DOTALL
        )
        for param in command.params:
            assert all(f"`{word}`" in section for word in param.opts if word.startswith("-"))


def test_every_option_of_spark_is_in_the_table() -> None:
    text = (ROOT / "docs" / "reference" / "spark.md").read_text("utf-8")
    shown = re.findall(r"^\| `(\w+)` \| (both|source|sink) \|", text, flags=re.MULTILINE)
    assert shown == [(option.name, option.of) for option in OPTIONS]


def test_every_column_of_spark_is_in_the_table() -> None:
    text = (ROOT / "docs" / "reference" / "spark.md").read_text("utf-8")
    (table,) = re.findall(r"## Columns of the source\n(.*?)\n## ", text, flags=re.DOTALL)
    rows = re.findall(r"^\| (`.*?) \|", table, flags=re.MULTILINE)
    assert [name for row in rows for name in re.findall(r"`(\w+)`", row)] == list(COLUMNS)
