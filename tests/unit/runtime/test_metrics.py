"""Metrics are exported under exactly the names and values they were given."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from volcanoio.framework.probe import Probe
from volcanoio.runtime.metric_catalogue import CATALOGUE, Component, begin_at_zero, exponential
from volcanoio.runtime.metrics import PrometheusProbe


@pytest.fixture
def probe() -> PrometheusProbe:
    return PrometheusProbe(process=False)


def lines(probe: PrometheusProbe) -> list[str]:
    return [line for line in probe.page().decode().splitlines() if not line.startswith("# HELP")]


def test_a_counter_keeps_its_name_without_total(probe: PrometheusProbe) -> None:
    reporter: Probe = probe
    reporter.count("volcano_job_completed_phase_count", job_name="ns/a", queue_name="default")
    reporter.count("volcano_job_completed_phase_count", 2, job_name="ns/a", queue_name="default")
    assert lines(probe) == [
        "# TYPE volcano_job_completed_phase_count counter",
        'volcano_job_completed_phase_count{job_name="ns/a",queue_name="default"} 3.0',
    ]


def test_a_histogram_counts_into_its_own_buckets() -> None:
    probe = PrometheusProbe(lambda name: (1.0, 10.0), process=False)
    for value in (0.5, 1.0, 7.0, 99.0):
        probe.observe("volcano_wait", value, stage="Bound")
    assert lines(probe) == [
        "# TYPE volcano_wait histogram",
        'volcano_wait_bucket{le="1",stage="Bound"} 2.0',
        'volcano_wait_bucket{le="10",stage="Bound"} 3.0',
        'volcano_wait_bucket{le="+Inf",stage="Bound"} 4.0',
        'volcano_wait_count{stage="Bound"} 4.0',
        'volcano_wait_sum{stage="Bound"} 107.5',
    ]


def test_forgetting_drops_all_series_with_the_labels(probe: PrometheusProbe) -> None:
    for queue in ("a", "b"):
        for resource in ("cpu", "memory"):
            probe.gauge("volcano_queue_share", 1.0, queue_name=queue, resource=resource)
    probe.forget("volcano_queue_share", queue_name="a")
    assert [line for line in lines(probe) if 'queue_name="a"' in line] == []
    assert len([line for line in lines(probe) if 'queue_name="b"' in line]) == 2
    probe.forget("never_reported", queue_name="a")


def test_label_values_are_escaped(probe: PrometheusProbe) -> None:
    probe.count("odd", text='a"b\\c\nd')
    (family,) = text_string_to_metric_families(probe.page().decode())
    assert family.samples[0].labels == {"text": 'a"b\\c\nd'}


async def test_the_page_is_rendered_off_the_loop_with_process_figures() -> None:
    probe = PrometheusProbe()
    probe.gauge("volcano_unschedule_job_count", 3)
    page = await probe.render()
    assert b"volcano_unschedule_job_count 3.0" in page
    assert b"process_" in page


def test_values_can_be_read_back(probe: PrometheusProbe) -> None:
    probe.count("a", 2)
    probe.gauge("b", 5, queue="q")
    assert (probe.value("a"), probe.value("b", queue="q"), probe.value("c")) == (2, 5, 0)


def test_volcanos_buckets_run_from_their_lowest_to_their_highest_bound() -> None:
    bounds = CATALOGUE["volcano_e2e_job_scheduling_latency_milliseconds"].bounds
    assert (len(bounds), bounds[0], round(bounds[-1])) == (30, 100, 120000)
    assert [round(bound, 6) for bound in exponential(1, 8, 4)] == [1, 2, 4, 8]


def test_series_with_known_labels_exist_from_the_start(probe: PrometheusProbe) -> None:
    begin_at_zero(probe, Component.SCHEDULER)
    page = lines(probe)
    assert {f'volcanoio_cycles_total{{end="{end}"}} 0.0' for end in ("complete", "cut", "fault")} <= set(page)
    assert "volcano_total_preemption_attempts 0.0" in page
    assert "volcano_e2e_scheduling_latency_milliseconds_count 0.0" in page
    assert 'volcano_scheduling_stage_duration_milliseconds_count{stage="Predicate"} 0.0' in page
    assert not any("jobflow" in line or "job_id" in line for line in page)


def test_metrics_of_jobs_have_a_limit_of_series() -> None:
    probe = PrometheusProbe(process=False, series_limit=2)
    for job in ("a", "b", "c"):
        probe.gauge("volcano_job_share", 0.5, job_id=job, job_ns="ns")
        probe.count("volcano_job_retry_counts", job_id=job)
        probe.observe("third_party_seconds", 1.0, job=job)
        probe.gauge("volcano_queue_weight", 1, queue_name=job)
    probe.gauge("volcano_job_share", 0.75, job_id="b", job_ns="ns")
    page = "\n".join(lines(probe))
    assert 'volcano_job_share{job_id="b",job_ns="ns"} 0.75' in page
    for name, label in (
        ("volcano_job_share", "job_id"),
        ("volcano_job_retry_counts", "job_id"),
        ("third_party", "job"),
    ):
        assert probe.value("volcanoio_metrics_series_dropped_total", metric=name) in (0, 1)
        assert f'{label}="c"' not in page
    assert 'volcano_queue_weight{queue_name="c"}' in page
    probe.forget("volcano_job_share", job_id="a", job_ns="ns")
    probe.gauge("volcano_job_share", 0.25, job_id="c", job_ns="ns")
    assert probe.value("volcano_job_share", job_id="c", job_ns="ns") == 0.25
