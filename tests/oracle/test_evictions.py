"""preempt (both modes) and reclaim: the engine evicts and pipelines the same pods on the same nodes as the oracle."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tests.oracle.compare import compare
from tests.oracle.confs import confs
from tests.oracle.contests import contested
from tests.oracle.worlds import Mix
from tests.scenario.scheduling.harness import World
from volcanoio.model.base import Manifest

MIX = Mix(limits=True)
PREEMPT = confs(
    ("preempt", "allocate, preempt", "enqueue, allocate, backfill, preempt", "preempt, allocate"),
    always=("predicates",),
    maybe=("drf", "proportion", "nodeorder", "binpack"),
    first=("priority", "gang", "conformance"),
)


@examples(80)
@given(PREEMPT, contested(MIX))
def test_preempt_evicts_as_the_oracle(conf: str, objects: list[Manifest]) -> None:
    compare(World(*objects, conf=conf), conf)


@examples(60)
@given(
    confs(
        ("reclaim", "allocate, reclaim", "enqueue, allocate, backfill, reclaim, preempt", "reclaim, allocate"),
        always=("predicates",),
        maybe=("drf", "proportion", "nodeorder"),
        first=("gang", "priority"),
    ),
    contested(MIX),
)
def test_reclaim_evicts_as_the_oracle(conf: str, objects: list[Manifest]) -> None:
    compare(World(*objects, conf=conf), conf)


@examples(60)
@given(
    confs(
        ("reclaim", "allocate, reclaim", "preempt, reclaim"),
        always=("predicates",),
        maybe=("priority", "conformance", "nodeorder"),
        first=("gang", "capacity"),
    ),
    contested(MIX),
)
def test_reclaim_with_capacity_evicts_as_the_oracle(conf: str, objects: list[Manifest]) -> None:
    compare(World(*objects, conf=conf), conf)


@examples(60)
@given(
    confs(
        ("preempt", "allocate, preempt", "reclaim, preempt"),
        always=("predicates", "nodeorder"),
        maybe=("proportion", "binpack", "drf"),
        first=("priority", "gang", "conformance"),
    ),
    contested(Mix(rules=True)),
)
def test_preempt_with_pod_affinity_and_ports_evicts_as_the_oracle(conf: str, objects: list[Manifest]) -> None:
    compare(World(*objects, conf=conf), conf)


def dry(**entries: dict[str, bool]) -> st.SearchStrategy[str]:
    """Return configurations of preempt by dry run."""
    return confs(
        ("preempt", "allocate, preempt"),
        always=("predicates", "nodeorder"),
        maybe=("proportion", "drf"),
        entries=entries,
        first=("priority", "gang", "conformance"),
        preempt=st.just({"enableTopologyAwarePreemption": True, "minCandidateNodesPercentage": 100}),
    )


@examples(60)
@given(dry(), contested(MIX))
def test_preempt_by_dry_run_evicts_as_the_oracle(conf: str, objects: list[Manifest]) -> None:
    compare(World(*objects, conf=conf), conf)


@examples(60)
@given(dry() | dry(predicates={"enablePreemptable": False, "enabledAllocatable": False}), contested(Mix(rules=True)))
def test_preempt_by_dry_run_with_pod_affinity_and_ports_evicts_as_the_oracle(
    conf: str, objects: list[Manifest]
) -> None:
    compare(World(*objects, conf=conf), conf)
