"""`queen generate`: files for other tools, derived from this release."""

import json
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from queen.cli.command_table import group
from queen.cli.support.client import Reveal, Server, run
from queen.cli.support.output import say, yaml_text

if TYPE_CHECKING:
    from queen import Queen

app = group("Generate files for other tools.")


_SCRIPTS: Final = {
    "bash": """\
_queen_completion() {
    local IFS=$'\\n'
    COMPREPLY=( $( env COMP_WORDS="${COMP_WORDS[*]}" COMP_CWORD=$COMP_CWORD \\
                   _QUEEN_COMPLETE=complete_bash "$1" ) )
    return 0
}
complete -o default -F _queen_completion queen
""",
    "zsh": """\
#compdef queen
_queen_completion() {
  eval $(env _TYPER_COMPLETE_ARGS="${words[1,$CURRENT]}" _QUEEN_COMPLETE=complete_zsh queen)
}
compdef _queen_completion queen
""",
    "fish": """\
complete --command queen --no-files \\
  --arguments "(env _QUEEN_COMPLETE=complete_fish _TYPER_COMPLETE_FISH_ACTION=get-args \\
_TYPER_COMPLETE_ARGS=(commandline -cp) queen)" \\
  --condition "env _QUEEN_COMPLETE=complete_fish _TYPER_COMPLETE_FISH_ACTION=is-args \\
_TYPER_COMPLETE_ARGS=(commandline -cp) queen"
""",
}


@app.command("completion")
def completion(
    shell: Annotated[Literal["bash", "zsh", "fish"], typer.Argument(help="bash, zsh or fish.")],
) -> None:
    """
    Print a completion script for a shell.

    Example: queen generate completion bash > queen.bash
    """
    print(_SCRIPTS[shell], end="")


@app.command("openapi")
def openapi() -> None:
    """
    Print the HTTP API as OpenAPI 3.1.

    Example: queen generate openapi > openapi.json
    """
    import msgspec

    from queen.server.http.openapi import document
    from queen.server.routes.table import ROUTES

    print(msgspec.json.format(msgspec.json.encode(document(ROUTES)), indent=2).decode())


@app.command("manifest")
def manifest(
    manager: Annotated[str, typer.Option(help="Manager of the manifest, for example shop.")],
    reveal: Reveal = False,
    server: Server = None,
) -> None:
    """
    Print the queues, schedules and API keys of a server as a manifest for `queen apply`.

    Objects that have another manager are left out.

    Example: queen generate manifest --manager shop > queen.yaml
    """
    from queen.cli.apply.export import Exporter
    from queen.cli.apply.permissions import may_manage_keys
    from queen.cli.apply.state import State, read_state

    async def read(queen: "Queen") -> State:
        with_keys = may_manage_keys(await queen.admin.me())
        return await read_state(queen, messages=None, with_keys=with_keys, reveal=reveal)

    exporter = Exporter(run(server, read), manager)
    print(yaml_text(exporter.manifest()), end="")
    for note in exporter.notes:
        say(f"note: {note}")


@app.command("manifest-schema")
def manifest_schema() -> None:
    """
    Print the JSON Schema of manifests, with which editors complete and check them.

    Example: queen generate manifest-schema > queen.schema.json
    """
    from queen.cli.apply.schema import schema

    print(json.dumps(schema(), indent=2))


@app.command("grafana")
def grafana() -> None:
    """
    Print a Grafana dashboard to import.

    Example: queen generate grafana > queen-dashboard.json
    """
    from queen.cli.generate.grafana import dashboard

    print(json.dumps(dashboard(), indent=2))


@app.command("alerts")
def alerts() -> None:
    """
    Print alert rules for Prometheus.

    Example: queen generate alerts > queen-alerts.yaml
    """
    from queen.cli.generate.alerts import rules

    print(yaml_text(rules()), end="")


@app.command("compose")
def compose() -> None:
    """
    Print a compose file with PostgreSQL and a server that listens on loopback only.

    Set PG_PASSWORD in its environment. For access from other machines, add a proxy with TLS.

    Example: queen generate compose > compose.yaml
    """
    print(yaml_text(compose_file()), end="")


def compose_file() -> dict[str, Any]:
    """Return services that run without changes."""
    from importlib.metadata import version

    release = version("queenmq")
    return {
        "services": {
            "postgres": {
                "image": "postgres:18",
                "restart": "unless-stopped",
                "environment": {
                    "POSTGRES_USER": "queen",
                    "POSTGRES_DB": "queen",
                    "POSTGRES_PASSWORD": "${PG_PASSWORD:?set PG_PASSWORD}",
                },
                "volumes": ["postgres:/var/lib/postgresql"],
                "healthcheck": {
                    "test": ["CMD", "pg_isready", "-U", "queen"],
                    "interval": "2s",
                    "retries": 30,
                },
            },
            "queen": {
                "build": {
                    "dockerfile_inline": "FROM python:3.13-slim\n"
                    f"RUN pip install --no-cache-dir 'queenmq[server-slim]=={release}'\n"
                    "USER nobody\n"
                    'CMD ["queen", "serve"]\n'
                },
                "restart": "unless-stopped",
                "depends_on": {"postgres": {"condition": "service_healthy"}},
                "environment": {
                    "HOST": "0.0.0.0",
                    "PG_HOST": "postgres",
                    "PG_USER": "queen",
                    "PG_DB": "queen",
                    "PG_PASSWORD": "${PG_PASSWORD:?set PG_PASSWORD}",
                    # Callers need an API key: `docker compose exec queen queen token create …`.
                    "QUEEN_AUTH": "keys",
                    "QUEEN_BEHIND_PROXY": "true",
                },
                # API keys never cross a network unencrypted: loopback, or a proxy on this machine.
                "ports": ["127.0.0.1:6632:6632"],
                "healthcheck": {
                    "test": ["CMD", "queen", "health"],
                    "interval": "10s",
                },
            },
        },
        "volumes": {"postgres": {}},
    }
