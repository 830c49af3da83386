"""Build the image, and run it without root on a read-only filesystem (`make test-image`).

`QUEEN_IMAGE` names an image in the same storage that should be run instead of a new one.
"""

import json
import os
import subprocess
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.deploy.files import DEPLOY, RELEASE, program
from tests.support.ports import free_port
from tests.support.postgres import Postgres

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

STORAGE = Path(os.environ.get("QUEEN_IMAGE_STORAGE", "/var/tmp/queen-images"))
FLAGS = ("--storage-driver=vfs", f"--root={STORAGE}", f"--runroot={STORAGE}/run")
"""Storage of its own, with the only driver that needs no support from the kernel."""
CA_FILE = Path("/etc/ssl/certs/ca-certificates.crt")
IMAGE = f"localhost/queen:{RELEASE}"

HARDENED = (
    *("--read-only", "--tmpfs=/tmp", "--cap-drop=ALL", "--security-opt=no-new-privileges"),
    # Where the tests run, limits can't be raised, and there is no systemd to check the health.
    *("--ulimit=nofile=1024:1024", "--ulimit=nproc=4096:4096", "--no-healthcheck"),
)


def podman(*arguments: str, check: bool = True, stderr: int = subprocess.PIPE) -> str:
    """Run podman with runc, because crun rejects machines with both versions of control groups."""
    ended = subprocess.run(
        [program("podman"), *FLAGS, "--cgroup-manager=cgroupfs", "--runtime=runc", *arguments],
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
    )
    assert not check or ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.fixture(scope="module")
def image() -> str:
    if built := os.environ.get("QUEEN_IMAGE"):
        return built
    environment = {
        **os.environ,
        "BUILDER": "buildah",
        "BUILDER_FLAGS": " ".join(FLAGS),
        "BUILD_FLAGS": "--isolation=chroot",
        "CA_FILE": str(CA_FILE) if CA_FILE.exists() else "",
    }
    subprocess.run([DEPLOY / "build-image", "--local-base"], env=environment, check=True)
    return IMAGE


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    port = free_port()
    with Postgres(port=port) as postgres:
        yield postgres.create_database("queen")


@contextmanager
def server(image: str, database: str, *options: str) -> Generator[str]:
    """A container with a server on its own port; yields its name."""
    port = free_port()
    name = f"queen-{port}"
    podman(
        "run", "--detach", "--name", name, "--network=host", *HARDENED, *options,
        f"--env=DATABASE_URL={database}", "--env=HOST=127.0.0.1", f"--env=PORT={port}",
        "--env=QUEEN_AUTH=keys", f"--env=QUEEN_BASE_URL=http://127.0.0.1:{port}", image,
    )  # fmt: skip
    try:
        yield name
    finally:
        podman("rm", "--force", "--time=40", name, check=False)


def test_the_image_is_small_and_has_no_tools(image: str) -> None:
    (found,) = json.loads(podman("image", "inspect", image))
    print(f"size: {found['Size'] / 2**20:.0f} MiB")
    assert found["Size"] < 400 * 2**20
    assert found["Config"]["User"] == "65532:65532"
    assert found["Config"]["Entrypoint"] == ["queen"]
    assert found["Config"]["Labels"]["org.opencontainers.image.version"] == RELEASE
    assert found["Healthcheck"]["Test"] == ["CMD", "queen", "health"]
    search = "for name in gcc cc make npm node uv hatchling; do command -v $name; done; true"
    listed = podman(
        "run", "--rm", "--network=none", *HARDENED, "--entrypoint=/bin/sh", image, "-c", search
    )
    assert listed == ""


def test_the_server_runs_without_root_on_a_read_only_filesystem(image: str, database: str) -> None:
    with server(image, database, "--env=NUM_WORKERS=2") as name:
        health = podman("exec", name, "queen", "health", "--wait", "60s", "-o", "json")
        assert json.loads(health)["status"] == "healthy"
        assert podman("exec", name, "id", "-u").strip() == "65532"
        denied = podman("exec", name, "sh", "-c", "touch /opt/queen/x || echo denied")
        assert denied == "denied\n"
        key = podman("exec", name, "queen", "token", "create", "ops", "--role", "admin")
        assert key.startswith("qk_")
        podman("stop", "--time=35", name)
        (found,) = json.loads(podman("inspect", name))
        assert found["State"]["ExitCode"] == 0


def test_the_server_starts_as_many_processes_as_the_container_has_cores(
    image: str, database: str
) -> None:
    with server(image, database, "--cpus=1") as name:
        podman("exec", name, "queen", "health", "--wait", "60s")
        lines = podman("logs", name, stderr=subprocess.STDOUT).splitlines()
        logs = [json.loads(line) for line in lines if line.startswith("{")]
        (started,) = (each for each in logs if each["event"] == "server.started")
        assert started["processes"] == 1


def test_the_file_buffer_can_use_a_new_volume(image: str, database: str) -> None:
    options = ("--volume=queen-test:/var/lib/queen", "--env=FILE_BUFFER_DIR=/var/lib/queen/buffer")
    with server(image, database, *options) as name:
        podman("exec", name, "queen", "health", "--wait", "60s")
        assert podman("exec", name, "ls", "/var/lib/queen/buffer").split()
    podman("volume", "rm", "queen-test")
