"""flow.volcano.sh/v1alpha1 JobFlow and JobTemplate."""

from __future__ import annotations

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
    value: str = ""


class HttpGet(Model):
    """`probe.httpGetList[]`."""

    task_name: str = ""
    path: str = ""
    port: int = 0
    http_header: HttpHeader | None = None


class TcpSocket(Model):
    """`probe.tcpSocketList[]`."""

    task_name: str = ""
    port: int = 0


class TaskStatusProbe(Model):
    """`probe.taskStatusList[]`: the pod phase that a task must have reached."""

    task_name: str = ""
    phase: str = ""


class FlowProbe(Model):
    """`dependsOn.probe`: a target that goes on is enough once all of these hold."""

    http_get_list: tuple[HttpGet, ...] = ()
    tcp_socket_list: tuple[TcpSocket, ...] = ()
    task_status_list: tuple[TaskStatusProbe, ...] = ()

    @property
    def empty(self) -> bool:
        """Whether it asks for nothing."""
        return not (self.http_get_list or self.tcp_socket_list or self.task_status_list)


class FlowDependsOn(Model):
    """`flows[].dependsOn`."""

    targets: tuple[str, ...] = ()
    probe: FlowProbe | None = None


class FlowPatch(Model):
    """`flows[].patch`: what is laid over the template's spec, as it was written."""

    job_spec: Manifest = {}


class Flow(Model):
    """`spec.flows[]`: a job made from the JobTemplate of that name."""

    name: str = ""
    depends_on: FlowDependsOn | None = None
    patch: FlowPatch | None = None


class JobFlowSpec(Model):
    """`spec` of a JobFlow."""

    flows: tuple[Flow, ...] = ()
    job_retain_policy: str = ""


class RunningHistory(Model):
    """`jobStatusList[].runningHistories[]`: a phase of a job and when it had it."""

    start_timestamp: str | None = None
    end_timestamp: str | None = None
    state: str = ""


class FlowJobStatus(Model):
    """`status.jobStatusList[]`."""

    name: str = ""
    state: str = ""
    start_timestamp: str | None = None
    end_timestamp: str | None = None
    restart_count: int = 0
    running_histories: tuple[RunningHistory, ...] = ()


class FlowCondition(Model):
    """`status.conditions[job]`."""

    phase: str = ""
    create_time: str | None = None
    running_duration: str | None = None
    task_status_count: dict[str, TaskState] = {}


class FlowState(Model):
    """`status.state`."""

    phase: str = ""


class JobFlowStatus(Model):
    """`status` of a JobFlow: names of its jobs by phase, and what became of each."""

    pending_jobs: tuple[str, ...] = ()
    running_jobs: tuple[str, ...] = ()
    failed_jobs: tuple[str, ...] = ()
    completed_jobs: tuple[str, ...] = ()
    terminated_jobs: tuple[str, ...] = ()
    un_know_jobs: tuple[str, ...] = ()
    job_status_list: tuple[FlowJobStatus, ...] = ()
    conditions: dict[str, FlowCondition] = {}
    state: FlowState = FlowState()


class JobFlow(ApiObject):
    """flow.volcano.sh/v1alpha1 JobFlow."""

    spec: JobFlowSpec = JobFlowSpec()
    status: JobFlowStatus = JobFlowStatus()


class JobTemplateStatus(Model):
    """`status` of a JobTemplate: the names of Jobs made from it."""

    job_depends_on_list: tuple[str, ...] = ()


class JobTemplate(ApiObject):
    """flow.volcano.sh/v1alpha1 JobTemplate; its spec is a Job's, every field of the manifest kept."""

    spec: Manifest = {}
    status: JobTemplateStatus = JobTemplateStatus()
