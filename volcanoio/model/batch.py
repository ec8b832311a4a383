"""batch.volcano.sh/v1alpha1 Job and CronJob, and bus.volcano.sh/v1alpha1 Command.

A Command is a request to act on a Job or a Queue, as `vcctl` writes it.
"""

from enum import StrEnum

from volcanoio.model.base import ApiObject, Manifest, Model, ObjectReference, OwnerReference


class JobPhase(StrEnum):
    """`status.state.phase`; a new Job has none, which counts as Pending."""

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
"""Maximum number of pods of one Job, over all tasks.

The controller plans a Job in one step and stores state about its pods on the Job. Volcano has no limit and fails when
the object becomes too large.
"""
FINISHED_PHASES = frozenset({JobPhase.COMPLETED, JobPhase.FAILED, JobPhase.TERMINATED})


class JobEvent(StrEnum):
    """Events of a job and its pods; `POLICY_EVENTS` are those that `spec.policies[].event` may contain."""

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


POLICY_EVENTS: tuple[JobEvent, ...] = tuple(
    sorted(set(JobEvent) - {JobEvent.OUT_OF_SYNC, JobEvent.COMMAND_ISSUED, JobEvent.POD_RUNNING})
)
"""Events that the policies of a Job may name, sorted: schema, admission and the built-in policy use this list."""


class JobAction(StrEnum):
    """Actions that a policy or Command may request for a Job; SyncJob is the controller's own."""

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
    """Action to take: AbortJob, RestartJob, RestartTask, RestartPod, RestartPartition, TerminateJob, CompleteJob or
    ResumeJob.
    """
    event: str = ""
    """Event that triggers the policy; "*" matches any event. Not together with exitCode."""
    events: tuple[str, ...] = ()
    """Several events that trigger the policy."""
    exit_code: int | None = None
    """Exit code of a container that triggers the policy; not 0."""
    timeout: str | None = None
    """Delay between event and action, such as 10m; required for PodPending."""


class NetworkTopology(Model):
    """`networkTopology` of a Job, partition policy or PodGroup."""

    mode: str = "hard"
    """Whether pods must (hard) or should (soft) be close to each other."""
    highest_tier_allowed: int | None = None
    """Highest tier of hypernodes across which the pods may be spread. Not together with highestTierName."""
    highest_tier_name: str = ""
    """Name of the highest tier across which the pods may be spread. Not together with highestTierAllowed."""


class DependsOn(Model):
    """`tasks[].dependsOn`."""

    name: tuple[str, ...] = ()
    """Tasks of the same job that must run or have ended before pods of this one are created."""
    iteration: str = ""
    """any if one of these tasks is enough; by default all of them are needed."""


class PartitionPolicy(Model):
    """`tasks[].partitionPolicy`."""

    total_partitions: int = 0
    """Number of partitions; multiplied by partitionSize it equals the number of replicas."""
    partition_size: int = 0
    """Number of pods in a partition."""
    min_partitions: int = 0
    """Minimum number of complete partitions for the task to start; 0 for none."""
    network_topology: NetworkTopology | None = None
    """Network topology for the pods of a partition."""


class TaskSpec(Model):
    """`spec.tasks[]`; the pod template keeps every field of the manifest."""

    name: str = ""
    """Name of the task, unique in the job and part of the names of its pods; default0, default1 and so on if empty."""
    replicas: int = 0
    """Number of pods."""
    min_available: int | None = None
    """Minimum number of pods for the task to start; all replicas by default."""
    template: Manifest = {}
    """Template of the pods."""
    policies: tuple[LifecyclePolicy, ...] = ()
    """Policies for events of pods of this task; they are evaluated before the policies of the job."""
    topology_policy: str = ""
    """NUMA policy of pods with whole CPUs: none, best-effort, restricted or single-numa-node; no effect yet."""
    max_retry: int = 0
    """Number of container restarts after which the task counts as failed; 3 if 0."""
    depends_on: DependsOn | None = None
    """Tasks of the job that must start or finish before this one."""
    partition_policy: PartitionPolicy | None = None
    """Division of the pods into groups of equal size."""


class VolumeSpec(Model):
    """`spec.volumes[]`; the claim is a whole PersistentVolumeClaim spec."""

    mount_path: str = ""
    """Path at which all containers of the job mount the volume."""
    volume_claim_name: str = ""
    """Name of an existing PersistentVolumeClaim."""
    volume_claim: Manifest | None = None
    """Specification of a PersistentVolumeClaim that is created for the job."""


class JobSpec(Model):
    """`spec` of a Job."""

    scheduler_name: str = ""
    """Scheduler of the pods; by default that of the installation."""
    min_available: int = 0
    """Minimum number of pods that must be able to start together; the sum of the tasks' minAvailable if 0."""
    volumes: tuple[VolumeSpec, ...] = ()
    """Volumes that are mounted by all pods."""
    tasks: tuple[TaskSpec, ...] = ()
    """Groups of identical pods."""
    policies: tuple[LifecyclePolicy, ...] = ()
    """Policies for events of the job and its pods."""
    plugins: dict[str, tuple[str, ...] | None] | None = None
    """Job plugins by name, each with its arguments, such as svc: []."""
    running_estimate: str | None = None
    """Expected run time of the job, such as 30m; informational."""
    queue: str = ""
    """Queue in which the job waits and whose share it uses."""
    max_retry: int = 0
    """Number of restarts of the job after which it fails; 3 if 0."""
    ttl_seconds_after_finished: int | None = None
    """Seconds after which the finished job is deleted; by default it is kept."""
    priority_class_name: str = ""
    """PriorityClass of the job, which orders it within its queue."""
    min_success: int | None = None
    """Number of pods that must succeed for the job to complete."""
    network_topology: NetworkTopology | None = None
    """Network topology for the pods."""


class JobState(Model):
    """`status.state`."""

    phase: str = ""
    """Phase of the job."""
    reason: str = ""
    """Reason for the phase, as one word in CamelCase."""
    message: str = ""
    """Reason for the phase, as a sentence."""
    last_transition_time: str | None = None
    """When the phase last changed."""


class TaskState(Model):
    """`status.taskStatusCount[task]`: pods by phase."""

    phase: dict[str, int] = {}
    """Number of pods by phase."""


class JobCondition(Model):
    """`status.conditions[]`, one per phase the job was in."""

    status: str = ""
    """Phase of the job."""
    last_transition_time: str | None = None
    """Time at which the job entered the phase."""


class JobStatus(Model):
    """`status` of a Job."""

    state: JobState = JobState()
    """Phase of the job and its reason."""
    min_available: int = 0
    """Minimum number of pods that must be able to start together."""
    task_status_count: dict[str, TaskState] = {}
    """Pods by task and phase."""
    pending: int = 0
    """Number of pending pods."""
    running: int = 0
    """Number of running pods."""
    succeeded: int = 0
    """Number of pods that succeeded."""
    failed: int = 0
    """Number of pods that failed."""
    terminating: int = 0
    """Number of pods that are being deleted."""
    unknown: int = 0
    """Number of pods of unknown phase."""
    version: int = 0
    """Number of times that all pods were replaced or stopped; pods of an older version are deleted."""
    retry_count: int = 0
    """Number of restarts so far."""
    running_duration: str | None = None
    """Time since the creation of the job, until it finished."""
    controlled_resources: dict[str, str] = {}
    """Objects that plugins created for the job, and state that the controller keeps across restarts."""
    conditions: tuple[JobCondition, ...] = ()
    """Phases of the job so far, in order."""


class Job(ApiObject):
    """Tasks of pods that are scheduled together and run to completion (batch.volcano.sh/v1alpha1)."""

    spec: JobSpec = JobSpec()
    """Specification of the job."""
    status: JobStatus = JobStatus()
    """Status of the job, written by the controller."""


class ConcurrencyPolicy(StrEnum):
    """Rule for a run that is due while an earlier one is active."""

    ALLOW = "Allow"
    FORBID = "Forbid"
    REPLACE = "Replace"


class TemplateMeta(Model):
    """The metadata that an embedded template may contain."""

    name: str = ""
    """Not used: a run is named after its CronJob."""
    namespace: str = ""
    """Not used: a run is in the namespace of its CronJob."""
    labels: dict[str, str] = {}
    """Labels of each run."""
    annotations: dict[str, str] = {}
    """Annotations of each run."""
    finalizers: tuple[str, ...] = ()
    """Not used."""


class JobTemplateSpec(Model):
    """`spec.jobTemplate`; the Job's spec keeps every field of the manifest."""

    metadata: TemplateMeta = TemplateMeta()
    """Labels and annotations of each run."""
    spec: Manifest = {}
    """Specification of the Job of each run."""


class CronJobSpec(Model):
    """`spec` of a CronJob. Limits say how many finished runs of a kind are kept."""

    schedule: str = ""
    """When runs start, as five fields of cron or a descriptor such as @hourly or @every 90m."""
    time_zone: str | None = None
    """Time zone of the schedule, such as Europe/Berlin; UTC by default."""
    starting_deadline_seconds: int | None = None
    """Seconds within which a run that missed its time may still start."""
    concurrency_policy: str = ConcurrencyPolicy.ALLOW
    """What happens when a run is due while an earlier one is active: Allow both, Forbid the new one, or Replace the
    earlier one.
    """
    suspend: bool | None = None
    """Whether further runs are suspended."""
    job_template: JobTemplateSpec = JobTemplateSpec()
    """Template of the runs."""
    successful_jobs_history_limit: int = 3
    """Number of completed runs that are kept."""
    failed_jobs_history_limit: int = 1
    """Number of failed, terminated and aborted runs that are kept."""


class CronJobStatus(Model):
    """`status` of a CronJob."""

    active: tuple[ObjectReference, ...] = ()
    """The runs that are not finished."""
    last_schedule_time: str | None = None
    """Time of the last run that was due and started."""
    last_successful_time: str | None = None
    """Time at which a run last completed."""


class CronJob(ApiObject):
    """Jobs that are created on a schedule (batch.volcano.sh/v1alpha1)."""

    spec: CronJobSpec = CronJobSpec()
    """Schedule and template of the runs."""
    status: CronJobStatus = CronJobStatus()
    """Active runs, and times of the last ones."""


class Command(ApiObject):
    """A request to act on a Job or Queue, deleted once it is accepted (bus.volcano.sh/v1alpha1).

    There is no spec: the action is a field of the object.
    """

    action: str = ""
    """Requested action, such as AbortJob, ResumeJob, OpenQueue or CloseQueue."""
    target: OwnerReference = OwnerReference()
    """The Job or Queue that the action applies to."""
    reason: str = ""
    """Reason for the request, as one word in CamelCase."""
    message: str = ""
    """Reason for the request, as a sentence."""
