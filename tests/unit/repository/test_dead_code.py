"""The code has no unused functions, methods, classes or imports."""

# pyright: basic

from pathlib import Path

from vulture import Vulture

ROOT = Path(__file__).parents[3]
CALLED_BY_OTHERS = {
    *("__getattr__", "_register_snapshot_producer", "format_commands", "ignore_aliases"),
    *("on_message_begin", "on_headers_complete", "send_400_response", "_process_log_message"),
    *("onQueryStarted", "onQueryProgress", "onQueryIdle", "onQueryTerminated"),
    *("getDefaultReadLimit", "prepareForTriggerAvailableNow", "reportLatestOffset"),
    *("streamReader", "streamWriter", "pytest_addoption", "queen_clock"),
}
"""Used by Python, typer, PyYAML, uvicorn, asyncpg, Spark and pytest."""
IN_QUOTES = {"ASGIApp", "Settleable"}
"""Imports for annotations in quotes."""


def test_no_code_is_unused() -> None:
    vulture = Vulture(ignore_decorators=["@app.command", "@*_app.command", "@route", "@both"])
    vulture.scavenge([ROOT / name for name in ("src", "tests", "benchmarks", "tools", "examples")])
    commands = (ROOT / "src" / "queen" / "cli" / "command_table.py").read_text("utf-8")

    unused = [
        item
        for item in vulture.get_unused_code()
        if item.typ in ("function", "method", "class", "import", "property")
        and "src" in item.filename.parts
        and item.name not in CALLED_BY_OTHERS | IN_QUOTES
        and f":{item.name}" not in commands
    ]

    assert not [
        f"{item.filename.relative_to(ROOT)}:{item.first_lineno} {item.name}" for item in unused
    ]
