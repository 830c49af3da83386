"""The Containerfiles follow the rules of hadolint, and the image has the promised properties."""

import subprocess
from pathlib import Path

import pytest

from queen.cli.generate import deployment
from tests.deploy.files import DEPLOY, ROOT, output

SERVER = (DEPLOY / "Containerfile").read_text()
LAST = SERVER.rpartition("\nFROM ")[2]
"""The stage that becomes the image."""


def test_hadolint_finds_no_problem() -> None:
    assert output("hadolint", DEPLOY / "Containerfile", DEPLOY / "Containerfile.spark") == ""


def test_the_image_runs_queen_without_root() -> None:
    user = deployment.USER_ID
    assert f"USER {user}:{user}\n" in LAST
    assert 'ENTRYPOINT ["queen"]\n' in LAST
    assert 'CMD ["queen", "health"]' in LAST
    assert f"EXPOSE {deployment.PORT}\n" in LAST
    assert deployment.STATE in LAST
    for label in ("title", "description", "licenses", "source", "version", "revision"):
        assert f"org.opencontainers.image.{label}=" in LAST


def test_build_tools_stay_in_the_first_stage() -> None:
    for tool in ("pip", "uv", "npm", "apt-get", "hatchling"):
        assert f"{tool} " not in LAST


def test_every_package_has_a_hash() -> None:
    """With --constraints, uv checks the hashes of the lock file."""
    lines = SERVER.replace("\\\n", " ").splitlines()
    installs = [line for line in lines if "pip install" in line]
    assert len(installs) == 2
    for line in installs:
        assert "--require-hashes" in line or "--constraints requirements.lock" in line


def test_only_sources_are_sent_to_the_build() -> None:
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    kept = {line.removeprefix("!") for line in ignored if line.startswith("!")}
    assert "*" in ignored
    assert all((ROOT / name).exists() for name in kept)
    assert {"src", "dashboard", "pyproject.toml", "requirements.lock"} <= kept


@pytest.mark.parametrize(("option", "file"), [("--local-base", ""), ("--spark", "/etc/ssl/ca.pem")])
def test_the_script_rejects_options_that_docker_lacks(
    tmp_path: Path, option: str, file: str
) -> None:
    docker = tmp_path / "docker"
    docker.write_text("#!/bin/sh\n")
    docker.chmod(0o755)
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "BUILDER": "docker", "CA_FILE": file}
    command = [DEPLOY / "build-image", option]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=50)
    assert (ended.returncode, "need buildah or podman" in ended.stderr) == (1, True)
