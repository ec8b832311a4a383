"""batch.volcano.sh/v1alpha1 Job."""

from __future__ import annotations

from enum import StrEnum

from volcanoio.model.base import ApiObject, Manifest, Model


class JobPhase(StrEnum):
    """`status.state.phase`; a new Job has none, which the lifecycle treats as Pending."""

    PENDING = "Pending"
    ABORTING = "Aborting"
    ABORTED = "Aborted"
    RUNNING = "Running"
    RESTARTING = "Restarting"
    COMPLETING = "Completing"
    COMPLETED = "Completed"
    TERMINATING = "Terminating"
    TERMINATED = "Terminated"
    FAILED = "Failed"


MOST_PODS = 50_000
"""Pods of one Job, all tasks together: what is looked at in one go, and stored on the Job about its pods, has a limit.
Volcano has none and fails at the size of its objects."""
FINISHED_PHASES = frozenset({JobPhase.COMPLETED, JobPhase.FAILED, JobPhase.TERMINATED})


class JobEvent(StrEnum):
    """What `spec.policies[].event` may name."""

    ANY = "*"
    POD_PENDING = "PodPending"
    POD_RUNNING = "PodRunning"
    POD_FAILED = "PodFailed"
    POD_EVICTED = "PodEvicted"
    UNKNOWN = "Unknown"
    TASK_COMPLETED = "TaskCompleted"
    TASK_FAILED = "TaskFailed"
    OUT_OF_SYNC = "OutOfSync"
    COMMAND_ISSUED = "CommandIssued"
    JOB_UPDATED = "JobUpdated"


class JobAction(StrEnum):
    """What a policy or Command may ask of a Job; SyncJob is the controller's own."""

    ABORT_JOB = "AbortJob"
    RESTART_JOB = "RestartJob"
    RESTART_TASK = "RestartTask"
    RESTART_POD = "RestartPod"
    RESTART_PARTITION = "RestartPartition"
    TERMINATE_JOB = "TerminateJob"
    COMPLETE_JOB = "CompleteJob"
    RESUME_JOB = "ResumeJob"
    SYNC_JOB = "SyncJob"


class LifecyclePolicy(Model):
    """`policies[]` of a Job or task; either events or an exit code."""

    action: str = ""
    event: str = ""
    events: tuple[str, ...] = ()
    exit_code: int | None = None
    timeout: str | None = None


class NetworkTopology(Model):
    """`networkTopology` of a Job, partition policy or PodGroup."""

    mode: str = "hard"
    highest_tier_allowed: int | None = None
    highest_tier_name: str = ""


class DependsOn(Model):
    """`tasks[].dependsOn`."""

    name: tuple[str, ...] = ()
    iteration: str = ""


class PartitionPolicy(Model):
    """`tasks[].partitionPolicy`."""

    total_partitions: int = 0
    partition_size: int = 0
    min_partitions: int = 0
    network_topology: NetworkTopology | None = None


class TaskSpec(Model):
    """`spec.tasks[]`; the pod template keeps every field of the manifest."""

    name: str = ""
    replicas: int = 0
    min_available: int | None = None
    template: Manifest = {}
    policies: tuple[LifecyclePolicy, ...] = ()
    topology_policy: str = ""
    max_retry: int = 0
    depends_on: DependsOn | None = None
    partition_policy: PartitionPolicy | None = None


class VolumeSpec(Model):
    """`spec.volumes[]`; the claim is a whole PersistentVolumeClaim spec."""

    mount_path: str = ""
    volume_claim_name: str = ""
    volume_claim: Manifest | None = None


class JobSpec(Model):
    """`spec` of a Job."""

    scheduler_name: str = ""
    min_available: int = 0
    volumes: tuple[VolumeSpec, ...] = ()
    tasks: tuple[TaskSpec, ...] = ()
    policies: tuple[LifecyclePolicy, ...] = ()
    plugins: dict[str, tuple[str, ...] | None] | None = None
    running_estimate: str | None = None
    queue: str = ""
    max_retry: int = 0
    ttl_seconds_after_finished: int | None = None
    priority_class_name: str = ""
    min_success: int | None = None
    network_topology: NetworkTopology | None = None


class JobState(Model):
    """`status.state`."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class TaskState(Model):
    """`status.taskStatusCount[task]`: pods by phase."""

    phase: dict[str, int] = {}


class JobCondition(Model):
    """`status.conditions[]`, one per phase the job was in."""

    status: str = ""
    last_transition_time: str | None = None


class JobStatus(Model):
    """`status` of a Job."""

    state: JobState = JobState()
    min_available: int = 0
    task_status_count: dict[str, TaskState] = {}
    pending: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    terminating: int = 0
    unknown: int = 0
    version: int = 0
    retry_count: int = 0
    running_duration: str | None = None
    controlled_resources: dict[str, str] = {}
    conditions: tuple[JobCondition, ...] = ()


class Job(ApiObject):
    """batch.volcano.sh/v1alpha1 Job."""

    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()
