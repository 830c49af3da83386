"""Histograms that can be summed, and Prometheus text."""

import random

import pytest
from prometheus_client.parser import text_string_to_metric_families

from queen import telemetry
from queen.meters import Histogram, Snapshot, merged, render, upper


def test_percentiles_are_accurate_to_a_fifth() -> None:
    rng = random.Random(7)
    values = [rng.expovariate(10) for _ in range(10_000)]
    histogram = Histogram()
    for value in values:
        histogram.observe(value)
    values.sort()
    for share in (0.5, 0.95, 0.99):
        exact = values[int(len(values) * share) - 1]
        assert histogram.percentile(share) == pytest.approx(exact, rel=0.2)


def test_a_percentile_without_values_is_unknown() -> None:
    assert Histogram().percentile(0.5) is None


@pytest.mark.parametrize("value", [-1.0, 0.0, 1e-9, 0.001, 1.0, 4096.0, 1e12])
def test_every_value_has_a_bin(value: float) -> None:
    histogram = Histogram()
    histogram.observe(value)
    (bin_,) = histogram.bins
    assert 0 <= bin_ <= 127
    assert value <= upper(bin_) * 1.000001 or bin_ == 127


def test_two_processes_are_summed_except_for_maximums() -> None:
    one, two = Snapshot(), Snapshot()
    for snapshot, value in ((one, 1), (two, 2)):
        snapshot.add(telemetry.PUSHED, value, "orders")
        snapshot.add(telemetry.LOOP_LAG, value)
        histogram = Histogram()
        histogram.observe(value)
        snapshot.add_histogram(telemetry.WAIT, histogram, "orders", "g")

    both = merged((one, two))

    assert both.of(telemetry.PUSHED, "orders") == 3
    assert both.of(telemetry.LOOP_LAG) == 2
    assert sum(both.histograms[0].bins.values()) == 2


def test_a_stopped_process_keeps_its_counters_but_not_its_gauges() -> None:
    snapshot = Snapshot()
    snapshot.add(telemetry.PUSHED, 1, "orders")
    snapshot.add(telemetry.WAITERS, 5, "orders", "g")

    left = snapshot.lasting()

    assert left.of(telemetry.PUSHED) == 1
    assert left.of(telemetry.WAITERS) == 0


def test_prometheus_own_parser_reads_the_text() -> None:
    snapshot = Snapshot()
    name = 'a "quoted"\\name\nin two lines'
    snapshot.add(telemetry.PUSHED, 3, name)
    histogram = Histogram()
    histogram.observe(0.01, 5)
    snapshot.add_histogram(telemetry.WAIT, histogram, name, "g")

    families = {f.name: f for f in text_string_to_metric_families(render(snapshot).decode())}

    (sample,) = families["queen_messages_pushed"].samples
    assert (sample.labels, sample.value) == ({"queue": name}, 3)
    buckets = families["queen_message_wait_seconds"].samples
    counts = [s.value for s in buckets if s.name.endswith("_bucket")]
    assert counts == sorted(counts)
    assert counts[-1] == 5
    (total,) = [s.value for s in buckets if s.name.endswith("_sum")]
    assert total == pytest.approx(0.05)


def test_hidden_queues_leave_no_sample() -> None:
    snapshot = Snapshot()
    snapshot.add(telemetry.PUSHED, 1, "secret")

    seen = render(snapshot.seen_by({"queue": {"orders"}, "pipeline": {"lake"}}))
    assert b"secret" not in seen
