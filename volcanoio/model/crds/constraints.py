"""Constraints of our CRDs that a field's type does not contain: defaults, bounds, patterns, enums, required fields.

Source of the values: Volcano `staging/src/volcano.sh/apis/pkg/apis` (kubebuilder markers). Ours
differ in two places: a Queue's weight may be any positive int32, where Volcano stops at 65535, and a policy may not
name the events that Volcano's schema offers and its admission refuses.
"""

from dataclasses import dataclass
from typing import Any

from volcanoio.model import batch, flow, nodes, scheduling
from volcanoio.model.base import Model, OwnerReference, StatusCondition
from volcanoio.model.crds import podtemplate

Schema = dict[str, Any]

INT32_MAX = 2**31 - 1
DNS_SUBDOMAIN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
DNS_LABEL = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
CONDITION_TYPE = DNS_SUBDOMAIN.removesuffix("$").replace("^", "^(") + r"/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
CONDITION_REASON = r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"

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
        "preferredDuringSchedulingIgnoredDuringExecution": {
            "type": "array",
            "items": {"type": "string"},
            "description": "Node groups that count where there is a choice.",
        },
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "type": "array",
            "items": {"type": "string"},
            "description": "Node groups that always count.",
        },
    },
}
PERCENTAGE: Schema = {"minimum": 0, "maximum": 100}
ONE_SELECTOR: Schema = {
    "x-kubernetes-validations": [
        {
            "rule": "has(self.exactMatch) || has(self.regexMatch) || has(self.labelMatch)",
            "message": "Either ExactMatch or RegexMatch or LabelMatch must be specified",
        },
        {
            "rule": "has(self.exactMatch) ? !has(self.regexMatch) && !has(self.labelMatch) : "
            "!has(self.regexMatch) || !has(self.labelMatch)",
            "message": "Only one of ExactMatch, RegexMatch, or LabelMatch can be specified",
        },
    ]
}
EVENT: Schema = {"enum": [event.value for event in batch.POLICY_EVENTS]}


@dataclass(frozen=True, slots=True)
class Whole:
    """A field that contains a complete Struct as it was written; without `defaults`, missing fields stay missing."""

    struct: type[Model]
    defaults: bool = True


CONSTRAINTS: dict[type[Model], dict[str, Schema | Whole]] = {
    batch.LifecyclePolicy: {"event": EVENT, "events": {"items": {"type": "string", **EVENT}}, "timeout": DURATION},
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
    batch.JobState: {"phase": {"enum": [phase.value for phase in batch.JobPhase]}, "last_transition_time": DATE_TIME},
    batch.JobCondition: {
        "status": {"enum": [phase.value for phase in batch.JobPhase]},
        "last_transition_time": DATE_TIME,
    },
    batch.JobStatus: {
        **dict.fromkeys(("min_available", "pending", "running", "succeeded", "failed"), NOT_NEGATIVE),
        **dict.fromkeys(("terminating", "unknown"), NOT_NEGATIVE),
        "running_duration": DURATION,
    },
    batch.JobTemplateSpec: {"spec": Whole(batch.JobSpec)},
    batch.CronJobSpec: {
        "starting_deadline_seconds": {"format": "int64", "minimum": 0},
        "concurrency_policy": {"default": "Allow", "enum": [policy.value for policy in batch.ConcurrencyPolicy]},
        "suspend": {"default": False},
        "successful_jobs_history_limit": {"default": 3, "minimum": 0},
        "failed_jobs_history_limit": {"default": 1, "minimum": 0},
    },
    batch.CronJobStatus: {
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
    StatusCondition: {
        "type": {"maxLength": 316, "pattern": CONDITION_TYPE},
        "status": {"enum": ["True", "False", "Unknown"]},
        "observed_generation": {"format": "int64", "minimum": 0},
        "last_transition_time": DATE_TIME,
        "reason": {"minLength": 1, "maxLength": 1024, "pattern": CONDITION_REASON},
        "message": {"maxLength": 32768},
    },
    batch.Command: {"target": {"x-kubernetes-map-type": "atomic"}},
    scheduling.SubGroupPolicy: {
        "name": NAME,
        "sub_group_size": {"default": 1, "minimum": 1},
        "min_sub_groups": {"default": 0, "minimum": 0},
        "label_selector": podtemplate.label_selector(),
        "match_label_keys": {"x-kubernetes-list-type": "atomic"},
    },
    scheduling.PodGroupSpec: {"min_member": NOT_NEGATIVE, "queue": QUEUE, "priority_class_name": NAME},
    scheduling.PodGroupCondition: {"last_transition_time": DATE_TIME},
    scheduling.PodGroupStatus: {"phase": {"enum": [phase.value for phase in scheduling.PodGroupPhase]}},
    scheduling.QueueSpec: {
        "weight": {"default": 1, "minimum": 1, "maximum": INT32_MAX},
        "extend_clusters": {
            "items": {
                "type": "object",
                "properties": {
                    "capacity": {**podtemplate.RESOURCE_LIST, "description": "Amounts that the cluster has."},
                    "name": {"type": "string", "description": "Name of the cluster."},
                    "weight": {"type": "integer", "format": "int32", "description": "Share of the cluster."},
                },
            }
        },
        "affinity": {
            "type": "object",
            "properties": {
                "nodeGroupAffinity": {**NODE_GROUPS, "description": "Node groups that pods of the queue use."},
                "nodeGroupAntiAffinity": {**NODE_GROUPS, "description": "Node groups that pods of the queue avoid."},
            },
        },
        "type": NAME,
        "parent": {"maxLength": 253, "pattern": DNS_SUBDOMAIN},
        "priority": NOT_NEGATIVE,
        "dequeue_strategy": {"default": "traverse", "enum": ["fifo", "traverse"]},
    },
    nodes.ExactMatch: {"name": {"minLength": 1, "maxLength": 253, "pattern": DNS_SUBDOMAIN}},
    nodes.RegexMatch: {"pattern": {"minLength": 1}},
    nodes.MemberSelector: {"label_match": podtemplate.label_selector()},
    nodes.Member: {"type": {"enum": ["Node", "HyperNode"]}, "selector": ONE_SELECTOR},
    nodes.HyperNodeSpec: {"tier": NOT_NEGATIVE, "tier_name": NAME, "members": {"minItems": 1}},
    nodes.HyperNodeStatus: {"node_count": {"format": "int64", "minimum": 0}},
    nodes.CpuDetail: dict.fromkeys(("numa", "socket", "core"), NOT_NEGATIVE),
    nodes.NodeShardStatus: {"last_update_time": DATE_TIME},
    nodes.MemoryQos: {
        "high_ratio": {"default": 100, **PERCENTAGE},
        "low_ratio": {"default": 0, **PERCENTAGE},
        "min_ratio": {"default": 0, **PERCENTAGE},
    },
    nodes.ColocationConfigurationSpec: {"selector": podtemplate.label_selector()},
    nodes.ColocationConfigurationStatus: {
        "conditions": {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}
    },
    scheduling.QueueStatus: {
        "state": {"enum": [state.value for state in scheduling.QueueState]},
        "reservation": {
            "type": "object",
            "properties": {
                "nodes": {"type": "array", "items": {"type": "string"}, "description": "Names of reserved nodes."},
                "resource": {**podtemplate.RESOURCE_LIST, "description": "Amounts that the nodes have."},
            },
        },
    },
}
"""Struct → field → schema that is merged over the one of the field's type."""

REQUIRED: dict[type[Model], tuple[str, ...]] = {
    batch.PartitionPolicy: ("total_partitions", "partition_size"),
    batch.VolumeSpec: ("mount_path",),
    batch.JobCondition: ("status",),
    batch.CronJobSpec: ("schedule", "job_template"),
    flow.Flow: ("name",),
    flow.HttpHeader: ("name", "value"),
    flow.TcpSocket: ("port",),
    OwnerReference: ("api_version", "kind", "name", "uid"),
    StatusCondition: ("last_transition_time", "message", "reason", "status", "type"),
    nodes.ExactMatch: ("name",),
    nodes.RegexMatch: ("pattern",),
    nodes.Member: ("type",),
    nodes.HyperNodeSpec: ("tier",),
    nodes.NodeShardSpec: ("nodes_desired",),
    nodes.NodeShard: ("spec",),
    nodes.ColocationConfiguration: ("spec",),
}
"""Struct → fields that a manifest must give."""
