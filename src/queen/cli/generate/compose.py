"""Compose files: one server, two servers with a standby, and monitoring for both."""

import json
from collections.abc import Mapping
from typing import Any, Final, Literal

from queen.cli.generate import deployment as d
from queen.cli.generate.alerts import rules
from queen.cli.generate.grafana import dashboard
from queen.cli.support.output import yaml_text

Topology = Literal["single", "ha", "observability"]

POSTGRES_NODE: Final = """\
# Create the database, or copy it from the peer. A directory with data is started as it is.
set -eu
if [ ! -s "$PGDATA/PG_VERSION" ]; then
  # After a failover, the peer has the data, and may still be starting.
  seconds=$PEER_SECONDS
  until pg_isready --quiet --timeout 1 --host "$PEER" || [ "$seconds" -le 0 ]; do
    seconds=$((seconds - 1))
    sleep 1
  done
  if [ "$IS_FIRST" != yes ] || pg_isready --quiet --host "$PEER"; then
    until pg_basebackup --host "$PEER" --username replicator --pgdata "$PGDATA" \\
      --wal-method stream --checkpoint fast --write-recovery-conf
    do sleep 1; done
  fi
fi
exec docker-entrypoint.sh postgres
"""
"""The entry point of both database nodes."""
REPLICATION: Final = """\
# Run once, in the new database. The settings apply after the restart that follows, and the standby
# copies them.
echo 'host replication replicator samenet scram-sha-256' >>"$PGDATA/pg_hba.conf"
psql --username "$POSTGRES_USER" --dbname "$POSTGRES_DB" --set ON_ERROR_STOP=1 \\
  --set password="$POSTGRES_PASSWORD" <<'SQL'
create role replicator login replication password :'password';
alter system set synchronous_standby_names = 'ANY 1 (*)';
alter system set wal_log_hints = on;
alter system set wal_keep_size = '1GB';
SQL
"""
"""What makes the first node a primary with a synchronous standby."""
HAPROXY: Final = f"""\
global
  maxconn 20000

defaults
  mode http
  option redispatch
  timeout connect 5s
  timeout client {d.REQUEST_SECONDS}s
  timeout server {d.REQUEST_SECONDS}s
  timeout tunnel 1h
  timeout check 3s

resolvers names
  nameserver dns 127.0.0.11:53

frontend clients
  bind :{d.PORT}
  option forwardfor
  http-request set-header X-Forwarded-Host %[req.hdr(Host)]
  http-request set-header X-Forwarded-Proto http
  default_backend servers

backend servers
  balance leastconn
  option httpchk GET {d.READY}
  option allbackups
  default-server inter 2s fall 2 rise 1 resolvers names init-addr none
  server queen-1 queen-1:{d.PORT} check
  server queen-2 queen-2:{d.PORT} check
  # If no server is ready, both still accept pushes into their buffers.
  server queen-1-buffer queen-1:{d.PORT} backup
  server queen-2-buffer queen-2:{d.PORT} backup
"""

_PEER_SECONDS: Final = 60
"""Time that a node without data waits for its peer, before it creates a new database."""
_PASSWORD: Final = "${PG_PASSWORD:?set PG_PASSWORD}"
_START: Final = """\
#   export PG_PASSWORD=…      # choose it before the first start, and store it
#   docker compose --file {file} up --detach --wait
"""
_FIRST_KEY: Final = """\
# Create your first API key. The command prints it once:
#   docker compose --file {file} exec {service} queen token create ops --role admin
#   curl --header "Authorization: Bearer qk_…" http://localhost:6632/api/v1/auth/me
"""
_IMAGE: Final = """\
# The image is built from a checkout (QUEEN_SOURCE). If you have one already, set QUEEN_IMAGE.
# Ports are open on loopback only. For other machines, add a proxy with TLS.
"""
_HEADERS: Final[dict[Topology, str]] = {
    "single": "# Queen and PostgreSQL on one machine.\n"
    + _START
    + _FIRST_KEY.replace("{service}", "queen")
    + _IMAGE,
    "ha": "# Two servers behind haproxy, PostgreSQL with a synchronous standby. Needs Docker\n"
    "# Compose 2.23.1 or newer. For real availability, spread the services over machines.\n"
    + _START
    + _FIRST_KEY.replace("{service}", "queen-1")
    + """\
# Fail over, for example because postgres-1 is lost. Writes continue when the new standby is ready:
#   docker compose --file {file} rm --stop --force postgres-1
#   docker compose --file {file} exec postgres-2 psql -U queen -c 'select pg_promote()'
#   docker volume rm queen_postgres-1
#   docker compose --file {file} up --detach --wait
"""
    + _IMAGE,
    "observability": """\
# Prometheus with Queen's alert rules, and Grafana with its dashboard. Use it on top of single.yaml
# or ha.yaml (there, the service is queen-1). Needs Docker Compose 2.23.1 or newer.
# Prometheus needs an API key. Create it on the running server:
#   export PROMETHEUS_TOKEN=$(docker compose --file single.yaml exec --no-TTY queen \\
#     queen token create prometheus --role read-only)
#   export GRAFANA_PASSWORD=…      # the password of the user admin
#   docker compose --file single.yaml --file {file} up --detach --wait
# Prometheus: http://localhost:9090, Grafana: http://localhost:3000
""",
}


def compose_text(topology: Topology) -> str:
    """Return a compose file, with the steps to use it in its head."""
    file = f"{topology}.yaml"
    head = f"# Generated by `queen generate compose {topology}`.\n" + _HEADERS[topology]
    services = {"single": _single, "ha": _ha, "observability": _observability}[topology]
    return head.replace("{file}", file) + yaml_text({"name": "queen", **services()})


def _single() -> dict[str, Any]:
    return {
        "services": {
            "postgres": _postgres("postgres"),
            "queen": {
                **_queen("queen", ["postgres"]),
                # API keys never cross a network unencrypted: loopback, or a proxy on this machine.
                "ports": [f"127.0.0.1:{d.PORT}:{d.PORT}"],
            },
        },
        "volumes": {"postgres": {}, "queen": {}},
    }


def _ha() -> dict[str, Any]:
    nodes, servers = ("postgres-1", "postgres-2"), ("queen-1", "queen-2")
    services: dict[str, Any] = {
        node: _node(node, peer) for node, peer in zip(nodes, reversed(nodes), strict=True)
    }
    for server in servers:
        aliases = {"aliases": ["queen"]}
        services[server] = {**_queen(server, [*nodes]), "networks": {"default": aliases}}
    services["haproxy"] = {
        "image": "haproxy:3.2",
        "restart": "unless-stopped",
        "depends_on": {server: {"condition": "service_started"} for server in servers},
        "read_only": True,
        "configs": [_mounted("haproxy", "/usr/local/etc/haproxy/haproxy.cfg")],
        "ports": [f"127.0.0.1:{d.PORT}:{d.PORT}"],
    }
    return {
        "services": services,
        "volumes": {name: {} for name in (*nodes, *servers)},
        "configs": {
            "postgres-node": _content(POSTGRES_NODE),
            "replication": _content(REPLICATION),
            "haproxy": _content(HAPROXY),
        },
    }


def _node(name: str, peer: str) -> dict[str, Any]:
    """Return one of two database nodes. Either can be the primary."""
    replication = {
        "PGPASSWORD": _PASSWORD,
        "PEER": peer,
        "IS_FIRST": "yes" if name.endswith("1") else "no",
        "PEER_SECONDS": str(_PEER_SECONDS),
    }
    service = _postgres(name, replication)
    # On the first start, both nodes wait for their peer first.
    service["healthcheck"]["start_period"] = f"{_PEER_SECONDS + 30}s"
    return {
        **service,
        "user": "postgres",
        "entrypoint": ["sh", "/etc/queen/postgres-node"],
        "configs": [
            _mounted("postgres-node", "/etc/queen/postgres-node"),
            _mounted("replication", "/docker-entrypoint-initdb.d/replication.sh"),
        ],
    }


def _postgres(volume: str, others: Mapping[str, str] | None = None) -> dict[str, Any]:
    return {
        "image": "postgres:18",
        "restart": "unless-stopped",
        "environment": {
            "POSTGRES_USER": "queen",
            "POSTGRES_DB": "queen",
            "POSTGRES_PASSWORD": _PASSWORD,
            **(others or {}),
        },
        "shm_size": "256m",
        "stop_grace_period": "60s",
        "volumes": [f"{volume}:/var/lib/postgresql"],
        "healthcheck": {
            # Over TCP, because a new database first starts without it, to be prepared.
            "test": ["CMD", "pg_isready", "--host", "127.0.0.1", "--username", "queen"],
            "interval": "2s",
            "retries": 60,
        },
    }


def _queen(volume: str, databases: list[str]) -> dict[str, Any]:
    return {
        "image": f"${{QUEEN_IMAGE:-{d.image()}}}",
        "build": {"context": "${QUEEN_SOURCE:-../..}", "dockerfile": "deploy/Containerfile"},
        "restart": "unless-stopped",
        "depends_on": {name: {"condition": "service_healthy"} for name in databases},
        "environment": {
            **d.server_environment(),
            "PG_HOST": ",".join(databases),
            "PG_USER": "queen",
            "PG_DB": "queen",
            "PG_PASSWORD": _PASSWORD,
            "FILE_BUFFER_DIR": d.BUFFER,
        },
        "volumes": [f"{volume}:{d.STATE}"],
        "read_only": True,
        "tmpfs": ["/tmp"],
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges:true"],
        "stop_grace_period": f"{d.STOP_SECONDS}s",
        # Images in the OCI format carry no health check of their own.
        "healthcheck": {
            "test": ["CMD", "queen", "health"],
            "interval": "10s",
            "timeout": "6s",
            "start_period": "60s",
            "start_interval": "1s",
        },
    }


def _observability() -> dict[str, Any]:
    return {
        "services": {
            "prometheus": {
                "image": "prom/prometheus:v3.5.0",
                "restart": "unless-stopped",
                "secrets": ["prometheus_token"],
                "configs": [
                    _mounted("prometheus", "/etc/prometheus/prometheus.yml"),
                    _mounted("alerts", "/etc/prometheus/queen-alerts.yaml"),
                ],
                "volumes": ["prometheus:/prometheus"],
                "ports": ["127.0.0.1:9090:9090"],
            },
            "grafana": {
                "image": "grafana/grafana:12.1.0",
                "restart": "unless-stopped",
                "depends_on": {"prometheus": {"condition": "service_started"}},
                "environment": {
                    "GF_SECURITY_ADMIN_PASSWORD": "${GRAFANA_PASSWORD:?set GRAFANA_PASSWORD}",
                    "GF_ANALYTICS_REPORTING_ENABLED": "false",
                },
                "configs": [
                    _mounted(
                        "grafana-datasource", "/etc/grafana/provisioning/datasources/queen.yaml"
                    ),
                    _mounted(
                        "grafana-dashboards", "/etc/grafana/provisioning/dashboards/queen.yaml"
                    ),
                    _mounted("dashboard", "/etc/grafana/dashboards/queen.json"),
                ],
                "volumes": ["grafana:/var/lib/grafana"],
                "ports": ["127.0.0.1:3000:3000"],
            },
        },
        "volumes": {"prometheus": {}, "grafana": {}},
        "secrets": {"prometheus_token": {"environment": "PROMETHEUS_TOKEN"}},
        "configs": {name: _content(text) for name, text in observability_files().items()},
    }


def observability_files() -> dict[str, str]:
    """Return the configuration files of Prometheus and Grafana, by name."""
    scrape = {
        "job_name": "queen",
        "authorization": {"credentials_file": "/run/secrets/prometheus_token"},
        # Every server, because each has its own counters.
        "dns_sd_configs": [{"names": ["queen"], "type": "A", "port": d.PORT}],
    }
    source = {
        "name": "Prometheus",
        "uid": "prometheus",
        "type": "prometheus",
        "access": "proxy",
        "url": "http://prometheus:9090",
        "isDefault": True,
        "jsonData": {"timeInterval": "15s"},
    }
    provider = {
        "name": "queen",
        "type": "file",
        "options": {"path": "/etc/grafana/dashboards"},
    }
    return {
        "prometheus": yaml_text(
            {
                "global": {"scrape_interval": "15s", "evaluation_interval": "15s"},
                "rule_files": ["queen-alerts.yaml"],
                "scrape_configs": [scrape],
            }
        ),
        "alerts": yaml_text(rules()),
        "grafana-datasource": yaml_text({"apiVersion": 1, "datasources": [source]}),
        "grafana-dashboards": yaml_text({"apiVersion": 1, "providers": [provider]}),
        "dashboard": _panel_per_line(dashboard()),
    }


def _panel_per_line(found: dict[str, Any]) -> str:
    """Return the dashboard as JSON of few lines."""
    panels = ",\n  ".join(json.dumps(each) for each in found["panels"])
    head = json.dumps({**found, "panels": []}, indent=1)
    return head.replace('"panels": []', f'"panels": [\n  {panels}\n ]') + "\n"


def _mounted(source: str, target: str) -> dict[str, str]:
    return {"source": source, "target": target}


def _content(text: str) -> dict[str, str]:
    """Return an inline file. A single $ would be a variable of the compose file."""
    return {"content": text.replace("$", "$$")}
