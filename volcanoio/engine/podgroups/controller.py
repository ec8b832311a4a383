"""`PodGroupController`: one key a PodGroup (Volcano: pkg/controllers/podgroup).

Differences from Volcano: groups of all workloads follow their pods and owners, not only those of ReplicaSets and
StatefulSets; what others put on a group stays; a group that is deleted while its pods live comes back; why a group is
refused is told on a pod; an owner counts by API group and uid, not by kind alone.
"""

from __future__ import annotations

from msgspec.structs import replace

from volcanoio.engine.podgroups.membership import WORKLOADS, group_keys, pod_keys
from volcanoio.engine.podgroups.plan import mark, plan
from volcanoio.engine.podgroups.state import GroupState, observed
from volcanoio.framework.controller import ControllerContext, Input, Reference, Rule, Step, View
from volcanoio.framework.effects import Stages, StartTimer
from volcanoio.framework.events import ControllerEvent, EffectFailed, EffectSucceeded, Observed, TimerFired
from volcanoio.framework.operators import event as told
from volcanoio.model import kinds
from volcanoio.model.core import Pod

RETRY = "retry"
LONGEST_BACKOFF = 60.0
"""Seconds."""


class PodGroupController:
    """Makes, follows and removes the PodGroups of pods that no Volcano Job made, and marks these pods."""

    name = "pg-controller"
    references = tuple(Reference(kind) for kind in WORKLOADS.values())
    rules = (
        Rule(kinds.POD_GROUP.group, ("podgroups",), ("get", "list", "watch", "create", "patch", "delete")),
        Rule("", ("pods",), ("get", "list", "watch", "patch")),
        Rule("", ("pods/finalizers",), ("update",)),
        Rule("apps", ("daemonsets", "replicasets", "statefulsets"), ("get", "list", "watch")),
        Rule("apps", ("daemonsets/finalizers", "replicasets/finalizers", "statefulsets/finalizers"), ("update",)),
        Rule("batch", ("jobs",), ("get", "list", "watch")),
        Rule("batch", ("jobs/finalizers",), ("update",)),
        Rule("", ("events",), ("create", "patch")),
    )

    def __init__(self, context: ControllerContext) -> None:
        self._inherit = context.inherit_owner_annotations
        self.inputs = (Input(kinds.POD_GROUP, group_keys), Input(kinds.POD, pod_keys(context.scheduler_names)))

    def start(self, key: str) -> GroupState:  # noqa: ARG002 - the same for every key
        """Nothing is known."""
        return GroupState()

    def reduce(self, state: GroupState, event: ControllerEvent, view: View) -> Step[GroupState]:
        """Fold one event; plan anew where it could matter, which for most pods' events it does not."""
        match event:
            case Observed():
                folded = observed(state, event)
                if folded.forgettable:
                    return Step(None)
                if isinstance(event.object, Pod):
                    return self._after_pod(state, folded, event.object, view)
            case EffectFailed():
                return _refused(state, event, view)
            case EffectSucceeded():
                folded = replace(state, failures=0) if state.failures else state
                if isinstance(event.object, Pod):  # one mark more: there is nothing else to do about it
                    return Step(folded)
            case TimerFired():
                folded = replace(state, retry_at=0.0)
            case _:
                folded = state
        return self._planned(folded, view)

    def _after_pod(self, state: GroupState, folded: GroupState, pod: Pod, view: View) -> Step[GroupState]:
        """Where the group is there, one more pod is one more mark; what is no news of the group asks for no plan."""
        group = folded.group
        if folded is state:
            return Step(state)
        if group is None or (folded.sample is not state.sample and folded.unmarked <= state.unmarked):
            return self._planned(folded, view)
        marks: Stages = ()
        if folded.unmarked > state.unmarked and group.metadata.deletion_timestamp is None and not _waits(folded, view):
            marks = ((mark(pod, view),),)
        return Step(folded, marks)

    def _planned(self, state: GroupState, view: View) -> Step[GroupState]:
        if _waits(state, view):
            return Step(state)
        return Step(state, plan(state, view, inherit=self._inherit))


def _waits(state: GroupState, view: View) -> bool:
    return not view.synced or view.now < state.retry_at


def _refused(state: GroupState, event: EffectFailed, view: View) -> Step[GroupState]:
    """Later and later, and told on a pod unless it was but overtaken."""
    failures = state.failures + 1
    due = view.now + min(2.0 ** (failures - 1), LONGEST_BACKOFF)
    stages: Stages = ((StartTimer(name=RETRY, due=due),),)
    pod = state.sample
    if pod is not None and event.code not in (0, 404, 409):
        message = f"PodGroup {view.key.rpartition('/')[2]}: {event.message}"
        stages = ((told(kinds.POD, pod, "FailedCreate", message, type_="Warning"), *stages[0]),)
    return Step(replace(state, failures=failures, retry_at=due), stages)
