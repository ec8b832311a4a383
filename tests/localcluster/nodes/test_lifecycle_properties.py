"""Whatever happens to a pod, in whatever order, its status is one that Kubernetes allows."""

from __future__ import annotations

from typing import Any, Literal

from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tests.localcluster.nodes.pods import T0, pod, run_of
from volcanoio.localcluster.nodes.container_runtime import Exit
from volcanoio.localcluster.nodes.pod_events import pod_events
from volcanoio.localcluster.nodes.pods import lifecycle
from volcanoio.localcluster.nodes.pods.podrun import PodRun
from volcanoio.localcluster.nodes.pods.status import status_of
from volcanoio.model import names

Step = tuple[Literal["wait", "delete", "begin", "exit"], int]
PROBE = {"httpGet": {"port": 1}, "periodSeconds": 2, "failureThreshold": 2}
FINAL = ("Succeeded", "Failed")

containers = st.fixed_dictionaries(
    {"image": st.just("i")},
    optional={
        "restartPolicy": st.sampled_from(["Always", "OnFailure", "Never"]),
        "readinessProbe": st.just(PROBE),
        "livenessProbe": st.just(PROBE),
        "startupProbe": st.just(PROBE),
        "lifecycle": st.just({"preStop": {"sleep": {"seconds": 3}}, "postStart": {"sleep": {"seconds": 2}}}),
    },
)
pods = st.fixed_dictionaries(
    {
        "containers": st.lists(containers, min_size=1, max_size=3),
        "initContainers": st.lists(containers, max_size=3),
        "restartPolicy": st.sampled_from(["Always", "OnFailure", "Never"]),
        "annotations": st.fixed_dictionaries(
            {},
            optional={
                names.RUN_DURATION: st.sampled_from(["1s", "30s", "never", "uniform(1s,9s)"]),
                names.EXIT_CODE: st.sampled_from(["0", "3"]),
                names.IMAGE_PULL: st.sampled_from(["ok", "error", "slow(5s)"]),
                names.STOP_DURATION: st.sampled_from(["0s", "1s", "1h"]),
                names.LIVENESS_PROBE: st.sampled_from(["ok", "fail", "fail-after(5s)"]),
                names.READINESS_PROBE: st.sampled_from(["ok", "fail", "fail-after(5s)"]),
                names.STARTUP_PROBE: st.sampled_from(["ok", "fail", "ok-after(3s)"]),
            },
        ),
    },
    optional={"activeDeadlineSeconds": st.integers(1, 40)},
)
steps = st.lists(
    st.tuples(st.sampled_from(["wait", "wait", "wait", "delete", "begin", "exit"]), st.integers(0, 40)), max_size=25
)


def named(spec: dict[str, Any]) -> dict[str, Any]:
    """Containers get names of their own."""
    for field, letter in (("containers", "c"), ("initContainers", "i")):
        spec[field] = [{"name": f"{letter}{n}", **each} for n, each in enumerate(spec[field])]
    return spec


def check(run: PodRun, before: dict[str, Any] | None) -> dict[str, Any]:
    """The status, after checking it against the one before."""
    status = status_of(run)
    states = [*status.get("initContainerStatuses", ()), *status["containerStatuses"]]
    for container in states:
        ((kind, detail),) = container["state"].items()
        assert (kind == "running") >= container["ready"] or container["name"].startswith("i")
        assert not container["started"] or kind == "running"
        assert ("containerID" in container) == (kind != "waiting" or bool(container["lastState"]))
        if kind == "terminated":
            assert detail["startedAt"] <= detail["finishedAt"]
    if status["phase"] in FINAL:
        assert not any("running" in container["state"] for container in states)
        assert {c["status"] for c in status["conditions"] if "Ready" in c["type"]} == {"False"}
    if status["phase"] == "Succeeded":
        assert all(c["state"].get("terminated", {}).get("exitCode") == 0 for c in status["containerStatuses"])
    if before is not None:
        if before["phase"] in FINAL:
            assert status["phase"] == before["phase"]
        if before["phase"] == "Running":
            assert status["phase"] != "Pending"
        was = {c["name"]: c for c in [*before.get("initContainerStatuses", ()), *before["containerStatuses"]]}
        for container in states:
            assert container["restartCount"] >= was[container["name"]]["restartCount"]
    return status


def play(spec: dict[str, Any], moves: list[Step], external: bool) -> None:
    subject = pod(**named(spec))
    names_of = [c.name for c in (*subject.spec.init_containers, *subject.spec.containers)]
    run = run_of(subject, external=frozenset(names_of) if external else frozenset())
    status, now = check(run, None), T0
    for move, size in moves:
        old, name = run, names_of[size % len(names_of)]
        now += size / 4
        run = lifecycle.advance(run, now)
        match move:
            case "delete":
                run = lifecycle.terminate(run, now, size)
            case "begin":
                run = lifecycle.began(run, name, now)
            case "exit" if external:
                run = lifecycle.exited(run, name, now, Exit(size % 3))
        run = lifecycle.advance(run, now)
        pod_events(old, run)
        status = check(run, status)
        assert run.due is None or run.due > now


@examples(150)
@given(spec=pods, moves=steps, external=st.booleans())
def test_any_sequence_of_events_leads_to_a_legal_status(
    spec: dict[str, Any], moves: list[Step], external: bool
) -> None:
    play(spec, moves, external)
