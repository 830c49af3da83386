"""The restore procedure is on one page, in an order that loses no message."""

import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "operate" / "backup.md").read_text("utf-8")
GENERATED = DOCS / "reference" / "cli.md"


def test_only_one_page_has_the_procedure() -> None:
    pages = [
        page
        for page in DOCS.rglob("*.md")
        if page != GENERATED and "backup-check --dsn-file copy.dsn" in page.read_text("utf-8")
    ]
    assert pages == [DOCS / "operate" / "backup.md"]


def test_the_copy_is_checked_and_repaired_before_a_server_starts() -> None:
    (section,) = re.findall(r"^## Restore\n(.*?)^## ", PAGE, flags=re.DOTALL | re.MULTILINE)
    steps = re.findall(r"^\d\. (.*?)(?=^\d\. |^\|)", section, flags=re.DOTALL | re.MULTILINE)
    words = [
        "Stop all servers",
        "pg_restore",
        "--restored",
        "--repair --yes",
        "migrate up",
        "Start",
    ]
    assert len(steps) == len(words)
    assert all(word in step for word, step in zip(words, steps, strict=True))
