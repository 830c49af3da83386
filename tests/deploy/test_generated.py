"""The generated files are current, and all files name the same release."""

import re

import pytest

from tests.deploy.files import CHART, DEPLOY, RELEASE, documents
from tools.deploy.write import files

FILES = files()


@pytest.mark.parametrize("path", sorted(FILES))
def test_a_generated_file_is_current(path: str) -> None:
    assert (DEPLOY / path).read_text("utf-8") == FILES[path], "run `make deploy-files`"


def test_all_files_name_this_release() -> None:
    (chart,) = documents((CHART / "Chart.yaml").read_text())
    assert chart["appVersion"] == RELEASE
    for name in ("Containerfile", "Containerfile.spark"):
        text = (DEPLOY / name).read_text()
        assert set(re.findall(r"queen(?:-spark)?:(\d[\w.]*)", text)) == {RELEASE}
    assert f"ARG VERSION={RELEASE}\n" in (DEPLOY / "Containerfile").read_text()
