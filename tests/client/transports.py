"""Run tests of the SDK over both transports."""

import pytest


@pytest.fixture(params=["stream", "http"], autouse=True)
def transport(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Every client of the test, also in its processes, uses this transport."""
    monkeypatch.setenv("CLIENT_STREAM", "true" if request.param == "stream" else "false")
    return request.param
