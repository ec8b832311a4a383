"""Plugin extender: decisions that an HTTP server takes part in, and decisions when it does not answer."""

from __future__ import annotations

from typing import Any

import pytest
from volcanoio_plugins.scheduling.extender import Extender

from tests.scenario.scheduling.extender_server import AnsweredWorld, ExtenderScenario, Server, down, only
from tests.scenario.scheduling.harness import group, node, pod, pods, priority_class, scenarios
from tests.state_dump import state_dump
from volcanoio.framework.arguments import ArgumentError
from volcanoio.framework.scheduling_effects import Evict
from volcanoio.framework.scheduling_events import CycleOpened

NODES = (node("n1"), node("n2"))
ONE = (group("g", 1), pod("p", "g", cpu="1"))
FIVE = [each for at in range(5) for each in (group(f"g{at}", 1), pod(f"p{at}", f"g{at}", cpu=str(at + 1)))]
PREDICATE = "extender.predicateVerb: predicate"
PRIORITIZE = "extender.prioritizeVerb: rank"
IGNORABLE = "\n      extender.ignorable: true"
MANAGES_FPGAS = "\n      extender.managedResources: [{name: example.com/fpga}]"


@scenarios(
    ExtenderScenario(
        name="a task is placed on n1 if the extender allows only that node, after one round of requests",
        cluster=[*NODES, *ONE],
        arguments=PREDICATE,
        server=only("n1"),
        binds={"p": "n1"},
        rounds=2,
    ),
    ExtenderScenario(
        name="a task is placed on n2 if the extender allows only that node, after one round of requests",
        cluster=[*NODES, *ONE],
        arguments=PREDICATE,
        server=only("n2"),
        binds={"p": "n2"},
        rounds=2,
    ),
    ExtenderScenario(
        name="the message of the extender is the fit error",
        cluster=[*NODES, *ONE],
        arguments=PREDICATE,
        server=only("n3"),
        fit_errors={"g": "0/2 nodes are unavailable: 2 not this one."},
    ),
    ExtenderScenario(
        name="all waiting tasks are sent in one round",
        cluster=[node("n1", cpu="20"), *FIVE],
        arguments=PREDICATE,
        server=only("n1"),
        binds={f"p{at}": "n1" for at in range(5)},
        rounds=2,
        asked=["predicate"] * 5,
    ),
    ExtenderScenario(
        name="equal pods share a request",
        cluster=[*NODES, group("g", 3), *pods("p", 3, "g", cpu="1")],
        arguments=PREDICATE,
        server=only("n2"),
        binds={"p-0": "n2", "p-1": "n2", "p-2": "n2"},
        asked=["predicate"] * 2,
    ),
    ExtenderScenario(
        name="scores of the extender are added unchanged",
        cluster=[*NODES, *ONE],
        arguments=PRIORITIZE,
        server=lambda *_: {"nodeScore": {"n1": 1, "n2": 7.5}},
        binds={"p": "n2"},
        asked=["rank"],
    ),
    ExtenderScenario(
        name="a task is not placed if predicate fails",
        cluster=[*NODES, *ONE],
        arguments=PREDICATE,
        server=down,
    ),
    ExtenderScenario(
        name="an ignorable extender is skipped if predicate fails",
        cluster=[*NODES, *ONE],
        arguments=PREDICATE + IGNORABLE,
        server=down,
        bind_order=["p"],
    ),
    ExtenderScenario(
        name="a task is not placed if prioritize fails",
        cluster=[*NODES, *ONE],
        arguments=PRIORITIZE,
        server=down,
    ),
    ExtenderScenario(
        name="an ignorable extender is skipped if prioritize fails",
        cluster=[*NODES, *ONE],
        arguments=PRIORITIZE + IGNORABLE,
        server=down,
        bind_order=["p"],
    ),
    ExtenderScenario(
        name="pods without managed resources are not sent",
        cluster=[*NODES, *ONE],
        arguments=PREDICATE + MANAGES_FPGAS,
        server=down,
        bind_order=["p"],
        asked=[],
    ),
)
def test_placement_with_an_extender(scenario: ExtenderScenario) -> None:
    scenario.check()


def test_the_extender_votes_on_enqueueing_jobs() -> None:
    waiting = (group("g", 1, minResources={"cpu": "1"}), pod("p", "g", cpu="1"))
    arguments = "extender.jobEnqueueableVerb: admit\n      extender.jobEnqueuedVerb: admitted"
    for status, phase in ((-1, "Pending"), (0, "Inqueue"), (1, "Inqueue")):

        def server(_verb: str, _body: Any, vote: int = status) -> Any:
            return {"status": vote}

        world = AnsweredWorld(*NODES, *waiting, arguments=arguments, server=server).run_until_answered()
        assert world.phase("g") == phase
        assert [notification.url for notification in world.notifications] == ["http://extender/admitted"] * (
            phase == "Inqueue"
        )
    assert (
        AnsweredWorld(*NODES, *waiting, arguments=arguments, server=down).run_until_answered().phase("g") == "Pending"
    )


def test_no_job_of_a_queue_that_the_extender_calls_overused_is_placed() -> None:
    arguments = "extender.queueOverusedVerb: overused"
    for overused in (True, False):

        def server(_verb: str, body: Any, answer: bool = overused) -> Any:
            return {"overused": answer and body["queue"]["Name"] == "default"}

        assert (
            bool(AnsweredWorld(*NODES, *ONE, arguments=arguments, server=server).run_until_answered().binds)
            is not overused
        )


def test_the_extender_decides_when_a_job_is_ready_and_other_placements_are_undone() -> None:
    gang = (group("g", 2), *pods("p", 3, "g", cpu="1"))
    arguments = "extender.jobReadyVerb: ready"

    def ready_from(number: int) -> Server:
        return lambda _verb, body: {
            "status": sum(bool(task["NodeName"]) for task in body["job"]["Tasks"].values()) >= number
        }

    assert len(AnsweredWorld(*NODES, *gang, arguments=arguments, server=ready_from(2)).run_until_answered().binds) == 3
    world = AnsweredWorld(*NODES, *gang, arguments=arguments, server=ready_from(3)).run_until_answered()
    assert sorted(map(len, world.batches)) == [3]
    world = AnsweredWorld(*NODES, *gang, arguments=arguments, server=ready_from(4)).run_until_answered()
    assert world.binds == {}
    assert world.state.ledger.columns.used("cpu").sum() == 0


def test_the_extender_chooses_victims() -> None:
    high = {"priority": 10}
    victims = [pod(f"v{at}", "low", on="n1", phase="Running", cpu="4") for at in (0, 1)]
    running = (group("low", 0, phase="Running"), *victims)
    preemptor = (group("g", 1, phase="Inqueue", priorityClassName="high"), pod("p", "g", cpu="4", spec=high))
    important = priority_class("high", 10)

    def server(_verb: str, body: Any) -> Any:
        assert body["evictor"]["Name"] == "p"
        return {"status": 1, "victims": [each for each in body["evictees"] if each["Name"] == "v1"]}

    arguments = "extender.preemptableVerb: preempt"
    world = AnsweredWorld(
        node("n1"), important, *running, *preemptor, arguments=arguments, server=server
    ).run_until_answered()
    assert [each.name for each in world.decisions if isinstance(each, Evict)] == ["v1"]
    world = AnsweredWorld(
        node("n1"), important, *running, *preemptor, arguments=arguments, server=down
    ).run_until_answered()
    assert [each for each in world.decisions if isinstance(each, Evict)] == []


def test_the_extender_is_notified_of_binds_and_sessions() -> None:
    arguments = "\n      ".join(
        f"extender.{verb}Verb: {verb}" for verb in ("onSessionOpen", "onSessionClose", "allocateFunc")
    )
    gang = (group("g", 1), pod("p", "g", cpu="1"), group("big", 2), *pods("b", 2, "big", cpu="8"))
    world = AnsweredWorld(node("n1"), *gang, arguments=arguments, server=down).run_until_answered()
    verbs = [notification.url.rpartition("/")[2] for notification in world.notifications]
    assert verbs == ["onSessionOpen", "allocateFunc", "onSessionClose"]
    assert set(world.notifications[0].body["Nodes"]) == {"n1"}
    assert world.notifications[1].body["task"]["Name"] == "p"


def test_request_bodies_have_the_field_names_of_the_go_structs() -> None:
    bodies: list[Any] = []

    def server(_verb: str, body: Any) -> Any:
        bodies.append(body)
        return {}

    old = pod("old", on="n1", phase="Running", cpu="500m", memory="1Gi")
    AnsweredWorld(
        node("n1", **{"example.com/fpga": "2"}), old, *ONE, arguments=PREDICATE, server=server
    ).run_until_answered()
    task, info = bodies[0]["task"], bodies[0]["node"]
    assert (task["Namespace"], task["Name"], task["Job"], task["Status"]) == ("ns", "p", "ns/g", 1)
    assert task["Resreq"] == {"MilliCPU": 1000.0, "Memory": 0.0, "ScalarResources": {"pods": 1.0}, "MaxTaskNum": 1}
    assert task["Pod"]["metadata"]["name"] == "p"
    assert info["Used"]["MilliCPU"] == 500.0
    assert info["Idle"]["Memory"] == 31 * 2**30
    assert info["Allocatable"]["ScalarResources"]["example.com/fpga"] == 2000.0
    assert info["Node"]["kind"] == "Node"


def test_a_cycle_with_open_requests_changes_no_task() -> None:
    gang = (group("g", 2), *pods("p", 2, "g", cpu="1"))
    world = AnsweredWorld(*NODES, *gang, arguments="extender.jobReadyVerb: ready", server=lambda *_: {"status": True})
    before = state_dump(world.state)["tasks"]
    result = world.one_cycle(CycleOpened(cycle=1, upto=0, seed=7, at=world.now, answering=True))
    assert (result.cut_action, len(result.questions)) == ("allocate", 1)
    assert world.binds == {}
    assert {uid: task["status"] for uid, task in state_dump(world.state)["tasks"].items()} == {
        uid: task["status"] for uid, task in before.items()
    }
    world.rounds = 1
    assert len(world.run_until_answered().binds) == 2


def test_in_a_cycle_that_cannot_send_requests_the_extender_does_not_object() -> None:
    verbs = ("predicate", "prioritize", "preemptable", "queueOverused", "jobEnqueueable", "jobReady")
    arguments = "\n      ".join(f"extender.{verb}Verb: {verb}" for verb in verbs)
    world = AnsweredWorld(*NODES, *ONE, arguments=arguments, server=down)
    world.cycle()
    assert set(world.binds) == {"p"}


@pytest.mark.parametrize(
    "arguments",
    [{}, {"extender.urlPrefix": "extender:80"}, {"extender.urlPrefix": "http://x", "extender.httpTimeout": 5}],
)
def test_invalid_arguments_are_rejected(arguments: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError):
        Extender(arguments)
