"""What the type of a field does not say: defaults, bounds, patterns, enums and required fields of our CRDs.

Source of the values: Volcano `staging/src/volcano.sh/apis/pkg/apis/{batch,bus,scheduling}` (kubebuilder markers). Ours
differ in one place: a Queue's weight may be any positive int32, where Volcano stops at 65535.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from volcanoio.model import batch, command, cron, flow, scheduling
from volcanoio.model.base import Model, OwnerReference
from volcanoio.model.crds import podtemplate

Schema = dict[str, Any]

INT32_MAX = 2**31 - 1
DNS_SUBDOMAIN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
DNS_LABEL = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"

NOT_NEGATIVE: Schema = {"minimum": 0}
POSITIVE: Schema = {"minimum": 1}
NAME: Schema = {"maxLength": 253}
QUEUE: Schema = {"default": "default", "maxLength": 253, "pattern": DNS_SUBDOMAIN}
DURATION: Schema = {"type": "string"}
DATE_TIME: Schema = {"format": "date-time"}
PORT: Schema = {"minimum": 0, "maximum": 65535}
NODE_GROUPS: Schema = {
    "type": "object",
    "properties": {
        "preferredDuringSchedulingIgnoredDuringExecution": {"type": "array", "items": {"type": "string"}},
        "requiredDuringSchedulingIgnoredDuringExecution": {"type": "array", "items": {"type": "string"}},
    },
}
EVENT: Schema = {"enum": [event.value for event in batch.JobEvent]}


@dataclass(frozen=True, slots=True)
class Whole:
    """A field that holds a whole Struct as it was written. Without `defaults` what was not written stays so."""

    struct: type[Model]
    defaults: bool = True


CONSTRAINTS: dict[type[Model], dict[str, Schema | Whole]] = {
    batch.LifecyclePolicy: {
        "event": EVENT,
        "events": {"items": {"type": "string", **EVENT}},
        "timeout": DURATION,
    },
    batch.NetworkTopology: {
        "mode": {"default": "hard", "enum": ["hard", "soft"]},
        "highest_tier_allowed": NOT_NEGATIVE,
        "highest_tier_name": NAME,
    },
    batch.PartitionPolicy: {
        "total_partitions": POSITIVE,
        "partition_size": POSITIVE,
        "min_partitions": {"default": 0, "minimum": 0},
    },
    batch.TaskSpec: {
        "name": {"maxLength": 63, "pattern": DNS_LABEL},
        "replicas": {"default": 0, "minimum": 0},
        "min_available": NOT_NEGATIVE,
        "template": podtemplate.pod_template(),
        "topology_policy": {"enum": ["none", "best-effort", "restricted", "single-numa-node"]},
        "max_retry": NOT_NEGATIVE,
    },
    batch.VolumeSpec: {
        "mount_path": {"minLength": 1, "pattern": "^[^:]+$"},
        "volume_claim_name": NAME,
        "volume_claim": podtemplate.claim_spec(),
    },
    batch.JobSpec: {
        "scheduler_name": {"maxLength": 63},
        "min_available": NOT_NEGATIVE,
        "tasks": {"minItems": 1},
        "running_estimate": DURATION,
        "queue": QUEUE,
        "max_retry": {"default": 3, "minimum": 0},
        "ttl_seconds_after_finished": NOT_NEGATIVE,
        "priority_class_name": {"maxLength": 253, "pattern": DNS_SUBDOMAIN},
        "min_success": POSITIVE,
    },
    batch.JobState: {
        "phase": {"enum": [phase.value for phase in batch.JobPhase]},
        "last_transition_time": DATE_TIME,
    },
    batch.JobCondition: {
        "status": {"enum": [phase.value for phase in batch.JobPhase]},
        "last_transition_time": DATE_TIME,
    },
    batch.JobStatus: {
        **dict.fromkeys(("min_available", "pending", "running", "succeeded", "failed"), NOT_NEGATIVE),
        **dict.fromkeys(("terminating", "unknown"), NOT_NEGATIVE),
        "running_duration": DURATION,
    },
    cron.JobTemplateSpec: {"spec": Whole(batch.JobSpec)},
    cron.CronJobSpec: {
        "starting_deadline_seconds": {"format": "int64", "minimum": 0},
        "concurrency_policy": {"default": "Allow", "enum": [policy.value for policy in cron.ConcurrencyPolicy]},
        "suspend": {"default": False},
        "successful_jobs_history_limit": {"default": 3, "minimum": 0},
        "failed_jobs_history_limit": {"default": 1, "minimum": 0},
    },
    cron.CronJobStatus: {
        "active": {"x-kubernetes-list-type": "atomic"},
        "last_schedule_time": DATE_TIME,
        "last_successful_time": DATE_TIME,
    },
    flow.HttpGet: {"task_name": NAME, "port": PORT},
    flow.TcpSocket: {"task_name": NAME, "port": PORT},
    flow.TaskStatusProbe: {"task_name": NAME, "phase": {"maxLength": 63}},
    flow.Flow: {"name": {"minLength": 1}},
    flow.FlowPatch: {"job_spec": Whole(batch.JobSpec, defaults=False)},
    flow.JobFlowSpec: {"job_retain_policy": {"enum": [policy.value for policy in flow.RetainPolicy]}},
    flow.RunningHistory: {"start_timestamp": DATE_TIME, "end_timestamp": DATE_TIME},
    flow.FlowJobStatus: {"start_timestamp": DATE_TIME, "end_timestamp": DATE_TIME},
    flow.FlowCondition: {"create_time": DATE_TIME, "running_duration": DURATION},
    flow.FlowState: {"phase": {"enum": [phase.value for phase in flow.FlowPhase]}},
    flow.JobTemplate: {"spec": Whole(batch.JobSpec)},
    OwnerReference: {},
    command.Command: {
        "target": {"x-kubernetes-map-type": "atomic"},
    },
    scheduling.SubGroupPolicy: {
        "name": NAME,
        "sub_group_size": {"default": 1, "minimum": 1},
        "min_sub_groups": {"default": 0, "minimum": 0},
        "label_selector": podtemplate.label_selector(),
        "match_label_keys": {"x-kubernetes-list-type": "atomic"},
    },
    scheduling.PodGroupSpec: {
        "min_member": NOT_NEGATIVE,
        "queue": QUEUE,
        "priority_class_name": NAME,
    },
    scheduling.PodGroupCondition: {"last_transition_time": DATE_TIME},
    scheduling.PodGroupStatus: {
        "phase": {"enum": [phase.value for phase in scheduling.PodGroupPhase]},
    },
    scheduling.QueueSpec: {
        "weight": {"default": 1, "minimum": 1, "maximum": INT32_MAX},
        "extend_clusters": {
            "items": {
                "type": "object",
                "properties": {
                    "capacity": podtemplate.RESOURCE_LIST,
                    "name": {"type": "string"},
                    "weight": {"type": "integer", "format": "int32"},
                },
            }
        },
        "affinity": {
            "type": "object",
            "properties": {"nodeGroupAffinity": NODE_GROUPS, "nodeGroupAntiAffinity": NODE_GROUPS},
        },
        "type": NAME,
        "parent": {"maxLength": 253, "pattern": DNS_SUBDOMAIN},
        "priority": NOT_NEGATIVE,
        "dequeue_strategy": {"default": "traverse", "enum": ["fifo", "traverse"]},
    },
    scheduling.QueueStatus: {
        "state": {"enum": [state.value for state in scheduling.QueueState]},
        "reservation": {
            "type": "object",
            "properties": {
                "nodes": {"type": "array", "items": {"type": "string"}},
                "resource": podtemplate.RESOURCE_LIST,
            },
        },
    },
}
"""Struct → field → what is laid over the schema its type gives."""

REQUIRED: dict[type[Model], tuple[str, ...]] = {
    batch.PartitionPolicy: ("total_partitions", "partition_size"),
    batch.VolumeSpec: ("mount_path",),
    batch.JobCondition: ("status",),
    cron.CronJobSpec: ("schedule", "job_template"),
    flow.Flow: ("name",),
    flow.HttpHeader: ("name", "value"),
    flow.TcpSocket: ("port",),
    OwnerReference: ("api_version", "kind", "name", "uid"),
}
"""Struct → fields that a manifest must give."""
