"""A KEDA ScaledObject: workers for the jobs that wait or run, divided by their concurrency."""

from collections.abc import Sequence
from typing import Any, NamedTuple
from urllib.parse import quote

from queen import errors
from queen.cli.generate import deployment as d


class Scaling(NamedTuple):
    """How to scale one Deployment of workers."""

    deployment: str
    queues: Sequence[str]
    server: str = f"http://queen:{d.PORT}"
    concurrency: int = d.CONCURRENCY
    least: int = 0
    most: int = 10
    secret_name: str = "queen-keda"
    """Secret with an API key under the key `token`."""
    namespace: str | None = None


def objects(scaling: Scaling) -> list[dict[str, Any]]:
    """Return a TriggerAuthentication and a ScaledObject."""
    if not 0 <= scaling.least <= scaling.most or scaling.most < 1:
        raise errors.BadRequest("--min must be at least 0 and at most --max")
    metadata: dict[str, Any] = {"name": scaling.deployment}
    if scaling.namespace is not None:
        metadata["namespace"] = scaling.namespace
    token = {"parameter": "token", "name": scaling.secret_name, "key": "token"}
    return [
        {
            "apiVersion": "keda.sh/v1alpha1",
            "kind": "TriggerAuthentication",
            "metadata": metadata,
            "spec": {"secretTargetRef": [token]},
        },
        {
            "apiVersion": "keda.sh/v1alpha1",
            "kind": "ScaledObject",
            "metadata": metadata,
            "spec": _scaled(scaling),
        },
    ]


def _scaled(scaling: Scaling) -> dict[str, Any]:
    states = ("waiting", "active")
    return {
        "scaleTargetRef": {"name": scaling.deployment},
        "minReplicaCount": scaling.least,
        "maxReplicaCount": scaling.most,
        "pollingInterval": 15,
        "cooldownPeriod": 120,
        # Without a count, because Queen is unavailable or too many jobs are leased.
        "fallback": {
            "failureThreshold": 3,
            "replicas": max(scaling.least, 1),
            "behavior": "currentReplicasIfHigher",
        },
        "advanced": {
            "scalingModifiers": {
                "formula": formula(len(scaling.queues)),
                "target": str(scaling.concurrency),
                "activationTarget": "0",
                "metricType": "AverageValue",
            }
        },
        "triggers": [
            _trigger(scaling, number, queue, state)
            for number, queue in enumerate(scaling.queues)
            for state in states
        ],
    }


def formula(queues: int) -> str:
    """
    Return the jobs of the queue that has most, because a worker runs its concurrency per queue.

    KEDA divides the result by the target, which is the concurrency.
    """
    sums = [f"waiting_{number} + active_{number}" for number in range(queues)]
    return sums[0] if queues == 1 else f"max({', '.join(sums)})"


def _trigger(scaling: Scaling, number: int, queue: str, state: str) -> dict[str, Any]:
    api = f"{scaling.server.rstrip('/')}/api/v1"
    return {
        "type": "metrics-api",
        "name": f"{state}_{number}",
        "metadata": {
            "url": f"{api}/jobs/metrics?queue={quote(queue, safe='')}",
            "valueLocation": f"queues.0.{state}",
            "targetValue": str(scaling.concurrency),
            "authMode": "bearer",
        },
        "authenticationRef": {"name": scaling.deployment},
    }
