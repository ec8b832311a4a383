"""gangpreempt and gangreclaim: the engine evicts and pipelines the same pods on the same nodes as the oracle."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tests.oracle.compare import compare
from tests.oracle.confs import confs
from tests.oracle.contests import contested
from tests.oracle.partitions import partitioned, roled
from tests.oracle.worlds import Mix
from tests.scenario.scheduling.harness import World
from volcanoio.model.base import Manifest

EXPENDABLE = {"volcano.sh/preemptable": st.sampled_from([None, None, None, "true", "false"])}
SPARED = {"volcano.sh/preemptable": st.sampled_from([None] * 6 + ["false"])}
MIX = Mix(limits=True, job_annotations=EXPENDABLE, pod_annotations=SPARED)
OPTIONS = st.fixed_dictionaries(
    {}, optional={"allowWholeBundle": st.sampled_from([True, True, False]), "maxDomains": st.integers(-1, 2)}
)


@examples(80)
@given(
    confs(
        ("gangpreempt", "allocate, gangpreempt", "enqueue, allocate, backfill, gangpreempt", "gangpreempt, preempt"),
        always=("predicates",),
        maybe=("drf", "proportion", "nodeorder", "binpack"),
        first=("priority", "gang", "conformance"),
        gangpreempt=OPTIONS,
    ),
    roled(contested(MIX)),
)
def test_gangpreempt_evicts_as_the_oracle(conf: str, objects: list[Manifest]) -> None:
    compare(World(*objects, conf=conf), conf)


@examples(60)
@given(
    confs(
        ("gangreclaim", "allocate, gangreclaim", "gangreclaim, gangpreempt, allocate", "gangreclaim, reclaim"),
        always=("predicates",),
        maybe=("drf", "proportion", "nodeorder"),
        first=("gang", "priority"),
        gangreclaim=OPTIONS,
    ),
    roled(contested(MIX)),
)
def test_gangreclaim_evicts_as_the_oracle(conf: str, objects: list[Manifest]) -> None:
    compare(World(*objects, conf=conf), conf)


@examples(60)
@given(
    confs(
        ("gangreclaim", "allocate, gangreclaim", "gangreclaim, gangpreempt"),
        always=("predicates",),
        maybe=("priority", "conformance", "nodeorder"),
        first=("gang", "capacity"),
    ),
    contested(MIX),
)
def test_gangreclaim_with_capacity_evicts_as_the_oracle(conf: str, objects: list[Manifest]) -> None:
    compare(World(*objects, conf=conf), conf)


@examples(60)
@given(
    confs(
        ("gangpreempt", "gangreclaim", "allocate, gangreclaim, gangpreempt"),
        always=("predicates", "nodeorder"),
        maybe=("proportion", "binpack"),
        first=("priority", "gang"),
    ),
    partitioned(contested(Mix(rules=True, job_annotations=EXPENDABLE))),
)
def test_gangs_of_sub_jobs_with_pod_affinity_are_evicted_as_by_the_oracle(conf: str, objects: list[Manifest]) -> None:
    compare(World(*objects, conf=conf), conf)
