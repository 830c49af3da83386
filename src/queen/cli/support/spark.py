"""Commands that need Spark."""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

import typer

from queen.cli.support import exit_codes

_OPTIONAL: Final = ("deltalake",)
"""Packages that only some pipelines need, and that no extra of Queen installs."""


@contextmanager
def needs_spark() -> Generator[None]:
    """Explain how to install a package of Spark if an import in the block fails."""
    try:
        yield
    except ModuleNotFoundError as error:
        root = (error.name or "").partition(".")[0]
        if root in ("", "queen"):
            raise
        # A platform that has its own Spark needs only the rest.
        extra = "pyspark" if root in ("pyspark", "py4j") else "spark"
        what = root if root in _OPTIONAL else f"'queenmq[{extra}]'"
        print(f"queen: this needs {root}: pip install {what}", file=sys.stderr)
        raise typer.Exit(exit_codes.FAILED) from error
