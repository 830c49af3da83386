"""Despite faults, a replay stores each message once."""

# pyright: basic

import threading
from collections.abc import Iterator

import msgspec
import pytest
from pyspark.sql import SparkSession

from queen.spark import register
from queen.spark.pipelines import replay
from queen.spark.pipelines.replay import Config
from tests.spark.copying import published, staged, wait_until_held
from tests.spark.databases import migrated
from tests.spark.driver import Driver
from tests.spark.faults import Faults, faulty_queen
from tests.spark.log import Log
from tests.spark.pipelines.test_replay import SEGMENTS, assert_replayed, config_of, fill
from tests.spark.place import ONE_CORE, Place
from tests.support.postgres import Postgres

pytestmark = pytest.mark.nightly

ANSWER_SECONDS = 280
BETWEEN = ["writing.0", "staged.1", "piece-1", "publishing.2", "published.3"]
"""Steps of pieces, and one between two pieces."""


@pytest.fixture
def log(dsn: str) -> Iterator[Log]:
    with Log(dsn, "orders") as log:
        fill(log)
        yield log


def driver_of(place: Place, config: Config, faults: Faults, **confs: str) -> Driver:
    text = msgspec.json.encode(config).decode()
    return place.driver("replay", text, str(faults.folder), settings=confs)


def run(place: Place, config: Config, faults: Faults, **confs: str) -> None:
    """Run the rest of the replay with faults, which it raises."""
    if place.session is None:
        with driver_of(place, config, faults, **confs) as driver:
            driver.answer(ANSWER_SECONDS)
        return
    with pytest.MonkeyPatch.context() as patch:
        source = faulty_queen(faults.folder)
        patch.setattr(replay, "register", lambda spark: spark.dataSource.register(source))
        try:
            replay.run(place.session, config)
        finally:
            register(place.session)


def test_a_task_that_fails_before_or_after_its_write_is_repeated_with_its_piece(
    spark: SparkSession, dsn: str, log: Log, faults: Faults
) -> None:
    place = Place.local(spark)
    for step, last in (("writing.1.0", 0), ("staged.2.0", 1), ("published.3", 3)):
        faults.fail(step)
        with pytest.raises(Exception, match=f"{step} was to fail"):
            run(place, config_of(dsn), faults)
        assert published(dsn) == last
        faults.heal(step)

    run(place, config_of(dsn), faults)

    assert_replayed(dsn)
    del log


def test_a_crash_of_postgresql_loses_and_duplicates_no_message(
    place: Place, faults: Faults
) -> None:
    with Postgres(in_memory=True) as server:
        dsn = migrated(server)
        with Log(dsn, "orders") as log:
            fill(log)
        crash = threading.Thread(target=crash_at, args=(server, dsn, faults, "publishing.1", 0))
        crash.start()
        with pytest.raises(Exception, match="lost the staged rows"):
            run(place, config_of(dsn), faults)
        crash.join()
        crash = threading.Thread(target=crash_at, args=(server, dsn, faults, "published.2", 2))
        crash.start()
        run(place, config_of(dsn), faults)  # It was published, so the replay continues.
        crash.join()
        assert_replayed(dsn)


def crash_at(server: Postgres, dsn: str, faults: Faults, step: str, last: int) -> None:
    """Kill PostgreSQL when a replay has reached a step."""
    faults.hold(step)
    wait_until_held(faults, step)
    server.kill()
    server.start()
    assert (published(dsn), staged(dsn)) == (last, 0)
    faults.release(step)


@pytest.mark.parametrize(
    ("place", "steps"),
    [
        ("local", ["staged.1"]),
        pytest.param("local", BETWEEN, marks=pytest.mark.slow),
        pytest.param("cluster", BETWEEN, marks=pytest.mark.slow),
    ],
    ids=["inside", "anywhere", "cluster"],
    indirect=["place"],
)
def test_a_driver_may_be_killed_between_pieces_and_inside_one(
    place: Place, dsn: str, log: Log, faults: Faults, steps: list[str]
) -> None:
    for step in steps:
        if step.startswith("piece"):
            with driver_of(place, config_of(dsn), faults) as driver:
                driver.until(step)
                driver.kill()
            continue
        faults.hold(step)
        with driver_of(place, config_of(dsn), faults) as driver:
            ended = driver.later(ANSWER_SECONDS)
            wait_until_held(faults, step)
            driver.kill()
            assert ended.exception(ANSWER_SECONDS) is not None
        faults.release(step)
    assert published(dsn) < SEGMENTS - 1

    run(place, config_of(dsn), faults)

    assert_replayed(dsn)
    del log


def test_two_concurrent_drivers_write_one_replay(
    place: Place, dsn: str, log: Log, faults: Faults
) -> None:
    without = Faults(faults.folder / "without")
    without.folder.mkdir()
    faults.hold("publishing.1")
    with driver_of(place, config_of(dsn), faults, **ONE_CORE) as driver:
        driver.until("piece-0")
        driver.go_on()
        wait_until_held(faults, "publishing.1", driver.log)
        run(place, config_of(dsn), without, **ONE_CORE)
        assert_replayed(dsn)
        faults.release("publishing.1")
        answer = driver.answer(ANSWER_SECONDS)

    assert answer["pieces"] == SEGMENTS
    assert_replayed(dsn)
    del log
