"""`JobController`: the reducer of Jobs as a Controller like anyone's."""

from __future__ import annotations

from volcanoio.engine.jobs.ownership import command_keys, job_keys, owned_keys, pod_keys
from volcanoio.engine.jobs.plugins import SUPPORT_KINDS, PluginSets
from volcanoio.engine.jobs.reducer import reduce_job
from volcanoio.engine.jobs.state import JobState
from volcanoio.framework.controller import ControllerContext, Input, Reference, Rule, Step, View
from volcanoio.framework.events import ControllerEvent
from volcanoio.model import kinds, names
from volcanoio.model.base import ApiObject
from volcanoio.model.kinds import Kind

NAME = "job-controller"


def _metadata_only(kind: Kind) -> Kind:
    """A kind whose content is not even decoded."""
    return Kind(kind.group, kind.version, kind.kind, kind.plural, ApiObject, kind.namespaced, kind.status_subresource)


_INPUTS = (
    Input(kinds.JOB, job_keys),
    Input(kinds.POD, pod_keys, label_selector=names.JOB_NAME),
    Input(kinds.POD_GROUP, owned_keys),
    Input(kinds.COMMAND, command_keys),
    *(
        Input(_metadata_only(kind) if kind is kinds.SECRET else kind, owned_keys, label_selector=names.JOB_NAME)
        for kind in SUPPORT_KINDS
    ),
)
_REFERENCES = (
    Reference(kinds.QUEUE),
    Reference(kinds.PRIORITY_CLASS),
    Reference(kinds.PVC),
    Reference(kinds.RESOURCE_QUOTA),
)
_RULES = (
    Rule(kinds.JOB.group, ("jobs",), ("get", "list", "watch", "patch")),
    Rule(kinds.JOB.group, ("jobs/status",), ("patch",)),
    Rule(kinds.JOB.group, ("jobs/finalizers",), ("update",)),
    Rule(kinds.COMMAND.group, ("commands",), ("get", "list", "watch", "delete")),
    Rule(kinds.POD_GROUP.group, ("podgroups",), ("get", "list", "watch", "create", "patch", "delete")),
    Rule(kinds.QUEUE.group, ("queues",), ("get", "list", "watch")),
    Rule("", ("pods",), ("get", "list", "watch", "create", "patch", "delete")),
    Rule("", ("persistentvolumeclaims",), ("get", "list", "watch", "create")),
    Rule("", ("resourcequotas",), ("get", "list", "watch")),
    Rule("", ("configmaps",), ("get", "list", "watch", "create", "patch", "delete")),
    Rule("", ("services", "secrets"), ("get", "list", "watch", "create", "patch", "delete")),
    Rule("", ("events",), ("create", "patch")),
    Rule(kinds.NETWORK_POLICY.group, ("networkpolicies",), ("get", "list", "watch", "create", "patch", "delete")),
    Rule(kinds.PRIORITY_CLASS.group, ("priorityclasses",), ("get", "list", "watch")),
)


class JobController:
    """Volcano's job controller as a pure reducer."""

    name = NAME
    inputs = _INPUTS
    references = _REFERENCES
    rules = _RULES

    def __init__(self, context: ControllerContext) -> None:
        self._plugins = PluginSets(dict(context.job_plugins))

    def start(self, key: str) -> JobState:  # noqa: ARG002 - the same for every key
        """Nothing is known."""
        return JobState()

    def reduce(self, state: JobState, event: ControllerEvent, view: View) -> Step[JobState]:
        """Fold one event of one job; see `volcanoio.engine.jobs.reducer`."""
        return reduce_job(state, event, view, self._plugins)
