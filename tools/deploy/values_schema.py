"""The JSON Schema of the Helm chart's values. The settings come from the server's own table."""

from typing import Any, Final

import msgspec

from queen.settings import SECRETS, Settings

Schema = dict[str, Any]

OF_THE_CHART: Final = frozenset(
    {
        *("FILE_BUFFER_DIR", "FILE_BUFFER_MAX_BYTES", "NUM_WORKERS", "PORT"),
        *("PG_HOST", "PG_PORT", "PG_USER", "PG_DB", "PG_SSLROOTCERT"),
        *("QUEEN_AUTH", "QUEEN_AUTO_MIGRATE", "QUEEN_BEHIND_PROXY", "QUEEN_DB_PGBOUNCER"),
        *("QUEEN_SHUTDOWN_SECONDS", "QUEEN_TLS_CERTIFICATE", "QUEEN_TLS_KEY"),
    }
)
"""Settings that other values of the chart set."""

_TEXT: Final[Schema] = {"type": "string"}
_SWITCH: Final[Schema] = {"type": "boolean"}
_COUNT: Final[Schema] = {"type": "integer", "minimum": 1}
_AMOUNT: Final[Schema] = {"type": "integer", "minimum": 0}
_OBJECT: Final[Schema] = {"type": "object"}
_LIST: Final[Schema] = {"type": "array", "items": _OBJECT}
_STRINGS: Final[Schema] = {"type": "object", "additionalProperties": _TEXT}
_QUANTITY: Final[Schema] = {"type": "string", "pattern": "^[0-9]+(\\.[0-9]+)?(k|[MGTP]|[KMGTP]i)?$"}
_PATH: Final[Schema] = {"type": "string", "pattern": "^/"}
_PORT: Final[Schema] = {"type": "integer", "minimum": 1, "maximum": 65535}
_NAME: Final[Schema] = {"type": "string", "pattern": "^[a-z0-9]([-a-z0-9]{0,30}[a-z0-9])?$"}


def _closed(required: tuple[str, ...] = (), /, **properties: Schema) -> Schema:
    """Return an object without other properties."""
    found: Schema = {
        "type": "object",
        "additionalProperties": False,
        "properties": properties,
    }
    return {**found, "required": [*required]} if required else found


def _one_of(*values: str) -> Schema:
    return {"type": "string", "enum": [*values]}


_SECRET: Final = _closed(existingSecret=_TEXT, key=_TEXT)
_WORKER: Final = _closed(
    ("name", "image", "app"),
    name=_NAME,
    image=_TEXT,
    app={"type": "string", "pattern": "^[^:]+:[^:]+$"},
    queues={"type": "array", "items": _TEXT, "minItems": 1},
    concurrency=_COUNT,
    replicas=_AMOUNT,
    shutdownSeconds=_COUNT,
    existingSecret=_TEXT,
    key=_TEXT,
    env=_LIST,
    resources=_OBJECT,
    autoscaling=_closed(
        enabled=_SWITCH, minReplicas=_AMOUNT, maxReplicas=_COUNT, existingSecret=_TEXT, key=_TEXT
    ),
)


def settings_schema() -> Schema:
    """Return the settings that the chart passes on: name, type and limits of each."""
    (_, components) = msgspec.json.schema_components([Settings])
    properties: dict[str, Schema] = components["Settings"]["properties"]
    return _closed(
        **{
            name: _portable(schema)
            for name, schema in properties.items()
            if name not in SECRETS | OF_THE_CHART
        }
    )


def _portable(schema: Schema) -> Schema:
    """Return the schema of a variable, which is never null, with patterns as in JavaScript."""
    for each in schema.get("anyOf", []):
        if each != {"type": "null"}:
            schema = each
    return {
        key: value.replace("\\Z", "$") if key == "pattern" else value
        for key, value in schema.items()
        if key != "default"
    }


def values_schema() -> Schema:
    """Return the schema of values.yaml."""
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Values of the Helm chart queen",
        **_closed(
            ("database",),
            **_servers(),
            **_access(),
            **_network(),
            **_monitoring(),
            **_pods(),
            workers={"type": "array", "items": _WORKER},
            # Helm adds this one.
            **{"global": _OBJECT},
        ),
    }


def _servers() -> dict[str, Schema]:
    return {
        "nameOverride": _TEXT,
        "fullnameOverride": _TEXT,
        "image": _closed(
            repository=_TEXT,
            tag=_TEXT,
            digest={"type": "string", "pattern": "^(sha256:[0-9a-f]{64})?$"},
            pullPolicy=_one_of("Always", "IfNotPresent", "Never"),
        ),
        "imagePullSecrets": _LIST,
        "replicas": _COUNT,
        "processes": _COUNT,
        "shutdownSeconds": _COUNT,
        "resources": _OBJECT,
        "settings": settings_schema(),
        "extraEnv": _LIST,
        "buffer": _closed(enabled=_SWITCH, size=_QUANTITY, storageClass=_TEXT, maxBytes=_COUNT),
        "autoscaling": _closed(
            enabled=_SWITCH,
            minReplicas=_COUNT,
            maxReplicas=_COUNT,
            targetCPUUtilizationPercentage={"type": "integer", "minimum": 1, "maximum": 100},
        ),
        "podDisruptionBudget": _closed(enabled=_SWITCH, maxUnavailable=_COUNT),
    }


def _access() -> dict[str, Schema]:
    return {
        "database": _closed(
            ("existingSecret",),
            existingSecret=_TEXT,
            key=_TEXT,
            pgbouncer=_SWITCH,
            ca=_SECRET,
        ),
        "migrate": _closed(
            enabled=_SWITCH, existingSecret=_TEXT, key=_TEXT, activeDeadlineSeconds=_COUNT
        ),
        "auth": _closed(kinds=_one_of("", "keys", "jwt", "keys,jwt"), jwtSecret=_SECRET),
        "encryption": _SECRET,
        "tls": _closed(existingSecret=_TEXT),
    }


def _network() -> dict[str, Schema]:
    return {
        "service": _closed(
            type=_one_of("ClusterIP", "NodePort", "LoadBalancer"), port=_PORT, annotations=_STRINGS
        ),
        "ingress": _closed(
            enabled=_SWITCH,
            className=_TEXT,
            annotations=_STRINGS,
            host=_TEXT,
            path=_PATH,
            tls=_closed(existingSecret=_TEXT),
        ),
        "httpRoute": _closed(
            enabled=_SWITCH,
            annotations=_STRINGS,
            parentRefs=_LIST,
            hostnames={"type": "array", "items": _TEXT},
            path=_PATH,
        ),
        "networkPolicy": _closed(
            **{"from": _LIST},
            enabled=_SWITCH,
            databaseTo=_LIST,
            databasePorts={"type": "array", "items": _PORT, "minItems": 1},
            extraEgress=_LIST,
        ),
    }


def _monitoring() -> dict[str, Schema]:
    return {
        "metrics": _closed(
            serviceMonitor=_closed(
                enabled=_SWITCH,
                existingSecret=_TEXT,
                key=_TEXT,
                interval={"type": "string", "pattern": "^[0-9]+(ms|s|m|h)$"},
                labels=_STRINGS,
                tlsConfig=_OBJECT,
            ),
            prometheusRule=_closed(enabled=_SWITCH, labels=_STRINGS),
            grafanaDashboard=_closed(enabled=_SWITCH, labels=_STRINGS, annotations=_STRINGS),
        )
    }


def _pods() -> dict[str, Schema]:
    return {
        "serviceAccount": _closed(create=_SWITCH, name=_TEXT, annotations=_STRINGS),
        "podLabels": _STRINGS,
        "podAnnotations": _STRINGS,
        "priorityClassName": _TEXT,
        "nodeSelector": _STRINGS,
        "tolerations": _LIST,
        "affinity": _OBJECT,
    }
