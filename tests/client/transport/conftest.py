"""These tests are about requests over HTTP. Those about streams turn them on."""

import pytest


@pytest.fixture(autouse=True)
def http(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients use HTTP unless their test sets another transport."""
    monkeypatch.setenv("CLIENT_STREAM", "false")
