"""Options of an object store become those of each library, and keys come from a file."""

# pyright: basic
from pathlib import Path

import msgspec
import pytest
from pyarrow import fs

from queen import errors
from queen.lake.storage import Storage, StorageOptions
from queen.pipelines import archive, compact
from queen.pipelines.kinds import configured, job, options
from queen.spark.pipelines import replay

SECRET = "hush-hush"


@pytest.fixture
def given(tmp_path: Path) -> StorageOptions:
    file = tmp_path / "credentials"
    file.write_text(
        f"[default]\naws_access_key_id = other\n[lake]\naws_access_key_id = me\n"
        f"aws_secret_access_key = {SECRET}\n"
    )
    return StorageOptions(endpoint="http://127.0.0.1:7070", credentials=str(file), profile="lake")


def test_every_library_gets_the_same_server_and_keys(given: StorageOptions) -> None:
    system, path = given.for_arrow("s3://lake/orders")

    assert isinstance(system, fs.S3FileSystem)
    assert (path, system.region) == ("lake/orders", "us-east-1")
    iceberg, delta = given.for_iceberg(), given.for_delta()
    assert iceberg["s3.endpoint"] == delta["AWS_ENDPOINT_URL"] == given.endpoint
    assert iceberg["s3.access-key-id"] == delta["AWS_ACCESS_KEY_ID"] == "me"
    assert iceberg["s3.secret-access-key"] == delta["AWS_SECRET_ACCESS_KEY"] == SECRET
    assert delta["AWS_ALLOW_HTTP"] == "true"


def test_without_a_file_each_library_finds_the_keys_itself() -> None:
    options = StorageOptions(region="eu-central-1")

    assert not any("key" in name.lower() for name in options.for_iceberg())
    assert not any("key" in name.lower() for name in options.for_delta())
    assert options.for_iceberg()["s3.region"] == "eu-central-1"


@pytest.mark.parametrize("text", ["", "[default]\n", "no section\nhush-hush\n"])
def test_an_unreadable_file_is_named_without_its_content(tmp_path: Path, text: str) -> None:
    file = tmp_path / "credentials"
    file.write_text(text)

    with pytest.raises(errors.InvalidOption, match="credentials has no readable") as failure:
        StorageOptions(credentials=str(file), profile="lake").keys()
    assert SECRET not in str(failure.value)


@pytest.mark.parametrize("kind", ["archive", "compact", "replay"])
def test_a_key_in_the_configuration_is_rejected(kind: str) -> None:
    required = {"queue": "q", "location": "s3://b", "name": "n", "from": "q", "to": "r"}
    known = {option.name for option in options(job(kind))}
    filled = {name: value for name, value in required.items() if name in known}

    with pytest.raises(errors.InvalidOption, match="secret_key"):
        configured(job(kind), {**filled, "storage": {"secret_key": SECRET}}, dsn="postgresql://")


@pytest.mark.parametrize("module", [archive, compact, replay])
def test_the_default_is_shown_as_empty(module: object) -> None:
    fields = {field.name: field for field in msgspec.structs.fields(module.Config)}  # type: ignore[attr-defined]

    assert str(fields["storage"].default) == ""


def test_a_location_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")

    with pytest.raises(errors.LakeUnavailable, match="is unavailable: ") as failure:
        Storage(str(tmp_path / "file")).check()
    assert "\n" not in str(failure.value)
