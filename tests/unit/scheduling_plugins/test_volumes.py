"""Candidate volumes of a claim: counts by node and the best choice equal a search over all volumes and nodes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from volcanoio_plugins.scheduling.kubernetes.nodeindex import NodeIndex
from volcanoio_plugins.scheduling.kubernetes.volumecandidates import CandidateVolumes, ReachableNodes, matches

from tests.unit.scheduling_plugins.nodeviews import NodesView, make_node
from volcanoio.framework.scheduling.views import VolumeClaim
from volcanoio.model.base import ObjectMeta
from volcanoio.model.core import NodeSelector, NodeSelectorTerm, Requirement
from volcanoio.model.storage import PersistentVolume, VolumeNodeAffinity, VolumeSpec, VolumeStatus

HOST, ZONE = "kubernetes.io/hostname", "zone"
ZONES = st.sampled_from(["a", "b", "c"])
TERMS = st.one_of(
    st.none(),
    st.builds(lambda number: (requirement(HOST, f"n{number}"),), st.integers(0, 6)),
    st.builds(lambda zones: (requirement(ZONE, *sorted(zones)),), st.sets(ZONES, min_size=1)),
    st.builds(
        lambda number, zone: (requirement(HOST, f"n{number}"), requirement(ZONE, zone)), st.integers(0, 6), ZONES
    ),
)


def requirement(key: str, *values: str) -> NodeSelectorTerm:
    return NodeSelectorTerm(match_expressions=(Requirement(key=key, operator="In", values=values),))


def provisionable(name: str, size: int, terms: tuple[NodeSelectorTerm, ...] | None) -> PersistentVolume:
    affinity = None if terms is None else VolumeNodeAffinity(required=NodeSelector(node_selector_terms=terms))
    spec = VolumeSpec(
        capacity={"storage": f"{size}Gi"},
        access_modes=("ReadWriteOnce",),
        storage_class_name="sc",
        node_affinity=affinity,
    )
    return PersistentVolume(metadata=ObjectMeta(name=name), spec=spec, status=VolumeStatus(phase="Available"))


class Taken:
    """Volumes that are planned, one change after the other; every third time another session begins."""

    def __init__(self) -> None:
        self.planned: set[str] = set()
        self.changes: list[tuple[str, int]] = []
        self.session = 0
        self._times = 0

    def become(self, planned: set[str]) -> None:
        self._times += 1
        if self._times % 3 == 0:
            self.changes.clear()
            self.session += 1
        else:
            self.changes += [(name, 1) for name in planned - self.planned] + [
                (name, -1) for name in self.planned - planned
            ]
        self.planned = planned

    def update(self) -> None:
        pass


@given(
    zones=st.lists(ZONES, min_size=1, max_size=6),
    volumes=st.lists(st.tuples(st.integers(1, 3), TERMS), max_size=8),
    takings=st.lists(st.sets(st.integers(0, 7)), max_size=4),
)
def test_candidates_equal_a_search_over_all_volumes(
    zones: list[str],
    volumes: list[tuple[int, tuple[NodeSelectorTerm, ...] | None]],
    takings: list[set[int]],
) -> None:
    nodes = NodesView([make_node(f"n{at}", {HOST: f"n{at}", ZONE: zone}) for at, zone in enumerate(zones)])
    index = NodeIndex().over(nodes)
    offered = [provisionable(f"v{at}", size, terms) for at, (size, terms) in enumerate(volumes)]
    candidates = CandidateVolumes(offered[1:], ReachableNodes(index), len(nodes))
    for each in offered[:1]:
        candidates.add(each)
    if offered:  # and one that was there for a while
        candidates.add(provisionable("old", 1, volumes[0][1]))
        candidates.remove("old")
        candidates.remove("old")

    def reaches(row: int, terms: tuple[NodeSelectorTerm, ...] | None) -> bool:
        labels = {HOST: f"n{row}", ZONE: zones[row]}
        return terms is None or any(
            all(labels[each.key] in each.values for each in term.match_expressions) for term in terms
        )

    plans = Taken()
    for numbers in [set[int](), *takings]:
        planned = {f"v{number}" for number in numbers}
        plans.become(planned)
        counts = candidates.without(plans)
        for row in range(len(nodes)):
            there = [
                (size, f"v{at}")
                for at, (size, terms) in enumerate(volumes)
                if at not in numbers and reaches(row, terms)
            ]
            assert counts[row] == len(there)
            assert candidates.best(row, planned) == (min(there)[1] if there else "")


def test_an_empty_selector_selects_every_volume() -> None:
    wanted = VolumeClaim(
        storage_class="sc", access_modes=("ReadWriteOnce",), volume_mode="Filesystem", size=1, selector=()
    )
    assert matches(provisionable("v", 1, None), wanted)
