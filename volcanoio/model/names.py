"""Labels, annotations and fixed names of Volcano's interface (`volcano-sh/apis`) and of ours."""

SCHEDULER_NAME = "volcano"
DEFAULT_SCHEDULER = "default-scheduler"
"""The default scheduler of Kubernetes."""
DEFAULT_QUEUE = "default"
ROOT_QUEUE = "root"
SYSTEM_NAMESPACE = "volcano-system"
DEFAULT_TASK_SPEC = "default"
NAMESPACE_NAME = "kubernetes.io/metadata.name"
"""The label of a namespace that contains its name."""
PODGROUP_PREFIX = "podgroup-"
CONTROLLER_COMPONENT = "vc-controller-manager"

# Pod labels and annotations written by the job controller.
TASK_SPEC = "volcano.sh/task-spec"
TASK_INDEX = "volcano.sh/task-index"
JOB_NAME = "volcano.sh/job-name"
JOB_NAMESPACE = "volcano.sh/job-namespace"
QUEUE_NAME = "volcano.sh/queue-name"
JOB_VERSION = "volcano.sh/job-version"
JOB_RETRY_COUNT = "volcano.sh/job-retry-count"
TEMPLATE_UID = "volcano.sh/template-uid"
GROUP_NAME = "scheduling.k8s.io/group-name"
PARTITION_ID = "volcano.sh/partition-id"
OUT_OF_SYNC = "volcano.sh/controller-out-of-sync"
NUMA_TOPOLOGY_POLICY = "volcano.sh/numa-topology-policy"
TOPOLOGY_DECISION = "volcano.sh/topology-decision"
"""An annotation of pods: the resources that the scheduler expects on each NUMA node, as JSON."""

# Jobs created by other controllers.
SCHEDULED_TIMESTAMP = "volcano.sh/cronjob-scheduled-timestamp"
CREATED_BY_TEMPLATE = "volcano.sh/createdByJobTemplate"
CREATED_BY_FLOW = "volcano.sh/createdByJobFlow"

# Copied from the job to its pods and PodGroup.
PREEMPTABLE = "volcano.sh/preemptable"
COOLDOWN_TIME = "volcano.sh/cooldown-time"
REVOCABLE_ZONE = "volcano.sh/revocable-zone"
JDB_MIN_AVAILABLE = "volcano.sh/jdb-min-available"
JDB_MAX_UNAVAILABLE = "volcano.sh/jdb-max-unavailable"
JOB_FORWARDING = "volcano.sh/job-forwarding"
JOB_TYPE = "volcano.sh/job-type"
TASK_PRIORITY = "volcano.sh/task-priority"

# Queues, and PodGroups without a Job.
QUEUE_NAME_ANNOTATION = "scheduling.volcano.sh/queue-name"
GROUP_MIN_MEMBER = "scheduling.volcano.sh/group-min-member"
QUEUE_ALLOCATION_GATE = "scheduling.volcano.sh/queue-allocation-gate"
TOPOLOGY_MODE = "volcano.sh/network-topology-mode"
TOPOLOGY_HIGHEST_TIER = "volcano.sh/network-topology-highest-tier"
ALLOCATED_HYPER_NODE = "volcano.sh/job-allocated-hypernode"
"""An annotation of PodGroups: the HyperNode of the lowest tier that contains all of its pods on nodes."""
TOPOLOGY_SOURCE = "volcano.sh/network-topology-source"
"""A label of HyperNodes that were discovered: their source, such as label or ufm."""
TOPOLOGY_PROFILE = "volcano.sh/network-topology-profile"
"""A label of HyperNodes that were discovered for a topology type with a node selector: the type's name."""
RESOURCE_GROUP = "volcano.sh/resource-group"
"""An annotation of pods: the resource group of the admission that they belong to."""
CLOSED_BY_PARENT = "volcano.sh/closed-by-parent"
HIERARCHY = "volcano.sh/hierarchy"
HIERARCHY_WEIGHTS = "volcano.sh/hierarchy-weights"

# Simulated pods.
RUN_DURATION = "sim.volcanoio.dev/run-duration"
EXIT_CODE = "sim.volcanoio.dev/exit-code"
FAIL_ATTEMPTS = "sim.volcanoio.dev/fail-attempts"
PEAK_MEMORY = "sim.volcanoio.dev/peak-memory"
OOM_AT = "sim.volcanoio.dev/oom-at"
SIM_LOG = "sim.volcanoio.dev/log"
LOG_LINES_PER_SECOND = "sim.volcanoio.dev/log-lines-per-second"
IMAGE_PULL = "sim.volcanoio.dev/image-pull"
PEAK_STORAGE = "sim.volcanoio.dev/peak-ephemeral-storage"
STARTUP_PROBE = "sim.volcanoio.dev/startup-probe"
READINESS_PROBE = "sim.volcanoio.dev/readiness-probe"
LIVENESS_PROBE = "sim.volcanoio.dev/liveness-probe"
STOP_DURATION = "sim.volcanoio.dev/stop-duration"
RUNTIME = "sim.volcanoio.dev/runtime"
KWOK_READY_DELAY = "pod-ready.stage.kwok.x-k8s.io/delay"
KWOK_COMPLETE_DELAY = "pod-complete.stage.kwok.x-k8s.io/delay"
KWOK_COMPLETE_JITTER = "pod-complete.stage.kwok.x-k8s.io/jitter-delay"
KWOK_FAILED = "pod-container-running-failed.stage.kwok.x-k8s.io"
KWOK_READY_JITTER = "pod-ready.stage.kwok.x-k8s.io/jitter-delay"
KWOK_INIT_FAILED = "pod-init-container-running-failed.stage.kwok.x-k8s.io"
KWOK_USAGE_CPU = "kwok.x-k8s.io/usage-cpu"
KWOK_USAGE_MEMORY = "kwok.x-k8s.io/usage-memory"

# Simulated nodes.
SIM_NODE = "sim.volcanoio.dev/node"
NODE_NOT_READY_AT = "sim.volcanoio.dev/not-ready-at"
NODE_FLAP = "sim.volcanoio.dev/flap"
NODE_DRAIN = "sim.volcanoio.dev/drain"

# Ours, on Jobs: state that must survive a restart of the controller.
PENDING_ACTION = "volcanoio.dev/pending-action"
ACCEPTED_COMMAND = "volcanoio.dev/accepted-command"
OVERRIDES = "volcanoio.dev/overrides"
"""Resources that a lifecycle policy gave to tasks, in `status.controlledResources`."""
ALERTS = "volcanoio.dev/alerts"
"""Alerts that were raised, in `status.controlledResources`."""
POLICIES = "volcanoio.dev/policies"
"""An annotation of Jobs: the lifecycle policies of this job, in addition to the configured ones."""
CREATOR = "volcanoio.dev/creator"
"""An annotation of Jobs: the user who created the Job, as the API server names it to the admission."""
POLICY_ARGUMENTS = "policy-arguments.volcanoio.dev/"
"""An annotation of Jobs, followed by a policy's name: that policy's arguments for this job."""

# On Queues: "true" as a label, so that admission policies can select the queues.
RESTRICTED = "volcanoio.dev/restricted"

# On PodGroups of Jobs with another scheduler name than volcano: that name. Other schedulers leave the PodGroup alone.
GROUP_SCHEDULER = "volcanoio.dev/scheduler-name"

# On Nodes of redacted states: the hash of the original name, by which equal nodes are ordered.
NAME_HASH = "volcanoio.dev/name-hash"

# On Namespaces: the weight of the namespace within a queue (a positive number, 1 by default).
FAIRSHARE_WEIGHT = "volcanoio.dev/fairshare-weight"
