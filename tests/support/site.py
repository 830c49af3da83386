"""The documentation site as `make docs` has built it."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
SITE = ROOT / "site"


def built_site() -> Path:
    """The directory of the site."""
    assert (SITE / "index.html").exists(), "the site is missing: `make docs` builds it"
    return SITE
