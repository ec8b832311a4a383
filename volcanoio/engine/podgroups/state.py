"""State of one PodGroup: the observed group, its live pods, and those without its annotation."""

import msgspec

from volcanoio.engine.podgroups.podgroup import is_live, names_group
from volcanoio.framework.events import Change, Observed
from volcanoio.model.core import Pod
from volcanoio.model.scheduling import PodGroup


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
    """Whether a live pod has no PodGroup annotation yet."""
    return not names_group(pod) and is_live(pod)


def fold(state: GroupState, event: Observed) -> GroupState:
    """Fold an observation; the very same state when nothing changed."""
    match event.object:
        case PodGroup() as group:
            return msgspec.structs.replace(state, group=None if event.change is Change.GONE else group)
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
    return msgspec.structs.replace(state, live_pods=live_pods, unannotated_pods=unannotated_pods, newest_pod=sample)


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
