"""`PodGroupController`: one key per PodGroup (Volcano: pkg/controllers/podgroup).

It creates, updates and deletes the PodGroup, and annotates its pods. Differences from Volcano: groups of all workloads
follow their pods and owners, not only those of ReplicaSets and StatefulSets; labels and annotations of others stay; a
group that is deleted while its pods live is created again; why a group is refused is reported on a pod; an owner counts
by API group and uid, not by kind alone.
"""

import msgspec
from msgspec.structs import replace

from volcanoio.engine.podgroups.podgroup import (
    WORKLOADS,
    annotation_problems,
    desired_content,
    group_keys,
    group_manifest,
    group_patch,
    is_live,
    names_group,
    owner_of,
    pod_keys,
    workload_of,
)
from volcanoio.framework.backoff import Backoff
from volcanoio.framework.controller import ControllerContext, Input, Reference, Rule, Step, View
from volcanoio.framework.effects import Create, Delete, Effect, Patch, Stages, StartTimer, record_event
from volcanoio.framework.events import Change, ControllerEvent, EffectFailed, EffectSucceeded, Observed, TimerFired
from volcanoio.model import kinds, names
from volcanoio.model.base import ApiObject, OwnerReference
from volcanoio.model.core import Pod
from volcanoio.model.scheduling import PodGroup
from volcanoio.model.workloads import ReplicaSet, StatefulSet

REVISION_LABEL = "controller-revision-hash"
"""Label of a StatefulSet's pod with the revision of its template."""


class GroupState(msgspec.Struct, frozen=True):
    """One group: its PodGroup, the number of live pods, and of those without the annotation.

    `newest_pod` determines the content. `failures` counts refused writes in a row; nothing is tried before `retry_at`
    (epoch seconds).
    """

    group: PodGroup | None = None
    newest_pod: Pod | None = None
    live_pods: int = 0
    unannotated_pods: int = 0
    failures: int = 0
    retry_at: float = 0.0

    @property
    def can_be_forgotten(self) -> bool:
        """Whether the state can be forgotten."""
        return self.group is None and not self.live_pods


def needs_annotation(pod: Pod) -> bool:
    """Return whether a live pod has no PodGroup annotation yet."""
    return not names_group(pod) and is_live(pod)


def fold(state: GroupState, event: Observed) -> GroupState:
    """Fold an observation; the very same state when nothing changed."""
    match event.object:
        case PodGroup() as group:
            return replace(state, group=None if event.change is Change.GONE else group)
        case Pod() as pod:
            return _fold_pod(state, pod, event)
        case _:
            return state


def _fold_pod(state: GroupState, pod: Pod, event: Observed) -> GroupState:
    there = event.change is not Change.GONE
    before = event.previous if event.change is Change.CHANGED else None if there else pod
    live_pods, unannotated_pods = state.live_pods, state.unannotated_pods
    if there:
        live_pods, unannotated_pods = live_pods + is_live(pod), unannotated_pods + needs_annotation(pod)
    if isinstance(before, Pod):
        live_pods, unannotated_pods = live_pods - is_live(before), unannotated_pods - needs_annotation(before)
    sample = _newer(state.newest_pod, pod) if there else state.newest_pod
    if live_pods == state.live_pods and unannotated_pods == state.unannotated_pods and sample is state.newest_pod:
        return state
    return replace(state, live_pods=live_pods, unannotated_pods=unannotated_pods, newest_pod=sample)


def _newer(sample: Pod | None, pod: Pod) -> Pod:
    """Return the newer of two pods; of one pod the version whose relevant fields differ."""
    if sample is None:
        return pod
    known, meta = sample.metadata, pod.metadata
    if known.uid != meta.uid:
        newer = (meta.creation_timestamp or "", meta.name) > (known.creation_timestamp or "", known.name)
        return pod if newer else sample
    same = (
        sample.spec == pod.spec
        and known.annotations == meta.annotations
        and known.labels == meta.labels
        and known.owner_references == meta.owner_references
    )
    return sample if same else pod


def plan(state: GroupState, view: View, *, inherit: bool) -> Stages:
    """Return the due stages; () when nothing is due or a write of the group is in flight."""
    if any(_is_pod_group_write(effect) for effect in view.in_flight.values()):
        return ()
    group, pod = state.group, state.newest_pod
    reference = owner_of(pod, group)
    owner = None if reference is None else _lookup_workload(reference, view)
    if isinstance(owner, ReplicaSet | StatefulSet) and owner.spec.replicas == 0:
        return () if group is None else _delete_group(group)
    if group is None:
        if pod is None or not state.live_pods or _is_owner_deleted(reference, owner):
            return ()
        owners = _owners(pod, view, inherit)
        created = Create(resource=kinds.POD_GROUP.resource, manifest=group_manifest(pod, desired_content(pod, owners)))
        events = (
            record_event(kinds.POD, pod, "InvalidAnnotation", text, type_="Warning")
            for text in annotation_problems(pod, owners)
        )
        return ((created, *events), _pending_annotations(state, view))
    if group.metadata.deletion_timestamp is not None:
        return ()
    stage: tuple[Effect, ...] = _pending_annotations(state, view)
    if pod is not None and state.live_pods and _is_current(pod, owner):
        patch = group_patch(group, desired_content(pod, _owners(pod, view, inherit)))
        stage = (Patch.of(kinds.POD_GROUP.resource, group, patch), *stage) if patch else stage
    return (stage,) if stage else ()


def annotate_pod(pod: Pod, view: View) -> Patch:
    """Return the patch that writes the PodGroup's name on a pod, which the scheduler reads."""
    content = {"metadata": {"annotations": {names.GROUP_NAME: view.key.rpartition("/")[2]}}}
    return Patch.of(kinds.POD.resource, pod, content)


def _pending_annotations(state: GroupState, view: View) -> tuple[Effect, ...]:
    """Return the patches of all pods without the annotation that are not being patched."""
    if not state.unannotated_pods:
        return ()
    events = {effect.uid for effect in view.in_flight.values() if isinstance(effect, Patch)}
    pods = (pod for pod in view.lookup.for_key(kinds.POD) if isinstance(pod, Pod) and needs_annotation(pod))
    return tuple(annotate_pod(pod, view) for pod in pods if pod.metadata.uid not in events)


def _is_pod_group_write(effect: Effect) -> bool:
    return isinstance(effect, Create | Patch | Delete) and effect.resource == kinds.POD_GROUP.resource


def _lookup_workload(reference: OwnerReference, view: View) -> ApiObject | None:
    if (kind := workload_of(reference)) is None:
        return None
    found = view.lookup.get(kind, reference.name, view.key.rpartition("/")[0])
    return found if found is not None and found.metadata.uid == reference.uid else None


def _is_owner_deleted(reference: OwnerReference | None, owner: ApiObject | None) -> bool:
    """Return whether the pods' owner is deleted, so that the pods are about to be: a group would outlive both."""
    if reference is None or workload_of(reference) is None:
        return False
    return owner is None or owner.metadata.deletion_timestamp is not None


def _is_current(pod: Pod, owner: ApiObject | None) -> bool:
    """Return whether a pod has its owner's current template, so that the group may follow it."""
    if not isinstance(owner, StatefulSet):
        return True
    return pod.metadata.labels.get(REVISION_LABEL) == owner.status.update_revision


def _owners(pod: Pod, view: View, inherit: bool) -> list[ApiObject]:
    if not inherit:
        return []
    found = (_lookup_workload(reference, view) for reference in pod.metadata.owner_references)
    return [owner for owner in found if owner is not None]


def _delete_group(group: PodGroup) -> Stages:
    is_terminating = group.metadata.deletion_timestamp is not None
    return () if is_terminating else ((Delete.of(kinds.POD_GROUP.resource, group),),)


RETRY_TIMER = "retry"
BACKOFF = Backoff(base=1.0, cap=60.0)


class PodGroupController:
    """Creates, updates and deletes the PodGroups of pods that no Volcano Job made, and annotates these pods."""

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
        """Return the empty state."""
        return GroupState()

    def reduce(self, state: GroupState, event: ControllerEvent, view: View) -> Step[GroupState]:
        """Fold one event; plan again only where it could matter, which is rare for pods' events."""
        match event:
            case Observed():
                folded = fold(state, event)
                if folded.can_be_forgotten:
                    return Step(None)
                if isinstance(event.object, Pod):
                    return self._after_pod(state, folded, event.object, view)
            case EffectFailed():
                return _write_failed(state, event, view)
            case EffectSucceeded():
                folded = replace(state, failures=0) if state.failures else state
                if isinstance(event.object, Pod):  # one more annotated pod: nothing else follows
                    return Step(folded)
            case TimerFired():
                folded = replace(state, retry_at=0.0)
            case _:
                folded = state
        return self._plan(folded, view)

    def _after_pod(self, state: GroupState, folded: GroupState, pod: Pod, view: View) -> Step[GroupState]:
        """Annotate a new pod of an existing group; plan only when the group may have to change."""
        group = folded.group
        if folded is state:
            return Step(state)
        if group is None or (
            folded.newest_pod is not state.newest_pod and folded.unannotated_pods <= state.unannotated_pods
        ):
            return self._plan(folded, view)
        annotations: Stages = ()
        if (
            folded.unannotated_pods > state.unannotated_pods
            and group.metadata.deletion_timestamp is None
            and not _must_wait(folded, view)
        ):
            annotations = ((annotate_pod(pod, view),),)
        return Step(folded, annotations)

    def _plan(self, state: GroupState, view: View) -> Step[GroupState]:
        if _must_wait(state, view):
            return Step(state)
        return Step(state, plan(state, view, inherit=self._inherit))


def _must_wait(state: GroupState, view: View) -> bool:
    return not view.synced or view.now < state.retry_at


def _write_failed(state: GroupState, event: EffectFailed, view: View) -> Step[GroupState]:
    """Retry with growing delays, and record an Event on a pod, except for conflicts."""
    failures = state.failures + 1
    due = view.now + BACKOFF.delay(failures)
    stages: Stages = ((StartTimer(name=RETRY_TIMER, due=due),),)
    if (pod := state.newest_pod) is not None and event.code not in (0, 404, 409):
        message = f"PodGroup {view.key.rpartition('/')[2]}: {event.message}"
        stages = ((record_event(kinds.POD, pod, "FailedCreate", message, type_="Warning"), *stages[0]),)
    return Step(replace(state, failures=failures, retry_at=due), stages)
