"""What the PodGroup controller knows about one group, and how it learns it."""

from __future__ import annotations

import msgspec

from volcanoio.engine.podgroups.membership import group_name, is_live, is_marked
from volcanoio.framework.events import Change, Observed
from volcanoio.model.core import Pod
from volcanoio.model.scheduling import PodGroup


class GroupState(msgspec.Struct, frozen=True):
    """One group: its PodGroup, how many `live` pods it has, and which of these are not marked with it, name to uid.

    `sample` is the newest of its pods: the content is made from it. `failures` counts writes refused in a row; nothing
    is tried before `retry_at` (epoch seconds), unless it is 0.
    """

    group: PodGroup | None = None
    sample: Pod | None = None
    live: int = 0
    unmarked: dict[str, str] = {}
    failures: int = 0
    retry_at: float = 0.0

    @property
    def forgettable(self) -> bool:
        """Whether nothing is left to remember."""
        return self.group is None and not self.live


def observed(state: GroupState, event: Observed) -> GroupState:
    """Fold an observation."""
    match event.object:
        case PodGroup() as group:
            return msgspec.structs.replace(state, group=None if event.change is Change.GONE else group)
        case Pod() as pod:
            return _pod(state, pod, event)
        case _:
            return state


def _pod(state: GroupState, pod: Pod, event: Observed) -> GroupState:
    name, uid = pod.metadata.name, pod.metadata.uid
    before = event.previous if event.change is not Change.APPEARED else None
    if before is None and event.change is Change.GONE:
        before = pod
    live = event.change is not Change.GONE and is_live(pod)
    counted = state.live + live - (isinstance(before, Pod) and is_live(before))
    unmarked = state.unmarked
    if live and not is_marked(pod):
        if unmarked.get(name) != uid:
            unmarked = {**unmarked, name: uid}
    elif name in unmarked:
        unmarked = {other: known for other, known in unmarked.items() if other != name}
    sample = state.sample if event.change is Change.GONE else _newer(state.sample, pod)
    if counted == state.live and unmarked is state.unmarked and sample is state.sample:
        return state
    return msgspec.structs.replace(state, live=counted, unmarked=unmarked, sample=sample)


def _newer(sample: Pod | None, pod: Pod) -> Pod:
    """The newer of two pods; of one pod the version that differs in what a group is made from."""
    if sample is None:
        return pod
    if sample.metadata.uid == pod.metadata.uid:
        same = (
            sample.spec == pod.spec
            and sample.metadata.annotations == pod.metadata.annotations
            and sample.metadata.labels == pod.metadata.labels
            and sample.metadata.owner_references == pod.metadata.owner_references
        )
        return sample if same else pod
    return max(sample, pod, key=_age) if group_name(sample) == group_name(pod) else pod


def _age(pod: Pod) -> tuple[str, str]:
    return (pod.metadata.creation_timestamp or "", pod.metadata.name)
