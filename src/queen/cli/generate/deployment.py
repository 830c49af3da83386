"""Values that all generated deployment files share: port, user, probes, timeouts, paths."""

from importlib.metadata import version
from typing import Any, Final

from queen.settings import Settings

_DEFAULTS: Final = Settings()

PORT: Final = _DEFAULTS.port
USER_ID: Final = 65532
"""User and group in the image, without a login, as in other images without root."""
READY: Final = "/readyz"
LIVE: Final = "/livez"
STATE: Final = "/var/lib/queen"
BUFFER: Final = f"{STATE}/buffer"
SHUTDOWN_SECONDS: Final = round(_DEFAULTS.shutdown_seconds)
STOP_SECONDS: Final = SHUTDOWN_SECONDS + 10
"""Time from SIGTERM until the server kills the processes that still run."""
ENDPOINT_SECONDS: Final = 5
"""Time that Kubernetes has to remove a stopping server from its endpoints."""
WORKER_SHUTDOWN_SECONDS: Final = 30
"""Default of `queen worker --shutdown-timeout`."""
WORKER_STOP_SECONDS: Final = WORKER_SHUTDOWN_SECONDS + 15
REQUEST_SECONDS: Final = _DEFAULTS.max_timeout_ms // 1000 + 15
"""Timeout of a proxy: longer than the longest long poll."""
MAX_BODY_MIB: Final = _DEFAULTS.max_body_bytes // 2**20
CONCURRENCY: Final = 10
"""Default of `queen worker --concurrency`."""


def release() -> str:
    """Return the release of this command, which is also the tag of the image."""
    return version("queenmq")


def image() -> str:
    """Return the image that `deploy/build-image` builds for this release."""
    return f"queen:{release()}"


def server_environment() -> dict[str, str]:
    """Return the settings of a server in a container: API keys, and TLS at a proxy."""
    return {"QUEEN_AUTH": "keys", "QUEEN_BEHIND_PROXY": "true"}


def labels(component: str, name: str = "queen") -> dict[str, Any]:
    """Return the recommended Kubernetes labels that select the pods of a component."""
    return {
        "app.kubernetes.io/name": "queen",
        "app.kubernetes.io/instance": name,
        "app.kubernetes.io/component": component,
    }
