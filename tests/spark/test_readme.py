"""The table of faults names existing tests."""

import re
from pathlib import Path

HERE = Path(__file__).parent


def test_every_test_of_the_table_exists() -> None:
    named = re.findall(r"`(\w+/test_\w+\.py)::(test_\w+)`", (HERE / "README.md").read_text("utf-8"))

    assert len(named) > 40
    for file, name in named:
        assert f"def {name}(" in (HERE / file).read_text("utf-8"), f"{file}::{name}"
