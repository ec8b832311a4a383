"""Discovered HyperNodes against existing ones: which are created, patched and deleted.

Only HyperNodes with the label of the source are changed; those of users and of other sources are never touched.
"""

from collections.abc import Callable, Iterable, Mapping

from msgspec import Struct, to_builtins

from volcanoio.framework.effects import Create, Delete, Patch, merge_diff
from volcanoio.framework.reconciler import Stage, Write, in_slow_start
from volcanoio.model import kinds, names
from volcanoio.model.base import Manifest
from volcanoio.model.nodes import ExactMatch, HyperNode, HyperNodeSpec, Member, MemberSelector


class Desired(Struct, frozen=True, kw_only=True):
    """One HyperNode as a source describes it; `labels` are those besides the source's."""

    name: str
    tier: int
    members: tuple[Member, ...]
    tier_name: str = ""
    labels: Mapping[str, str] = {}

    @property
    def spec(self) -> HyperNodeSpec:
        """The spec of the object."""
        return HyperNodeSpec(tier=self.tier, tier_name=self.tier_name, members=self.members)


class Differences(Struct, frozen=True):
    """The writes that are due, and existing HyperNodes of others whose names are needed."""

    stages: tuple[Stage, ...]
    taken: tuple[HyperNode, ...] = ()


def exact_member(type_: str, name: str) -> Member:
    """Return a member that is selected by name."""
    return Member(type=type_, selector=MemberSelector(exact_match=ExactMatch(name=name)))


def source_of(hyper_node: HyperNode) -> str:
    """Return the source that a HyperNode was discovered from, "" for one that a user wrote."""
    return hyper_node.metadata.labels.get(names.TOPOLOGY_SOURCE, "")


def compare(
    source: str,
    desired: Iterable[Desired],
    existing: Mapping[str, HyperNode],
    is_kept: Callable[[HyperNode], bool] = lambda _: False,
) -> Differences:
    """Return how to get from existing HyperNodes (all, by name) to the desired ones of a source.

    HyperNodes of the source that are not desired are deleted after the other writes, except those that are kept.
    """
    by_name = {each.name: each for each in desired}
    writes: list[Write] = []
    taken: list[HyperNode] = []
    for each in by_name.values():
        stored = existing.get(each.name)
        if stored is None:
            writes.append(Write(Create(resource=kinds.HYPER_NODE.resource, manifest=_manifest(source, each))))
        elif source_of(stored) != source:
            taken.append(stored)
        elif patch := _patch(each, stored):
            writes.append(Write(Patch.of(kinds.HYPER_NODE.resource, stored, patch)))
    deletions = tuple(
        Write(Delete.of(kinds.HYPER_NODE.resource, stored))
        for name, stored in sorted(existing.items())
        if source_of(stored) == source
        and name not in by_name
        and stored.metadata.deletion_timestamp is None
        and not is_kept(stored)
    )
    stages = (*in_slow_start(writes), *((deletions,) if deletions else ()))
    return Differences(stages, tuple(taken))


def _manifest(source: str, desired: Desired) -> Manifest:
    return {
        "apiVersion": kinds.HYPER_NODE.api_version,
        "kind": kinds.HYPER_NODE.kind,
        "metadata": {"name": desired.name, "labels": {**desired.labels, names.TOPOLOGY_SOURCE: source}},
        "spec": to_builtins(desired.spec),
    }


def _patch(desired: Desired, stored: HyperNode) -> Manifest:
    """Return the merge patch of the labels that are missing or differ, and of the spec; {} if all is as desired."""
    patch: Manifest = {}
    labels = {key: value for key, value in desired.labels.items() if stored.metadata.labels.get(key) != value}
    if labels:
        patch["metadata"] = {"labels": labels}
    if spec := merge_diff(to_builtins(stored.spec), to_builtins(desired.spec)):
        patch["spec"] = spec
    return patch
