"""`queen generate`: files for other tools, derived from this release."""

import json
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from queen.cli.command_table import group
from queen.cli.support.client import Reveal, Server, run
from queen.cli.support.output import say, yaml_documents, yaml_text

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
    import msgspec

    from queen import errors
    from queen.cli.apply.export import Exporter
    from queen.cli.apply.permissions import may_manage_keys
    from queen.cli.apply.state import State, read_state
    from queen.wire.messages import Manager

    async def read(queen: "Queen") -> State:
        with_keys = may_manage_keys(await queen.admin.me())
        return await read_state(queen, messages=None, with_keys=with_keys, reveal=reveal)

    try:
        msgspec.convert(manager, Manager)
    except msgspec.ValidationError as error:
        raise errors.BadRequest(
            f"--manager {manager!r} is invalid. Use 1 to 255 printable characters."
        ) from error
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
def compose(
    topology: Annotated[
        Literal["single", "ha", "observability"],
        typer.Argument(help="single, ha (two servers, a standby) or observability (Grafana)."),
    ] = "single",
) -> None:
    """
    Print a compose file. Servers listen on loopback only.

    The head of the file has the steps to start it and to create the first API key. For access from
    other machines, add a proxy with TLS.

    Example: queen generate compose single > single.yaml
    """
    from queen.cli.generate.compose import compose_text

    print(compose_text(topology), end="")


@app.command("k8s")
def k8s(
    secret: Annotated[
        str, typer.Option(help="Secret with the key DATABASE_URL.")
    ] = "queen-database",
    name: Annotated[str, typer.Option(help="Name of all objects.")] = "queen",
    namespace: Annotated[
        str | None, typer.Option(help="Namespace. Default: the current one.", show_default=False)
    ] = None,
    image: Annotated[
        str | None, typer.Option(help="Image. Default: queen with this release as tag.")
    ] = None,
    replicas: Annotated[int, typer.Option(min=1, help="Number of servers.")] = 2,
    buffer: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="Give each server a volume for its file buffer: 2Gi."),
    ] = None,
) -> None:
    """
    Print Kubernetes manifests: servers, Service, migration and disruption budget.

    The Helm chart in deploy/chart has more options, such as Ingress and autoscaling.

    Example: queen generate k8s --secret queen-database | kubectl apply -f -
    """
    from queen.cli.generate.kubernetes import Options, manifests_text

    print(
        manifests_text(
            Options(
                name=name,
                namespace=namespace,
                image=image,
                secret_name=secret,
                replicas=replicas,
                buffer=buffer,
            )
        ),
        end="",
    )


@app.command("keda")
def keda(
    deployment: Annotated[str, typer.Argument(help="Deployment that runs `queen worker`.")],
    queues: Annotated[list[str], typer.Argument(help="Queues whose jobs these workers run.")],
    server: Annotated[
        str, typer.Option(help="URL of a server, as KEDA reaches it.")
    ] = "http://queen:6632",
    concurrency: Annotated[
        int, typer.Option("-c", "--concurrency", min=1, help="The workers' --concurrency.")
    ] = 10,
    least: Annotated[int, typer.Option("--min", min=0, help="Smallest number of workers.")] = 0,
    most: Annotated[int, typer.Option("--max", min=1, help="Largest number of workers.")] = 10,
    secret: Annotated[
        str, typer.Option(help="Secret with a read-only API key under `token`.")
    ] = "queen-keda",
    namespace: Annotated[
        str | None, typer.Option(help="Namespace. Default: the current one.", show_default=False)
    ] = None,
) -> None:
    """
    Print KEDA objects that scale workers by their jobs: (waiting + active) / concurrency.

    Example: queen generate keda mailer email --max 20 | kubectl apply -f -
    """
    from queen.cli.generate.keda import Scaling, objects

    scaling = Scaling(
        deployment=deployment,
        queues=queues,
        server=server,
        concurrency=concurrency,
        least=least,
        most=most,
        secret_name=secret,
        namespace=namespace,
    )
    print(yaml_documents(objects(scaling)), end="")


@app.command("systemd")
def systemd(
    unit: Annotated[
        Literal["server", "worker"], typer.Argument(help="server or worker.")
    ] = "server",
    queen: Annotated[
        str, typer.Option(metavar="PATH", help="Path of the queen command.")
    ] = "/opt/queen/bin/queen",
) -> None:
    """
    Print a unit for systemd, with a sandbox.

    Example: queen generate systemd > /etc/systemd/system/queen.service
    """
    from queen.cli.generate.systemd import unit as unit_text

    print(unit_text(unit, queen), end="")
