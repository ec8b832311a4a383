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
    """What becomes of the jobs of a flow that succeeded."""

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
    """Task whose pods are asked; all tasks if empty."""
    path: str = ""
    """Path that is requested."""
    port: int = 0
    """Port of the pods."""
    http_header: HttpHeader | None = None
    """Header that is sent along."""


class TcpSocket(Model):
    """`probe.tcpSocketList[]`."""

    task_name: str = ""
    """Task whose pods are connected to; all tasks if empty."""
    port: int = 0
    """Port of the pods."""


class TaskStatusProbe(Model):
    """`probe.taskStatusList[]`: the pod phase that a task must have reached."""

    task_name: str = ""
    """Task whose pods are looked at; all tasks if empty."""
    phase: str = ""
    """Phase that the pods must have reached."""


class FlowProbe(Model):
    """`dependsOn.probe`: a target that goes on is enough once all of these hold."""

    http_get_list: tuple[HttpGet, ...] = ()
    """HTTP requests that pods of the targets must answer."""
    tcp_socket_list: tuple[TcpSocket, ...] = ()
    """Ports of the targets' pods that must accept connections."""
    task_status_list: tuple[TaskStatusProbe, ...] = ()
    """Phases that pods of the targets must have reached."""

    @property
    def empty(self) -> bool:
        """Whether there are no probes at all."""
        return not (self.http_get_list or self.tcp_socket_list or self.task_status_list)


class FlowDependsOn(Model):
    """`flows[].dependsOn`."""

    targets: tuple[str, ...] = ()
    """Names of other flows whose jobs come first."""
    probe: FlowProbe | None = None
    """What is enough instead of a completed target."""


class FlowPatch(Model):
    """`flows[].patch`: what is laid over the template's spec, as it was written."""

    job_spec: Manifest = {}
    """Fields that are laid over the template; lists of tasks, containers and the like are merged by name."""


class Flow(Model):
    """`spec.flows[]`: a job made from the JobTemplate of that name."""

    name: str = ""
    """Name of the JobTemplate that the job is made from."""
    depends_on: FlowDependsOn | None = None
    """What must have happened before the job is created."""
    patch: FlowPatch | None = None
    """How the job differs from its template."""


class JobFlowSpec(Model):
    """`spec` of a JobFlow."""

    flows: tuple[Flow, ...] = ()
    """The jobs, each made from a JobTemplate."""
    job_retain_policy: str = ""
    """Whether the jobs are kept (retain) or deleted (delete) once the flow has succeeded."""


class RunningHistory(Model):
    """`jobStatusList[].runningHistories[]`: a phase of a job and when it had it."""

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
    """How long the job has run."""
    task_status_count: dict[str, TaskState] = {}
    """Pods of the job by task and phase."""


class FlowState(Model):
    """`status.state`."""

    phase: str = ""
    """Phase of the flow."""


class JobFlowStatus(Model):
    """`status` of a JobFlow: names of its jobs by phase, and what became of each."""

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
    """What became of each job."""
    conditions: dict[str, FlowCondition] = {}
    """What is known of each job, by its name."""
    state: FlowState = FlowState()
    """Where the flow is in its life."""


class JobFlow(ApiObject):
    """Jobs that are created in an order, each when others have gone far enough (flow.volcano.sh/v1alpha1)."""

    spec: JobFlowSpec = JobFlowSpec()
    """Jobs, and what each waits for."""
    status: JobFlowStatus = JobFlowStatus()
    """What became of the flow and its jobs."""


class JobTemplateStatus(Model):
    """`status` of a JobTemplate: the names of Jobs made from it."""

    job_depends_on_list: tuple[str, ...] = ()
    """Names of the Jobs that were made from the template."""


class JobTemplate(ApiObject):
    """What Jobs of JobFlows are made from (flow.volcano.sh/v1alpha1).

    Its spec is a Job's, every field of the manifest kept.
    """

    spec: Manifest = {}
    """Specification of the Jobs that are made from the template."""
    status: JobTemplateStatus = JobTemplateStatus()
    """What was made from the template."""
