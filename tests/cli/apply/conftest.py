"""Manifests for the server of a test."""

from pathlib import Path

import pytest

from tests.cli.apply.manifests import Manifests
from tests.cli.shell import Shell


@pytest.fixture
def manifests(shell: Shell, tmp_path: Path) -> Manifests:
    return Manifests(shell, tmp_path)
