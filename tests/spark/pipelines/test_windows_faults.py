"""Despite faults, each result of a window is in its queue once."""

# pyright: basic

import shutil
from pathlib import Path

import msgspec
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from queen.spark import register
from queen.spark.pipelines import windows
from tests.spark import windowing
from tests.spark.copying import published, wait_until_held
from tests.spark.driver import Driver
from tests.spark.faults import Faults, faulty_queen
from tests.spark.place import ONE_CORE, Place
from tests.spark.windowing import Event, Result, declared, push, results

pytestmark = pytest.mark.nightly

ANSWER_SECONDS = 280
# One batch each. The watermark is half a minute behind, and applied in the next batch.
TRANSACTIONS = [
    [Event("a", 10, 1), Event("b", 20, 2)],
    [Event("a", 100, 4)],
    [Event("a", 110, 8), Event("b", 200, 16)],
    [Event("b", 210, 32)],
    [Event("a", 400, 64)],
    [Event("a", 401, 128)],
]
WHOLE = [
    Result("a", 0, 60, 1, 1),
    Result("a", 60, 120, 12, 2),
    Result("b", 0, 60, 2, 1),
    Result("b", 180, 240, 48, 2),
]
"""The batches 2, 3 and 5 have results."""
BETWEEN = ["writing.0", "staged.2", "publishing.3", "published.3", "planned.1"]
"""One step between each two consecutive ones."""


@pytest.fixture
def config(dsn: str, tmp_path: Path) -> windows.Config:
    windowing.make(dsn)
    for events in TRANSACTIONS:
        push(dsn, *events)
    return declared(dsn, tmp_path)


def driver_of(place: Place, config: windows.Config, faults: Faults, **confs: str) -> Driver:
    text = msgspec.json.encode(config).decode()
    return place.driver("window", text, str(faults.folder), settings=confs)


def run(place: Place, config: windows.Config, faults: Faults, **confs: str) -> str:
    """Run it completely with faults, and return its error, or an empty string."""
    if place.session is None:
        with driver_of(place, config, faults, **confs) as driver:
            return driver.answer(ANSWER_SECONDS)["failure"]
    with pytest.MonkeyPatch.context() as patch:
        source = faulty_queen(faults.folder)
        patch.setattr(windows, "register", lambda spark: spark.dataSource.register(source))
        try:
            windows.run(place.session, config)
        except StreamingQueryException as error:
            return str(error)
        finally:
            register(place.session)
    return ""


def test_a_failed_task_is_repeated_with_its_batch(
    spark: SparkSession, dsn: str, config: windows.Config, faults: Faults
) -> None:
    place = Place.local(spark)
    for step, last in (("writing.2.0", -1), ("staged.3.0", 2)):
        faults.fail(step)
        assert f"{step} was to fail" in run(place, config, faults)
        assert published(dsn) == last
        faults.heal(step)
    assert run(place, config, faults) == ""

    assert results(dsn) == WHOLE


def test_a_window_without_its_checkpoint_plans_the_same_batches_again(
    place: Place, dsn: str, config: windows.Config, faults: Faults
) -> None:
    faults.fail("publishing.3")
    assert "publishing.3 was to fail" in run(place, config, faults)
    assert results(dsn) == [each for each in WHOLE if each.end == 60]
    faults.heal("publishing.3")

    shutil.rmtree(config.checkpoint)
    # Without its name it would plan other batches, and mix up their results.
    config = msgspec.structs.replace(config, max_messages_per_trigger=1000)
    assert run(place, config, faults) == ""

    assert results(dsn) == WHOLE


@pytest.mark.slow
def test_updates_are_written_once_without_the_checkpoint_too(
    place: Place, dsn: str, config: windows.Config, faults: Faults
) -> None:
    config = msgspec.structs.replace(config, mode="update")
    faults.fail("published.3")
    assert "published.3 was to fail" in run(place, config, faults)
    faults.heal("published.3")
    shutil.rmtree(config.checkpoint)
    assert run(place, config, faults) == ""

    # Each of the eight events changed a separate result in a separate batch.
    assert len(results(dsn)) == 8
    assert {*WHOLE} < {*results(dsn)}


@pytest.mark.parametrize(
    ("place", "steps"),
    [
        ("local", ["published.2"]),
        pytest.param("local", BETWEEN, marks=pytest.mark.slow),
        pytest.param("cluster", BETWEEN, marks=pytest.mark.slow),
    ],
    ids=["after", "anywhere", "cluster"],
    indirect=["place"],
)
def test_a_driver_may_be_killed_between_any_two_steps(
    place: Place, dsn: str, config: windows.Config, faults: Faults, steps: list[str]
) -> None:
    for step in steps:
        faults.hold(step)
        with driver_of(place, config, faults) as driver:
            driver.until("started")
            driver.go_on()
            wait_until_held(faults, step, driver.log)
            driver.kill()
        faults.release(step)
    assert results(dsn) != WHOLE
    assert run(place, config, faults) == ""

    assert results(dsn) == WHOLE


@pytest.mark.slow
def test_two_concurrent_drivers_write_each_result_once(
    place: Place, dsn: str, config: windows.Config, faults: Faults, tmp_path: Path
) -> None:
    theirs = msgspec.structs.replace(config, checkpoint=str(tmp_path / "theirs"))
    without = Faults(tmp_path / "without")
    without.folder.mkdir()
    faults.hold("publishing.3")
    with driver_of(place, theirs, faults, **ONE_CORE) as driver:
        driver.until("started")
        driver.go_on()
        wait_until_held(faults, "publishing.3", driver.log)
        assert run(place, config, without, **ONE_CORE) == ""
        assert results(dsn) == WHOLE
        faults.release("publishing.3")
        assert driver.answer(ANSWER_SECONDS)["failure"] == ""

    assert results(dsn) == WHOLE
