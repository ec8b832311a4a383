"""Every metric of the scheduler, the controllers and the webhooks: name, type, labels, meaning and histogram bounds.

`volcano_…` are Volcano's, with its names, label values and bounds (pkg/scheduler/metrics, pkg/controllers/metrics);
`volcanoio_…` are ours. docs/metrics.md is generated from this table (`make metrics`), and a test holds it to be the
metrics that the code records.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from itertools import product
from typing import NamedTuple

from volcanoio.framework.probe import Probe
from volcanoio.runtime.webhooks.paths import DEFAULT_PATHS


class MetricType(StrEnum):
    """Type of a metric in Prometheus' text format."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Component(StrEnum):
    """The process that records a metric."""

    SCHEDULER = "scheduler"
    CONTROLLERS = "controllers"
    WEBHOOKS = "webhooks"
    EVERY = "every component"


COUNTER, GAUGE, HISTOGRAM = MetricType
SCHEDULER, CONTROLLERS, WEBHOOKS, EVERY = Component
PER_JOB_LABELS = frozenset({"job_id", "job_name", "pod", "podName"})
"""Labels with a value for each job or pod; the number of their series is limited."""


def exponential(lowest: float, highest: float, count: int) -> tuple[float, ...]:
    """Return `count` bounds from lowest to highest with a constant factor (Go: ExponentialBucketsRange)."""
    factor = (highest / lowest) ** (1 / (count - 1))
    return tuple(lowest * factor**power for power in range(count))


DEFAULT = exponential(0.0001, 100.0, 19)
"""Bounds of histograms without any: seconds, from 100 µs to 100 s."""

SIZES = tuple(float(2**power) for power in range(15))
"""Bounds for counts, such as the size of a batch."""


class Metric(NamedTuple):
    """One metric. `known` are label values that exist with 0 from the start, by label; all labels or none."""

    name: str
    type: MetricType
    meaning: str
    labels: tuple[str, ...] = ()
    component: Component = SCHEDULER
    known: Mapping[str, tuple[str, ...]] = {}
    bounds: tuple[float, ...] = DEFAULT

    @property
    def is_per_job(self) -> bool:
        """Whether it has a series for each job or pod."""
        return not PER_JOB_LABELS.isdisjoint(self.labels)


STAGES = ("Predicate", "Scoring", "PreBind", "Bind")
TASK_STAGES = ("Watched", "Assumed", "PreBound", "Bound")
EVICTING_ACTIONS = ("preempt", "reclaim", "gangpreempt", "gangreclaim", "shuffle")
CYCLE_ENDS = ("complete", "cut", "fault")
ADMISSION_RESULTS = ("allowed", "denied", "invalid", "error")
REACTIONS = ("decided", "bound")
_JOB = ("job_name", "job_namespace", "queue")

_CYCLES = (
    Metric(
        "volcano_e2e_scheduling_latency_milliseconds",
        HISTOGRAM,
        "duration of a cycle, without the work between its checkpoints",
        bounds=exponential(1, 5000, 20),
    ),
    Metric(
        "volcano_open_session_duration_milliseconds",
        HISTOGRAM,
        "opening of a cycle",
        bounds=exponential(1, 5000, 20),
    ),
    Metric(
        "volcanoio_close_session_duration_milliseconds",
        HISTOGRAM,
        "close of a cycle: plugins' close and what a cycle writes about jobs and queues",
        bounds=exponential(1, 5000, 20),
    ),
    Metric(
        "volcano_action_scheduling_latency_milliseconds",
        HISTOGRAM,
        "an action of a cycle",
        ("action",),
        bounds=exponential(1, 2000, 20),
    ),
    Metric(
        "volcano_plugin_scheduling_latency_milliseconds",
        HISTOGRAM,
        "a plugin's part of a cycle; `OnSession` is OnSessionOpen or, for plugins with work there, OnSessionClose",
        ("OnSession", "plugin"),
        bounds=exponential(0.1, 100, 15),
    ),
    Metric(
        "volcanoio_cycles_total",
        COUNTER,
        "cycles by their end: complete, cut (the time budget was spent, or a question had no answer yet) or fault",
        ("end",),
        known={"end": CYCLE_ENDS},
    ),
    Metric("volcanoio_tasks_placed_total", COUNTER, "tasks placed, including those that were undone"),
    Metric("volcanoio_gangs_committed_total", COUNTER, "statements with binds committed"),
    Metric("volcano_total_preemption_attempts", COUNTER, "searches for victims on a node"),
    Metric("volcano_pod_preemption_victims", GAUGE, "victims found in the last cycle with such searches"),
    Metric(
        "volcano_eviction_transactions_total",
        COUNTER,
        "committed statements with evictions",
        ("action",),
        known={"action": EVICTING_ACTIONS},
    ),
    Metric("volcanoio_source_failures_total", COUNTER, "failed polls of facts", ("source",)),
    Metric("volcanoio_question_failures_total", COUNTER, "failed questions of plugins", ("plugin",)),
)
_LATENCIES = (
    Metric(
        "volcano_task_scheduling_latency_milliseconds",
        HISTOGRAM,
        "from a pod's creation (whole seconds) until it is Watched (a watch shows it without a node), Assumed (a node"
        " was chosen), PreBound (the steps before its bind are done) or Bound",
        ("stage",),
        known={"stage": TASK_STAGES},
        bounds=exponential(50, 60000, 30),
    ),
    Metric(
        "volcano_scheduling_stage_duration_milliseconds",
        HISTOGRAM,
        "Predicate and Scoring: one evaluation of more than five nodes for pods that are alike; PreBind: the steps"
        " before the binds of a gang; Bind: a request for a bind",
        ("stage",),
        known={"stage": STAGES},
        bounds=exponential(0.1, 500, 20),
    ),
    Metric(
        "volcano_e2e_job_scheduling_latency_milliseconds",
        HISTOGRAM,
        "from a PodGroup's creation (whole seconds) until its pods have nodes",
        bounds=exponential(100, 120000, 30),
    ),
    Metric(
        "volcano_e2e_job_scheduling_duration", GAUGE, "the same by PodGroup, in milliseconds; removed with it", _JOB
    ),
    Metric("volcano_e2e_job_scheduling_start_time", GAUGE, "its begin, in milliseconds since the epoch", _JOB),
    Metric("volcano_e2e_job_scheduling_last_time", GAUGE, "its end, in milliseconds since the epoch", _JOB),
)
_BACKLOG = (
    Metric(
        "volcanoio_reaction_seconds",
        HISTOGRAM,
        "from the first event that requested a cycle until the cycle's first decisions are sent, or until a bind of"
        " the cycle is confirmed",
        ("stage",),
        known={"stage": ("decided", "bound")},
    ),
    Metric(
        "volcanoio_queue_waiting_jobs",
        GAUGE,
        "PodGroups of a queue in phase Pending or Inqueue; every 5 s",
        ("queue_name",),
    ),
    Metric("volcanoio_queue_waiting_tasks", GAUGE, "pods of a queue without a node; every 5 s", ("queue_name",)),
    Metric(
        "volcanoio_task_queue",
        GAUGE,
        "1 for each pod, with its PodGroup and queue; only with `--metrics-per-pod`",
        ("job_name", "pod", "pod_namespace", "queue"),
    ),
    Metric("volcanoio_waiting_single_pods", GAUGE, "pods without PodGroup that wait for a node; every 5 s"),
)
_BINDS = (
    Metric("volcanoio_bind_batch_size", HISTOGRAM, "binds of a batch", bounds=SIZES),
    Metric("volcanoio_binds_in_flight", GAUGE, "requests for binds without a response"),
    Metric("volcanoio_bind_overloads_total", COUNTER, "responses 429 to binds"),
    Metric("volcanoio_bind_lookup_failures_total", COUNTER, "failed reads of pods whose bind has an unknown outcome"),
)
_QUEUE = ("queue_name",)
_QUEUE_RESOURCE = ("queue_name", "resource")
_QUEUE_PARTS = {
    "volcano_queue_allocated": "allocated to its tasks",
    "volcano_queue_request": "requested by its allocated and waiting tasks",
    "volcano_queue_inqueue": "reserved by jobs that were admitted",
    "volcano_queue_deserved": "deserved",
    "volcano_queue_capacity": "capability; none where it has no limit",
    "volcano_queue_real_capacity": "capability, limited to what the other queues' guarantees leave",
    "volcanoio_queue_guarantee": "guarantee",
}
_QUEUES = (
    *(
        metric
        for name, meaning in _QUEUE_PARTS.items()
        for metric in (
            Metric(f"{name}_milli_cpu", GAUGE, f"cpu of a queue in thousandths: {meaning}", _QUEUE),
            Metric(f"{name}_memory_bytes", GAUGE, f"memory of a queue: {meaning}", _QUEUE),
            Metric(f"{name}_scalar_resources", GAUGE, f"other resources of a queue: {meaning}", _QUEUE_RESOURCE),
        )
    ),
    Metric("volcano_queue_share", GAUGE, "its largest share of what it deserves, over all resources", _QUEUE),
    Metric("volcano_queue_weight", GAUGE, "weight", _QUEUE),
    Metric("volcano_queue_overused", GAUGE, "1 while the queue has its share", _QUEUE),
)
_CARD = ("NodeName", "devID")
_PLUGINS = (
    Metric("volcano_unschedule_job_count", GAUGE, "jobs that miss pods or nodes (gang)"),
    Metric("volcano_unschedule_task_count", GAUGE, "how many, by PodGroup (gang)", ("job_id",)),
    Metric("volcano_job_retry_counts", COUNTER, "cycles in which the job was not ready (gang)", ("job_id",)),
    Metric("volcano_job_share", GAUGE, "dominant share (drf)", ("job_id", "job_ns")),
    Metric("volcano_namespace_share", GAUGE, "dominant share (namespace-fairshare)", ("namespace_name",)),
    Metric("volcano_namespace_weight", GAUGE, "weight (namespace-fairshare)", ("namespace_name",)),
    Metric("volcano_namespace_weighted_share", GAUGE, "share by weight (namespace-fairshare)", ("namespace_name",)),
    Metric("volcano_vgpu_device_shared_number", GAUGE, "shares of the card that pods have (deviceshare)", _CARD),
    Metric("volcano_vgpu_device_allocated_memory", GAUGE, "MiB of the card that pods have (deviceshare)", _CARD),
    Metric("volcano_vgpu_device_allocated_cores", GAUGE, "percent of its cores that pods have (deviceshare)", _CARD),
    Metric("volcano_vgpu_device_memory_limit", GAUGE, "MiB of the card (deviceshare)", _CARD),
    Metric(
        "volcano_vgpu_device_memory_allocation_for_a_certain_pod",
        GAUGE,
        "MiB of the card that the pod has (deviceshare)",
        (*_CARD, "podName"),
    ),
    Metric(
        "volcano_vgpu_device_core_allocation_for_a_certain_pod",
        GAUGE,
        "percent of the card's cores that the pod has (deviceshare)",
        (*_CARD, "podName"),
    ),
)
_CONTROLLERS = (
    Metric(
        "volcano_job_completed_phase_count",
        COUNTER,
        "how often a Job (`job_name` is namespace/name) completed; removed with it",
        ("job_name", "queue_name"),
        CONTROLLERS,
    ),
    Metric(
        "volcano_job_failed_phase_count",
        COUNTER,
        "how often a Job failed; removed with it",
        ("job_name", "queue_name"),
        CONTROLLERS,
    ),
    Metric(
        "volcano_jobflow_succeed_phase_count", COUNTER, "JobFlows that succeeded", ("jobflow_namespace",), CONTROLLERS
    ),
    Metric("volcano_jobflow_failed_phase_count", COUNTER, "JobFlows that failed", ("jobflow_namespace",), CONTROLLERS),
    *(
        Metric(
            f"volcano_queue_pod_group_{phase}_count",
            GAUGE,
            f"PodGroups of a queue in phase {phase.capitalize()}",
            _QUEUE,
            CONTROLLERS,
        )
        for phase in ("inqueue", "pending", "running", "unknown", "completed")
    ),
    Metric(
        "volcano_controller_job_to_pod_creation_latency_milliseconds",
        HISTOGRAM,
        "from a Job's creation until that of its pods (whole seconds)",
        component=CONTROLLERS,
        bounds=exponential(50, 60000, 30),
    ),
    Metric(
        "volcanoio_job_phase",
        GAUGE,
        "1 for the phase that a Job is in",
        ("job_name", "job_namespace", "phase", "queue"),
        CONTROLLERS,
    ),
    Metric(
        "volcanoio_job_start_time_seconds",
        GAUGE,
        "when a Job was first Running, in seconds since the epoch",
        _JOB,
        CONTROLLERS,
    ),
    Metric(
        "volcanoio_job_completion_time_seconds",
        GAUGE,
        "when a Job ended, in seconds since the epoch; not while it runs",
        _JOB,
        CONTROLLERS,
    ),
    Metric(
        "volcanoio_job_requested",
        GAUGE,
        "requests of a Job's running pods, in cores, bytes or pieces",
        (*_JOB, "resource"),
        CONTROLLERS,
    ),
    Metric(
        "volcanoio_job_used",
        GAUGE,
        "what its running pods use (cpu and memory), from metrics.k8s.io; none without that API",
        (*_JOB, "resource"),
        CONTROLLERS,
    ),
    Metric(
        "volcanoio_job_unused",
        GAUGE,
        "requests of its running pods that have metrics, minus what they use",
        (*_JOB, "resource"),
        CONTROLLERS,
    ),
    Metric(
        "volcanoio_controller_steps_total",
        COUNTER,
        "steps of controllers that had effects",
        ("controller",),
        CONTROLLERS,
    ),
    Metric(
        "volcanoio_controller_faults_total",
        COUNTER,
        "reducers that raised an error; the object is rebuilt after a back-off",
        ("controller",),
        CONTROLLERS,
    ),
    Metric("volcanoio_policy_decision_seconds", HISTOGRAM, "duration of a policy's decision", ("policy",), CONTROLLERS),
    Metric("volcanoio_policy_decisions_total", COUNTER, "decisions", ("decision", "policy"), CONTROLLERS),
    Metric("volcanoio_policy_faults_total", COUNTER, "errors and exceeded limits", ("policy",), CONTROLLERS),
    Metric("volcanoio_policy_disabled", GAUGE, "1 while a policy is set aside", ("policy",), CONTROLLERS),
    Metric("volcanoio_policy_load_failures_total", COUNTER, "policies that failed to load", ("policy",), CONTROLLERS),
    Metric(
        "volcanoio_policy_alerts_total", COUNTER, "alerts of policies", ("namespace", "policy", "reason"), CONTROLLERS
    ),
    Metric(
        "volcanoio_policy_webhook_attempts_total",
        COUNTER,
        "attempts to deliver an alert to a webhook",
        ("result",),
        CONTROLLERS,
        known={"result": ("delivered", "failed")},
    ),
    Metric(
        "volcanoio_topology_discoveries_total",
        COUNTER,
        "requests for the links of a fabric that HyperNodes are discovered from",
        ("result", "source"),
        CONTROLLERS,
        known={"result": ("listed", "failed"), "source": ("ufm",)},
    ),
    Metric("volcanoio_history_jobs_total", COUNTER, "finished jobs written to --history-file", (), CONTROLLERS),
    Metric("volcanoio_history_waiting_jobs", GAUGE, "finished jobs that could not be written yet", (), CONTROLLERS),
    Metric(
        "volcanoio_history_dropped_total",
        COUNTER,
        "finished jobs that are missing in --history-file, because it could not be written for too long",
        (),
        CONTROLLERS,
    ),
    Metric(
        "volcanoio_history_errors_total",
        COUNTER,
        "failures of --history-file: it is corrupt (and set aside), of a newer schema, or cannot be written",
        ("reason",),
        CONTROLLERS,
        known={"reason": ("corrupt", "schema", "write")},
    ),
)
_RESULTS = {"result": ("success", "failure")}
_RELOADS = tuple(
    metric
    for prefix, component in (("volcano_scheduler", SCHEDULER), ("volcanoio_controller", CONTROLLERS))
    for metric in (
        Metric(f"{prefix}_config_valid", GAUGE, "1 while the newest configuration is in force", (), component),
        Metric(f"{prefix}_config_reload_total", COUNTER, "reloads", ("result",), component, known=_RESULTS),
        Metric(
            f"{prefix}_config_last_success_timestamp_seconds",
            GAUGE,
            "time of the last successful reload, in seconds since the epoch",
            (),
            component,
        ),
    )
)
_EVERYWHERE = (
    Metric(
        "volcanoio_api_requests_total",
        COUNTER,
        "requests to the API server; `verb` is create, update, patch, delete (writes), get, list or watch (reads);"
        " `code` is `<error>` without a response",
        ("code", "resource", "subresource", "verb"),
        EVERY,
    ),
    Metric(
        "volcanoio_unfinished_steps",
        GAUGE,
        "steps whose writes are not finished, by controller (client-go: the depth of a work queue)",
        ("controller",),
        EVERY,
    ),
    Metric(
        "volcanoio_api_request_seconds",
        HISTOGRAM,
        "from sending a request to the API server until its whole response, without watches",
        ("verb",),
        EVERY,
    ),
    Metric("volcanoio_leader", GAUGE, "1 while this process holds the lease", ("lease",), EVERY),
    Metric(
        "volcanoio_lease_request_seconds", HISTOGRAM, "an attempt to read, take or renew the lease", ("lease",), EVERY
    ),
    Metric("volcanoio_lease_failures_total", COUNTER, "lease requests that failed", ("lease",), EVERY),
    Metric("volcanoio_informer_failures_total", COUNTER, "lists and watches that failed", ("resource",), EVERY),
    Metric("volcanoio_informer_relists_total", COUNTER, "lists after a watch could not go on", ("resource",), EVERY),
    Metric("volcanoio_undecodable_objects_total", COUNTER, "objects that could not be decoded", ("resource",), EVERY),
    Metric("volcanoio_events_dropped_total", COUNTER, "Kubernetes Events that were dropped", ("component",), EVERY),
    Metric("volcanoio_journal_on", GAUGE, "1 while the journal is written", ("process",), EVERY),
    Metric("volcanoio_journal_failures_total", COUNTER, "failures that ended the journal", ("process",), EVERY),
    Metric(
        "volcanoio_restart_needed",
        GAUGE,
        "mounted controllers and job plugins that changed after the start",
        (),
        CONTROLLERS,
    ),
    Metric(
        "volcanoio_metrics_series_dropped_total",
        COUNTER,
        "records that would have exceeded the limit of series per metric",
        ("metric",),
        EVERY,
    ),
)
_WEBHOOKS = (
    Metric(
        "volcanoio_admission_requests_total",
        COUNTER,
        "reviews by their result: allowed, denied, invalid (no review that can be read) or error (the review failed)",
        ("path", "result"),
        WEBHOOKS,
        known={"path": DEFAULT_PATHS, "result": ADMISSION_RESULTS},
    ),
    Metric(
        "volcanoio_admission_duration_seconds",
        HISTOGRAM,
        "from a review's headers until its response",
        ("path",),
        WEBHOOKS,
        known={"path": DEFAULT_PATHS},
    ),
    Metric(
        "volcanoio_admission_certificate_expiry_timestamp_seconds",
        GAUGE,
        "when the serving certificate expires",
        (),
        WEBHOOKS,
    ),
    Metric("volcanoio_admission_config_valid", GAUGE, "1 while --admission-conf is valid, else 0", (), WEBHOOKS),
    Metric(
        "volcanoio_admission_config_reloads_total",
        COUNTER,
        "changes of --admission-conf that took effect or were refused",
        ("result",),
        WEBHOOKS,
        known={"result": ("success", "failure")},
    ),
    Metric(
        "volcanoio_admission_config_last_reload_timestamp_seconds",
        GAUGE,
        "when --admission-conf took effect",
        (),
        WEBHOOKS,
    ),
)
CATALOGUE: Mapping[str, Metric] = {
    metric.name: metric
    for metric in (
        *_CYCLES,
        *_LATENCIES,
        *_BACKLOG,
        *_BINDS,
        *_QUEUES,
        *_PLUGINS,
        *_CONTROLLERS,
        *_RELOADS,
        *_WEBHOOKS,
        *_EVERYWHERE,
    )
}


def bucket_bounds(name: str) -> tuple[float, ...]:
    """Return the bounds of a histogram; a plugin's histogram of sizes is recognised by the end of its name."""
    if (metric := CATALOGUE.get(name)) is not None:
        return metric.bounds
    return SIZES if name.endswith(("_size", "_count", "_pods")) else DEFAULT


def begin_at_zero(probe: Probe, component: Component) -> None:
    """Record 0 for the counters and histograms of a component whose label values are known, so that each exists."""
    for metric in CATALOGUE.values():
        if (
            metric.component not in (component, EVERY)
            or metric.type is GAUGE
            or set(metric.known) != set(metric.labels)
        ):
            continue
        for values in product(*metric.known.values()):
            labels = dict(zip(metric.known, values, strict=True))
            if metric.type is COUNTER:
                probe.count(metric.name, 0.0, **labels)
            else:
                probe.observe(metric.name, 0.0, 0, **labels)
