"""flow.volcano.sh/v1alpha1 JobFlow and JobTemplate."""

from enum import StrEnum

from volcanoio.model.base import ApiObject, Manifest, Model
from volcanoio.model.batch import TaskState


class FlowPhase(StrEnum):
    """`status.state.phase` of a JobFlow; a new one has none, which counts as Pending."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEED = "Succeed"
    FAILED = "Failed"
    TERMINATING = "Terminating"


class RetainPolicy(StrEnum):
    """What happens to the jobs of a flow that succeeded."""

    RETAIN = "retain"
    DELETE = "delete"


class HttpHeader(Model):
    """One header of a request."""

    name: str = ""
    """Name of the header."""
    value: str = ""
    """Value of the header."""


class HttpGet(Model):
    """`probe.httpGetList[]`."""

    task_name: str = ""
    """Task whose pods are probed; all tasks if empty."""
    path: str = ""
    """Requested path."""
    port: int = 0
    """Port of the pods."""
    http_header: HttpHeader | None = None
    """Header of the request."""


class TcpSocket(Model):
    """`probe.tcpSocketList[]`."""

    task_name: str = ""
    """Task whose pods are connected to; all tasks if empty."""
    port: int = 0
    """Port of the pods."""


class TaskStatusProbe(Model):
    """`probe.taskStatusList[]`: the pod phase that a task must reach."""

    task_name: str = ""
    """Task whose pods are checked; all tasks if empty."""
    phase: str = ""
    """Phase that the pods must have reached."""


class FlowProbe(Model):
    """`dependsOn.probe`: a running target is sufficient once all of these succeed."""

    http_get_list: tuple[HttpGet, ...] = ()
    """HTTP requests that pods of the targets must answer successfully."""
    tcp_socket_list: tuple[TcpSocket, ...] = ()
    """Ports of the targets' pods that must accept connections."""
    task_status_list: tuple[TaskStatusProbe, ...] = ()
    """Phases that pods of the targets must reach."""

    @property
    def empty(self) -> bool:
        """Whether there are no probes."""
        return not (self.http_get_list or self.tcp_socket_list or self.task_status_list)


class FlowDependsOn(Model):
    """`flows[].dependsOn`."""

    targets: tuple[str, ...] = ()
    """Names of the flows that must complete first."""
    probe: FlowProbe | None = None
    """Probes that replace the completion of the targets."""


class FlowPatch(Model):
    """`flows[].patch`: fields that are merged over the template's spec, as they were written."""

    job_spec: Manifest = {}
    """Fields that are merged over the template; lists of tasks, containers and the like are merged by name."""


class Flow(Model):
    """`spec.flows[]`: a job created from the JobTemplate of that name."""

    name: str = ""
    """Name of the JobTemplate of the job."""
    depends_on: FlowDependsOn | None = None
    """Conditions for the creation of the job."""
    patch: FlowPatch | None = None
    """Changes to the template."""


class JobFlowSpec(Model):
    """`spec` of a JobFlow."""

    flows: tuple[Flow, ...] = ()
    """The jobs, each created from a JobTemplate."""
    job_retain_policy: str = ""
    """Whether the jobs are kept (retain) or deleted (delete) once the flow has succeeded."""


class RunningHistory(Model):
    """`jobStatusList[].runningHistories[]`: a phase of a job with its times."""

    start_timestamp: str | None = None
    """When the job entered the phase."""
    end_timestamp: str | None = None
    """When the job left the phase."""
    state: str = ""
    """Phase of the job."""


class FlowJobStatus(Model):
    """`status.jobStatusList[]`."""

    name: str = ""
    """Name of the job."""
    state: str = ""
    """Phase of the job."""
    start_timestamp: str | None = None
    """When the job was created."""
    end_timestamp: str | None = None
    """When the job ended."""
    restart_count: int = 0
    """Number of restarts of the job."""
    running_histories: tuple[RunningHistory, ...] = ()
    """The phases that the job was in, in order."""


class FlowCondition(Model):
    """`status.conditions[job]`."""

    phase: str = ""
    """Phase of the job."""
    create_time: str | None = None
    """When the job was created."""
    running_duration: str | None = None
    """Run time of the job."""
    task_status_count: dict[str, TaskState] = {}
    """Pods of the job by task and phase."""


class FlowState(Model):
    """`status.state`."""

    phase: str = ""
    """Phase of the flow."""


class JobFlowStatus(Model):
    """`status` of a JobFlow: names of its jobs by phase, and details of each."""

    pending_jobs: tuple[str, ...] = ()
    """Names of pending jobs."""
    running_jobs: tuple[str, ...] = ()
    """Names of running jobs."""
    failed_jobs: tuple[str, ...] = ()
    """Names of failed jobs."""
    completed_jobs: tuple[str, ...] = ()
    """Names of completed jobs."""
    terminated_jobs: tuple[str, ...] = ()
    """Names of terminated jobs."""
    un_know_jobs: tuple[str, ...] = ()
    """Names of jobs in any other phase."""
    job_status_list: tuple[FlowJobStatus, ...] = ()
    """Details of each job."""
    conditions: dict[str, FlowCondition] = {}
    """State of each job, by its name."""
    state: FlowState = FlowState()
    """Phase of the flow."""


class JobFlow(ApiObject):
    """Jobs that are created in the order of their dependencies (flow.volcano.sh/v1alpha1)."""

    spec: JobFlowSpec = JobFlowSpec()
    """Jobs and their dependencies."""
    status: JobFlowStatus = JobFlowStatus()
    """Status of the flow and its jobs."""


class JobTemplateStatus(Model):
    """`status` of a JobTemplate: the names of Jobs made from it."""

    job_depends_on_list: tuple[str, ...] = ()
    """Names of the Jobs that were created from the template."""


class JobTemplate(ApiObject):
    """Template for Jobs of JobFlows (flow.volcano.sh/v1alpha1).

    Its spec is a Job's, with every field of the manifest.
    """

    spec: Manifest = {}
    """Specification of the Jobs that are created from the template."""
    status: JobTemplateStatus = JobTemplateStatus()
    """Jobs that were created from the template."""
