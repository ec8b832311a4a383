"""What the PodGroup controller knows about one group, and how it learns it."""

from __future__ import annotations

import msgspec

from volcanoio.engine.podgroups.membership import is_live, is_marked
from volcanoio.framework.events import Change, Observed
from volcanoio.model.core import Pod
from volcanoio.model.scheduling import PodGroup


class GroupState(msgspec.Struct, frozen=True):
    """One group: its PodGroup, how many `live` pods it has, and how many of these are not marked with it.

    `sample` is the newest of its pods: the content is made from it. The others are the host's to remember. `failures`
    counts writes refused in a row; nothing is tried before `retry_at` (epoch seconds), unless it is 0.
    """

    group: PodGroup | None = None
    sample: Pod | None = None
    live: int = 0
    unmarked: int = 0
    failures: int = 0
    retry_at: float = 0.0

    @property
    def forgettable(self) -> bool:
        """Whether nothing is left to remember."""
        return self.group is None and not self.live


def is_unmarked(pod: Pod) -> bool:
    """Whether a live pod does not say yet which PodGroup it is in."""
    return not is_marked(pod) and is_live(pod)


def observed(state: GroupState, event: Observed) -> GroupState:
    """Fold an observation; the very state where it says nothing new."""
    match event.object:
        case PodGroup() as group:
            return msgspec.structs.replace(state, group=None if event.change is Change.GONE else group)
        case Pod() as pod:
            return _pod(state, pod, event)
        case _:
            return state


def _pod(state: GroupState, pod: Pod, event: Observed) -> GroupState:
    there = event.change is not Change.GONE
    before = event.previous if event.change is Change.CHANGED else None if there else pod
    live, unmarked = state.live, state.unmarked
    if there:
        live, unmarked = live + is_live(pod), unmarked + is_unmarked(pod)
    if isinstance(before, Pod):
        live, unmarked = live - is_live(before), unmarked - is_unmarked(before)
    sample = _newer(state.sample, pod) if there else state.sample
    if live == state.live and unmarked == state.unmarked and sample is state.sample:
        return state
    return msgspec.structs.replace(state, live=live, unmarked=unmarked, sample=sample)


def _newer(sample: Pod | None, pod: Pod) -> Pod:
    """The newer of two pods; of one pod the version that differs in what a group is made from."""
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
