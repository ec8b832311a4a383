"""Plugin extender: engine and oracle use a server's answers in the same way, during a cycle or before it."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tests.oracle.compare import compare
from tests.oracle.confs import confs
from tests.oracle.contests import contested
from tests.oracle.services import URL, Served, Service, informed
from tests.oracle.worlds import Mix, worlds
from volcanoio.model.base import Manifest

PLACING = ("predicate", "prioritize", "jobEnqueueable", "queueOverused", "jobReady")
EVICTING = ("preemptable", "reclaimable")
USUAL = ("priority", "overcommit", "drf", "proportion", "nodeorder", "binpack")


def services(verbs: tuple[str, ...]) -> st.SearchStrategy[Service]:
    """Draw a service, whose verbs mostly answer."""
    down = st.sampled_from([frozenset[str]()] * 8 + [frozenset({verb}) for verb in verbs])
    return st.builds(Service, st.integers(0, 999), down)


def arguments(always: tuple[str, ...], maybe: tuple[str, ...]) -> st.SearchStrategy[dict[str, Any]]:
    """Verbs, each called as it is, and whose business they are."""
    more = {
        "extender.ignorable": st.booleans(),
        "extender.managedResources": st.sampled_from([[], [{"name": "cpu"}], [{"name": "cpu"}], [{"name": "memory"}]]),
    }
    return st.fixed_dictionaries(
        {"extender.urlPrefix": st.just(URL), **{f"extender.{verb}Verb": st.just(verb) for verb in always}},
        optional={**{f"extender.{verb}Verb": st.just(verb) for verb in maybe}, **more},
    )


PLACES = confs(
    ("enqueue, allocate, backfill", "allocate"),
    ("gang", "predicates", "extender"),
    USUAL,
    given={"extender": arguments((), PLACING)},
)


@examples(60)
@given(PLACES, worlds(Mix(running=True)), services(PLACING))
def test_tasks_are_placed_as_by_the_oracle(conf: str, objects: list[Manifest], service: Service) -> None:
    compare(informed(*objects, conf=conf, service=service), conf, {"service": service})


RANKS = st.fixed_dictionaries(
    {"extender.urlPrefix": st.just(URL), "extender.prioritizeVerb": st.just("prioritize")},
    optional={f"extender.{verb}Verb": st.just(verb) for verb in PLACING if verb != "prioritize"},
)


@examples(40)
@given(
    confs(
        ("enqueue, allocate",),
        ("gang", "predicates", "extender"),
        ("priority", "overcommit"),
        given={"extender": arguments(("jobEnqueueable",), ())},
    ),
    worlds(Mix()),
    services(("jobEnqueueable",)),
)
def test_jobs_are_enqueued_as_by_the_oracle(conf: str, objects: list[Manifest], service: Service) -> None:
    for each in objects:
        if each["kind"] == "PodGroup":
            each["spec"].setdefault("minResources", {"cpu": "500m"})
            each["status"]["phase"] = "Pending"
    compare(informed(*objects, conf=conf, service=service), conf, {"service": service})


@examples(40)
@given(
    confs(
        ("enqueue, allocate, backfill", "allocate"),
        ("gang", "predicates", "extender"),
        USUAL,
        given={"extender": RANKS},
    ).filter(lambda conf: '"enableNodeOrder": false' not in conf),
    worlds(Mix(running=True)),
    st.builds(Service, st.integers(0, 999), fine=st.just(True)),
)
def test_cycles_that_wait_for_answers_decide_as_the_oracle(
    conf: str, objects: list[Manifest], service: Service
) -> None:
    """No two nodes are equal, because each cycle would choose another of them."""
    compare(Served(*objects, conf=conf, service=service), conf, {"service": service})


def evicting(*actions: str) -> st.SearchStrategy[str]:
    """Return configurations in which the extender chooses victims together with gang."""
    return confs(
        actions,
        ("predicates",),
        ("priority", "nodeorder"),
        first=("gang", "extender"),
        given={"extender": arguments(EVICTING, ("predicate",))},
    )


@examples(60)
@given(evicting("preempt", "allocate, preempt"), contested(Mix(limits=True)), services(EVICTING))
def test_preempt_evicts_as_the_oracle(conf: str, objects: list[Manifest], service: Service) -> None:
    compare(informed(*objects, conf=conf, service=service), conf, {"service": service})


@examples(60)
@given(evicting("reclaim", "allocate, reclaim"), contested(Mix()), services(EVICTING))
def test_reclaim_evicts_as_the_oracle(conf: str, objects: list[Manifest], service: Service) -> None:
    compare(informed(*objects, conf=conf, service=service), conf, {"service": service})
