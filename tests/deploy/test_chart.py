"""The rendered Helm chart: valid for Kubernetes, the same as `queen generate`, and without root.

The rendered files are committed, because a build of helm takes minutes. A checksum of the
chart shows that they are current, and test_helm.py renders them again.
"""

import importlib
import json
import re
from typing import Any, cast

import jsonschema_rs
import pytest

from queen import errors
from queen.cli.generate.keda import Scaling, objects
from queen.cli.generate.kubernetes import Options, buffer_bytes, manifests, manifests_text
from queen.settings import Settings
from tests.deploy.custom_resources import validate
from tests.deploy.files import CHART, GOLDEN, PAGES, Object, documents, pods, texts
from tools.deploy.render import is_current

VALUE_SETS = ("minimal", "full", "buffer")
NEWEST = "1.37"
OLDEST = "1.27"


def rendered(values: str) -> list[Object]:
    return documents((GOLDEN / f"{values}.yaml").read_text("utf-8"))


def validator() -> Any:  # noqa: ANN401 - has no types
    """Kubernetes' schemas. Every process collects all tests, and this import takes a second."""
    return importlib.import_module("kubernetes_validate")


def of_kind(found: list[Object], kind: str, name: str | None = None) -> Object:
    (item,) = (
        each for each in found if each["kind"] == kind and name in (None, each["metadata"]["name"])
    )
    return item


def without_helm(item: Object) -> Object:
    """An object without the labels and annotations of Helm."""
    metadata = {key: value for key, value in item["metadata"].items() if key != "annotations"}
    metadata["labels"] = {
        key: value
        for key, value in metadata["labels"].items()
        if key not in ("helm.sh/chart", "app.kubernetes.io/managed-by")
    }
    return {**item, "metadata": metadata}


def test_the_rendered_files_are_those_of_this_chart() -> None:
    assert is_current(), "run `make chart`"


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
@pytest.mark.parametrize("values", VALUE_SETS)
def test_kubernetes_accepts_all_objects(values: str, version: str) -> None:
    found = rendered(values)
    assert found
    for each in found:
        if "." not in each["apiVersion"] or "k8s.io" in each["apiVersion"].replace(
            "gateway.networking.k8s.io", ""
        ):
            validator().validate(each, version, strict=True)
        else:
            validate(each)


@pytest.mark.parametrize("buffer", [None, "2Gi"])
@pytest.mark.parametrize("version", [OLDEST, NEWEST])
def test_kubernetes_accepts_generated_manifests(buffer: str | None, version: str) -> None:
    for each in documents(manifests_text(Options(namespace="queues", buffer=buffer))):
        validator().validate(each, version, strict=True)
        assert each["metadata"]["namespace"] == "queues"


def test_strict_validation_finds_unknown_fields() -> None:
    """Otherwise the tests above prove little."""
    service = of_kind(rendered("minimal"), "Service")
    kubernetes = validator()
    with pytest.raises(kubernetes.ValidationError):
        kubernetes.validate({**service, "sepc": {}}, NEWEST, strict=True)
    route = of_kind(rendered("full"), "HTTPRoute")
    with pytest.raises(jsonschema_rs.ValidationError):
        validate({**route, "spec": {**route["spec"], "hostname": "queen"}})


def test_the_chart_and_the_command_create_the_same_objects() -> None:
    chart = {each["kind"]: without_helm(each) for each in rendered("minimal")}
    for each in manifests(Options()):
        if each["kind"] == "Job":
            each["metadata"]["name"] = "queen-migrate"
            del each["spec"]["ttlSecondsAfterFinished"]  # A hook of Helm is deleted by Helm.
        assert chart[each["kind"]] == each


def test_the_chart_and_the_command_create_the_same_servers_with_a_buffer() -> None:
    expected = of_kind(manifests(Options(replicas=3, buffer="20Gi")), "StatefulSet")
    found = without_helm(of_kind(rendered("buffer"), "StatefulSet"))
    (claim,) = found["spec"]["volumeClaimTemplates"]
    assert claim["spec"].pop("storageClassName") == "fast"
    assert found["spec"]["template"]["spec"].pop("serviceAccountName") == "shared"
    del expected["spec"]["template"]["spec"]["serviceAccountName"]
    (container,) = found["spec"]["template"]["spec"]["containers"]
    container["env"].remove({"name": "PG_SSLMODE", "value": "require"})
    assert {"name": "FILE_BUFFER_MAX_BYTES", "value": "17179869184"} in container["env"]
    assert found == expected


@pytest.mark.parametrize(
    ("size", "limit"), [("2Gi", 1717986918), ("1.5G", 1200000000), ("100k", 80000), ("10", 8)]
)
def test_a_buffer_uses_most_of_its_volume(size: str, limit: int) -> None:
    assert buffer_bytes(size) == limit


@pytest.mark.parametrize("size", ["2gb", "2 Gi", "1ki", "1K", "-1Gi", "0", ""])
def test_a_size_that_kubernetes_rejects_is_an_error(size: str) -> None:
    with pytest.raises(errors.BadRequest, match="is not a size"):
        buffer_bytes(size)


def test_each_image_and_secret_has_its_own_migration() -> None:
    """Kubernetes rejects a changed Job of the same name."""
    images = [Options(), Options(image="queen:2"), Options(secret_name="owner")]
    jobs = [of_kind(manifests(each), "Job") for each in images]
    assert len({each["metadata"]["name"] for each in jobs}) == 3
    assert all(each["spec"]["ttlSecondsAfterFinished"] > 600 for each in jobs)
    text = manifests_text(Options(namespace="queues"))
    assert f"job/{jobs[0]['metadata']['name']} " in text
    assert len(re.findall(r"^#   kubectl --namespace queues ", text, re.MULTILINE)) == 3


def test_the_chart_and_the_command_scale_workers_alike() -> None:
    scaling = Scaling(
        deployment="queen-mailer",
        queues=["email", "reports/daily"],
        server="http://queen.default.svc:6632",
        concurrency=20,
        least=1,
        most=40,
        secret_name="keda-token",
    )
    found = rendered("buffer")
    for each in objects(scaling):
        assert of_kind(found, each["kind"])["spec"] == each["spec"]


def test_keda_verifies_the_certificate_of_the_servers() -> None:
    found = rendered("full")
    (_, authority) = of_kind(found, "TriggerAuthentication")["spec"]["secretTargetRef"]
    assert authority == {"parameter": "ca", "name": "queen-tls", "key": "ca.crt"}
    (trigger, _) = of_kind(found, "ScaledObject")["spec"]["triggers"]
    assert trigger["metadata"]["url"].startswith("https://")


@pytest.mark.parametrize("values", VALUE_SETS)
def test_every_pod_is_restricted(values: str) -> None:
    found = list(pods(rendered(values)))
    assert found
    for pod in found:
        assert pod["enableServiceLinks"] is False
        assert pod["automountServiceAccountToken"] is False
        assert pod["securityContext"]["runAsUser"] == 65532
        assert pod["securityContext"]["runAsNonRoot"] is True
        for container in pod["containers"]:
            context = container["securityContext"]
            assert context["readOnlyRootFilesystem"] is True
            assert context["allowPrivilegeEscalation"] is False
            assert context["capabilities"] == {"drop": ["ALL"]}


@pytest.mark.parametrize("values", VALUE_SETS)
def test_servers_start_with_valid_settings(values: str) -> None:
    (server,) = (
        container
        for pod in pods(rendered(values))
        for container in pod["containers"]
        if container["name"] == "server"
    )
    names = [each["name"] for each in server["env"]]
    assert len(set(names)) == len(names)
    plain = {each["name"]: each["value"] for each in server["env"] if "value" in each}
    settings = Settings.from_environ(plain)
    assert settings.num_workers >= 1
    assert not settings.auto_migrate
    assert settings.auth_kinds
    # Every other variable comes from a Secret, and is a setting too.
    known = {*Settings.__struct_encode_fields__, "OTEL_EXPORTER_OTLP_ENDPOINT"}
    assert set(names) <= known


def test_pods_live_longer_than_their_processes_drain() -> None:
    (pod,) = (pod for pod in pods(rendered("full")) if pod["containers"][0]["name"] == "server")
    (container,) = pod["containers"]
    plain = {each["name"]: each.get("value") for each in container["env"]}
    (pause,) = container["lifecycle"]["preStop"]["exec"]["command"][1:]
    least = int(pause) + int(plain["QUEEN_SHUTDOWN_SECONDS"] or 0) + 10
    assert pod["terminationGracePeriodSeconds"] >= least


def test_probes_use_routes_for_their_purpose() -> None:
    def path(values: str, probe: str) -> str:
        (found,) = (
            container[probe]["httpGet"]["path"]
            for pod in pods(rendered(values))
            for container in pod["containers"]
            if probe in container
        )
        return found

    assert path("minimal", "readinessProbe") == "/readyz"
    assert path("minimal", "livenessProbe") == "/livez"
    # A server with a buffer accepts pushes without its database.
    assert path("buffer", "readinessProbe") == "/livez"


def test_the_migration_runs_before_an_install_and_an_upgrade() -> None:
    for values in VALUE_SETS:
        job = of_kind(rendered(values), "Job")
        assert job["metadata"]["annotations"]["helm.sh/hook"] == "pre-install,pre-upgrade"
        (container,) = job["spec"]["template"]["spec"]["containers"]
        assert container["args"] == ["migrate", "up"]
        # Not through PgBouncer.
        assert not any(each["name"] == "QUEEN_DB_PGBOUNCER" for each in container["env"])


def test_the_migration_connects_to_the_database_as_the_servers_do() -> None:
    def environment(values: str, name: str) -> list[Object]:
        (found,) = (
            container["env"]
            for pod in pods(rendered(values))
            for container in pod["containers"]
            if container["name"] == name
        )
        return [each for each in found if each["name"].startswith(("PG_", "OTEL_"))]

    for values in VALUE_SETS:
        assert environment(values, "migrate") == environment(values, "server")
    assert environment("buffer", "migrate") == [{"name": "PG_SSLMODE", "value": "require"}]


def test_the_chart_contains_no_secret_and_renders_none() -> None:
    for values in VALUE_SETS:
        found = rendered(values)
        assert not any(each["kind"] == "Secret" for each in found)
        assert not any("postgresql://" in text for text in texts(found))


def test_rules_and_dashboard_arrive_unchanged() -> None:
    found = rendered("full")
    (alerts,) = documents((CHART / "files" / "queen-alerts.yaml").read_text("utf-8"))
    assert of_kind(found, "PrometheusRule")["spec"] == alerts
    board = of_kind(found, "ConfigMap")["data"]["queen.json"]
    assert json.loads(board) == json.loads((CHART / "files" / "queen-dashboard.json").read_text())


def test_prometheus_scrapes_each_server_once() -> None:
    selector = of_kind(rendered("full"), "ServiceMonitor")["spec"]["selector"]["matchLabels"]
    services = [each for each in rendered("buffer") if each["kind"] == "Service"]
    assert len(services) == 2
    (scraped,) = (
        each for each in services if selector.items() <= each["metadata"]["labels"].items()
    )
    assert scraped["metadata"]["name"] == "queen"


def test_the_schema_rejects_mistakes() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    validator = jsonschema_rs.validator_for(schema)
    database = {"existingSecret": "queen-database"}
    assert validator.is_valid({"database": database, "settings": {"DB_POOL_SIZE": 20}})
    for mistake in (
        {"settings": {"DB_POOL_SIZ": 20}},
        {"settings": {"DB_POOL_SIZE": "many"}},
        {"settings": {"DB_POOL_SIZE": 0}},
        {"settings": {"PG_PASSWORD": "secret"}},
        {"settings": {"FILE_BUFFER_DIR": "/tmp"}},
        {"replica": 3},
        {"replicas": 0},
        {"auth": {"kinds": "key"}},
        {"workers": [{"name": "mailer", "image": "shop"}]},
        {"image": {"digest": "latest"}},
    ):
        assert not validator.is_valid({"database": database, **mistake}), mistake


def leaves(values: Object, prefix: str = "") -> list[str]:
    """The paths of all values, without the free content of maps."""
    found: list[str] = []
    for name, value in values.items():
        path = f"{prefix}{name}"
        is_free = path == "resources" or path.endswith((".labels", ".annotations"))
        inner = cast("Object", value) if isinstance(value, dict) else {}
        found += leaves(inner, f"{path}.") if inner and not is_free else [path]
    return found


def test_every_value_is_documented() -> None:
    (values,) = documents((CHART / "values.yaml").read_text("utf-8"))
    page = (PAGES / "kubernetes.md").read_text("utf-8")
    table = page.partition("## Values")[2]
    documented = set(re.findall(r"`([A-Za-z][\w.]*)`", table))
    assert [path for path in leaves(values) if path not in documented] == []
