"""The compose files are valid, start servers that require API keys, and contain no secrets."""

import json
import re

import pytest
import yaml

from queen.cli.generate.compose import compose_text, observability_files
from queen.settings import Settings
from tests.deploy.files import DEPLOY, Object, documents, output, queen

FILES = sorted((DEPLOY / "compose").glob("*.yaml"))
HIDDEN = re.compile(r"^\$\{\w+:\?[^}]+\}$")
"""A variable of the environment that must be set."""


def load(name: str) -> Object:
    return yaml.safe_load((DEPLOY / "compose" / f"{name}.yaml").read_text("utf-8"))


def servers(file: Object) -> list[Object]:
    return [each for name, each in file["services"].items() if name.startswith("queen")]


def test_all_files_follow_the_schema_of_compose() -> None:
    assert len(FILES) == 3
    output("check-jsonschema", "--builtin-schema", "vendor.compose-spec", *FILES)


@pytest.mark.parametrize(("name", "count"), [("single", 1), ("ha", 2)])
def test_servers_start_with_valid_settings_and_require_api_keys(name: str, count: int) -> None:
    found = servers(load(name))
    assert len(found) == count
    for each in found:
        # The server validates its settings: an unknown name would stop its start.
        plain = {k: v for k, v in each["environment"].items() if not v.startswith("$")}
        assert Settings.from_environ(plain).auth_kinds == {"keys"}
        assert each["read_only"] is True
        assert each["tmpfs"] == ["/tmp"]
        assert each["healthcheck"]["test"] == ["CMD", "queen", "health"]
        assert each["stop_grace_period"] == f"{Settings().shutdown_seconds + 10:g}s"


@pytest.mark.parametrize("name", ["single", "ha", "observability"])
def test_ports_are_open_on_loopback_only(name: str) -> None:
    ports = [port for each in load(name)["services"].values() for port in each.get("ports", [])]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


@pytest.mark.parametrize("name", ["single", "ha", "observability"])
def test_passwords_come_from_the_environment(name: str) -> None:
    for each in load(name)["services"].values():
        for variable, value in each.get("environment", {}).items():
            if "PASSWORD" in variable:
                assert HIDDEN.match(value), variable


@pytest.mark.parametrize("name", ["single", "ha"])
def test_each_server_has_its_own_buffer(name: str) -> None:
    file = load(name)
    volumes = [volume.split(":")[0] for each in servers(file) for volume in each["volumes"]]
    assert len(set(volumes)) == len(servers(file))
    assert set(volumes) <= set(file["volumes"])


@pytest.mark.parametrize("name", ["single", "ha"])
def test_the_head_creates_the_first_api_key_on_a_service_that_exists(name: str) -> None:
    head = compose_text(name).partition("name: queen")[0]  # type: ignore[arg-type] - a name
    (service,) = re.findall(r"exec (\S+) queen token create", head)
    assert service in load(name)["services"]


def test_the_command_prints_the_committed_files() -> None:
    for path in FILES:
        printed = queen("generate", "compose", path.stem)
        assert printed.out == path.read_text("utf-8")
    assert queen("generate", "compose").out == compose_text("single")


def test_inline_files_arrive_as_they_are() -> None:
    """Compose replaces a single $ by a variable."""
    configs = load("observability")["configs"]
    for name, text in observability_files().items():
        content: str = configs[name]["content"]
        assert not re.search(r"(?<!\$)(\$\$)*\$(?!\$)", content)
        assert content.replace("$$", "$") == text
    found = json.loads(configs["dashboard"]["content"].replace("$$", "$"))
    assert len(found["panels"]) > 15


def test_mounted_files_exist() -> None:
    for name in ("ha", "observability"):
        file = load(name)
        mounted = [c["source"] for s in file["services"].values() for c in s.get("configs", [])]
        assert set(mounted) == set(file["configs"])
    (prometheus,) = documents(observability_files()["prometheus"])
    assert prometheus["rule_files"] == ["queen-alerts.yaml"]
