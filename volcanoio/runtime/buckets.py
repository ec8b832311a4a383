"""Upper bounds of the histograms: Volcano's own (`pkg/scheduler/metrics`, `pkg/controllers`) and ours."""

from __future__ import annotations

from collections.abc import Mapping


def exponential(lowest: float, highest: float, count: int) -> tuple[float, ...]:
    """`count` bounds from lowest to highest, each the same factor above the last (Go: ExponentialBucketsRange)."""
    factor = (highest / lowest) ** (1 / (count - 1))
    return tuple(lowest * factor**power for power in range(count))


DEFAULT = exponential(0.0001, 100.0, 19)
"""For what the table does not name: seconds, from 100 µs to 100 s."""

SIZES = tuple(float(2**power) for power in range(15))
"""For counts, such as the size of a batch."""

BUCKETS: Mapping[str, tuple[float, ...]] = {
    "volcano_e2e_scheduling_latency_milliseconds": exponential(1, 5000, 20),
    "volcano_open_session_duration_milliseconds": exponential(1, 5000, 20),
    "volcano_e2e_job_scheduling_latency_milliseconds": exponential(100, 120000, 30),
    "volcano_plugin_scheduling_latency_milliseconds": exponential(0.1, 100, 15),
    "volcano_action_scheduling_latency_milliseconds": exponential(1, 2000, 20),
    "volcano_task_scheduling_latency_milliseconds": exponential(50, 60000, 30),
    "volcano_scheduling_stage_duration_milliseconds": exponential(0.1, 500, 20),
    "volcano_controller_job_to_pod_creation_latency_milliseconds": exponential(50, 60000, 30),
}


def bounds_of(name: str) -> tuple[float, ...]:
    """The bounds of a histogram; those of sizes by their name's end, as they are no durations."""
    return BUCKETS.get(name) or (SIZES if name.endswith(("_size", "_count", "_pods")) else DEFAULT)
