"""Job reports of a worker: each count once, and a sign that the worker is running."""

from queen.jobs.worker.stats import UNKNOWN, WorkerCounters
from queen.meters import Histogram


def test_confirmed_counts_are_not_reported_again() -> None:
    counters = WorkerCounters(["mail"])
    job_counters = counters.of("mail", "send")
    job_counters.completed += 2
    job_counters.took(0.5)

    first = counters.report()
    assert first is not None
    (job,) = first.jobs
    assert (job.queue, job.name, job.completed, job.seconds) == ("mail", "send", 2, 0.5)
    counters.confirm()
    assert counters.report() is None


def test_running_jobs_are_reported_until_they_end() -> None:
    counters = WorkerCounters(["mail"])
    counters.of("mail", "send").running = 3

    for _ in range(2):
        report = counters.report()
        assert report is not None
        assert report.jobs[0].running == 3
        counters.confirm()
    counters.of("mail", "send").running = 0
    last = counters.report()
    assert last is not None
    assert last.jobs == []
    counters.confirm()
    assert counters.report() is None


def test_an_unconfirmed_report_is_repeated_unchanged() -> None:
    counters = WorkerCounters(["mail"])
    job_counters = counters.of("mail", "send")
    job_counters.failed += 1
    job_counters.took(2.0)
    lost = counters.report()
    job_counters.failed += 1

    # With the same number, because the server may have received it.
    assert counters.report() == lost
    counters.confirm()
    following = counters.report()

    assert lost is not None
    assert following is not None
    assert following.number == lost.number + 1
    assert [report.jobs[0].failed for report in (lost, following)] == [1, 1]


def test_bins_equal_those_of_the_server() -> None:
    for seconds in (0.0, 0.0001, 0.001, 0.02, 1.0, 77.0, 10_000_000.0):
        ours, theirs = WorkerCounters([]).of("q", "n"), Histogram()
        ours.took(seconds)
        theirs.observe(seconds)
        assert ours.bins == theirs.bins


def test_names_above_a_limit_are_counted_together() -> None:
    counters = WorkerCounters(["mail"])
    names = {counters.of("mail", str(number)).name for number in range(600)}

    assert len(names) == 501
    assert UNKNOWN in names
