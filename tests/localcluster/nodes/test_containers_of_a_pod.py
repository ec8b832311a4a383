"""What a kubelet does with containers beyond their plain run: probes, hooks, sidecars, back-off, pulls, rules."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.localcluster.nodes.pod_phases import seen, watched
from tests.localcluster.nodes.pods import T0, pod, run_of
from volcanoio.localcluster.nodes.pod_events import pod_events
from volcanoio.localcluster.nodes.pods import lifecycle
from volcanoio.localcluster.nodes.pods.behaviour import Plan
from volcanoio.localcluster.nodes.pods.containers import back_off, end_as_planned
from volcanoio.localcluster.nodes.pods.lifecycle import advance
from volcanoio.localcluster.nodes.pods.podrun import PodRun
from volcanoio.localcluster.nodes.pods.status import status_of
from volcanoio.model import names
from volcanoio.model.core import Condition

NEVER = {names.RUN_DURATION: "never"}
PROBE = {"httpGet": {"port": 80}, "initialDelaySeconds": 5}
SIDECAR = {"name": "proxy", "image": "i", "restartPolicy": "Always"}


def ready(run: PodRun) -> dict[str, tuple[str, str]]:
    """Status and reason of the readiness conditions."""
    conditions = {c["type"]: (c["status"], c.get("reason", "")) for c in status_of(run)["conditions"]}
    return {kind: conditions[kind] for kind in ("Ready", "ContainersReady")}


def reported(run: PodRun, *moments: float) -> list[str]:
    """Return the reasons of the Events up to the last of the moments."""
    reasons = [h.reason for h in pod_events(None, run)]
    for moment in moments:
        after = advance(run, T0 + moment)
        reasons += [h.reason for h in pod_events(run, after)]
        run = after
    return reasons


def test_a_container_is_ready_when_its_probe_first_passes() -> None:
    run = run_of(pod(annotations=NEVER, container={"readinessProbe": PROBE}))
    early, late = advance(run, T0 + 5), advance(run, T0 + 5.3)
    assert ready(early)["Ready"] == ("False", "ContainersNotReady")
    assert ready(late)["Ready"] == ("True", "")
    assert "containers with unready status: [main]" in str(status_of(early)["conditions"])
    ready_condition = next(c for c in status_of(late)["conditions"] if c["type"] == "Ready")
    assert ready_condition["lastTransitionTime"] == "2027-01-15T08:00:05Z"


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [("fail", [False, False]), ("ok-after(20s)", [False, True]), ("fail-after(10s)", [True, False])],
)
def test_readiness_goes_as_annotated(annotation: str, expected: list[bool]) -> None:
    run = run_of(pod(annotations={**NEVER, names.READINESS_PROBE: annotation}, container={"readinessProbe": PROBE}))
    assert [advance(run, T0 + moment).containers[0].ready for moment in (8, 60)] == expected


def test_a_container_that_fails_its_liveness_probe_is_restarted() -> None:
    annotations = {**NEVER, names.LIVENESS_PROBE: "fail-after(10s)", names.STOP_DURATION: "1s"}
    run = run_of(pod(annotations=annotations, container={"livenessProbe": PROBE}, restartPolicy="Always"))
    assert watched(run, 30.1, 31.3) == ["Running running", "Running running#1"]
    assert reported(run, 1, 30.3, 31.3)[3:] == ["Unhealthy", "Killing", "Pulled", "Created", "Started"]


def test_a_startup_probe_that_never_passes_kills_after_its_threshold() -> None:
    probe = {"httpGet": {"port": 80}, "periodSeconds": 2, "failureThreshold": 4}
    annotations = {**NEVER, names.STARTUP_PROBE: "fail"}
    run = run_of(pod(annotations=annotations, container={"startupProbe": probe}))
    assert watched(run, 6.1, 6.4) == ["Running running", "Failed terminated:143"]
    assert not advance(run, T0 + 6).containers[0].up


def test_readiness_gates_wait_for_others() -> None:
    gated = pod(annotations=NEVER, readinessGates=[{"conditionType": "example.com/ready"}])
    run = advance(run_of(gated), T0 + 1)
    assert ready(run) == {"Ready": ("False", "ReadinessGatesNotReady"), "ContainersReady": ("True", "")}
    condition = Condition(type="example.com/ready", status="True")
    opened = msgspec.structs.replace(gated, status=msgspec.structs.replace(gated.status, conditions=(condition,)))
    assert ready(msgspec.structs.replace(run, pod=opened))["Ready"] == ("True", "")


def test_sidecars_start_before_and_end_after_the_others_the_last_first() -> None:
    inits = [{**SIDECAR, "name": "first"}, {"name": "step", "image": "i"}, {**SIDECAR, "name": "second"}]
    run = run_of(pod(initContainers=inits, annotations={names.STOP_DURATION: "1s"}))
    begun = advance(run, T0 + 1)
    starts = [c.started_at for c in begun.containers]
    assert starts == sorted(starts)
    assert watched(run, 4.4, 5.4, 6.4) == [
        "Running running terminated:0 running terminated:0",
        "Running running terminated:0 terminated:143 terminated:0",
        "Succeeded terminated:143 terminated:0 terminated:143 terminated:0",
    ]


def test_a_sidecar_that_is_not_started_holds_the_others() -> None:
    slow = {**SIDECAR, "startupProbe": PROBE}
    run = run_of(pod(initContainers=[slow], annotations=NEVER))
    assert watched(run, 5, 5.4) == [
        "Pending running waiting:PodInitializing",
        "Running running running",
    ]


def test_a_pre_stop_hook_is_waited_for_within_the_grace_period() -> None:
    lifecycle_ = {"lifecycle": {"preStop": {"sleep": {"seconds": 5}}}}
    run = advance(run_of(pod(annotations=NEVER, container=lifecycle_)), T0 + 1)
    patient = lifecycle.terminate(run, T0 + 1, 30)
    assert watched(patient, 6.0, 6.2) == ["Running running", "Failed terminated:143"]
    hurried = lifecycle.terminate(run, T0 + 1, 3)
    assert watched(hurried, 4.0, 4.2) == ["Running running", "Failed terminated:143"]


def test_a_second_deletion_can_only_hurry() -> None:
    annotations = {**NEVER, names.STOP_DURATION: "1h"}
    run = lifecycle.terminate(advance(run_of(pod(annotations=annotations)), T0 + 1), T0 + 1, 30)
    assert watched(lifecycle.terminate(run, T0 + 2, 60), 30.9, 31.1) == ["Running running", "Failed terminated:137"]
    assert watched(lifecycle.terminate(run, T0 + 2, 3), 4.9, 5.1) == ["Running running", "Failed terminated:137"]


def test_back_off_is_forgotten_after_ten_minutes_of_running() -> None:
    run = advance(run_of(pod(annotations=NEVER, restartPolicy="Always")), T0 + 1)
    at = T0 + 1.0
    pauses = []
    for seconds in (1, 1, 1, 1, 1, 1, 1, 700, 1):
        at += seconds
        ended = crashed(run, at)
        due = ended.containers[0].due
        assert due is not None
        pauses.append(due - at)
        run = advance(ended, due)
        at = due
    assert pauses == [0, 10, 20, 40, 80, 160, 300, 0, 10]


def crashed(run: PodRun, at: float) -> PodRun:
    """The main container ends by itself now, with an error."""
    container = msgspec.structs.replace(run.containers[0], plan=Plan(0, 1, "Error"), due=at)
    ended = back_off(end_as_planned(container, at), run.full_name)
    return run.with_container(0, ended)


def test_an_image_is_tried_again_with_growing_pauses() -> None:
    run = run_of(pod(annotations={names.IMAGE_PULL: "error"}))
    states = [seen(run := advance(run, T0 + moment)).split(":")[1] for moment in (0.3, 2, 10.1, 10.3, 12, 30.1, 30.3)]
    assert states == [
        "ErrImagePull",
        "ImagePullBackOff",
        "ImagePullBackOff",
        "ErrImagePull",
        "ImagePullBackOff",
        "ImagePullBackOff",
        "ErrImagePull",
    ]


def test_an_image_that_may_not_be_pulled_is_not_tried() -> None:
    never: dict[str, Any] = {"annotations": {names.IMAGE_PULL: "error"}, "container": {"imagePullPolicy": "Never"}}
    assert watched(run_of(pod(**never)), 1, 600) == ["Pending waiting:ErrImageNeverPull"] * 2


def test_an_image_pull_is_reported_with_its_duration() -> None:
    run = run_of(pod(annotations={names.IMAGE_PULL: "slow(20s)"}))
    half, whole = advance(run, T0 + 10), advance(run, T0 + 21)
    assert [h.message for h in pod_events(run, half)] == ['Pulling image "busybox"']
    assert [h.message for h in pod_events(half, whole)] == [
        'Successfully pulled image "busybox" in 20s (20s including waiting).',
        "Container created",
        "Container started",
    ]


@pytest.mark.parametrize(
    ("container", "code", "again"),
    [
        ({"restartPolicy": "Never"}, 1, False),
        ({"restartPolicy": "OnFailure"}, 1, True),
        (
            {
                "restartPolicy": "Never",
                "restartPolicyRules": [{"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}],
            },
            42,
            True,
        ),
        (
            {
                "restartPolicy": "Never",
                "restartPolicyRules": [{"action": "Restart", "exitCodes": {"operator": "NotIn", "values": [42]}}],
            },
            42,
            False,
        ),
    ],
)
def test_a_container_has_a_restart_policy_of_its_own(container: dict[str, Any], code: int, again: bool) -> None:
    run = run_of(pod(restartPolicy="Always", container=container, annotations={names.EXIT_CODE: str(code)}))
    assert ("running#1" in watched(run, 5)[0]) is again


def test_too_much_on_the_disk_is_an_eviction() -> None:
    limits = {"resources": {"limits": {"ephemeral-storage": "1Gi"}}}
    run = run_of(pod(annotations={names.PEAK_STORAGE: "2Gi"}, container=limits, restartPolicy="OnFailure"))
    assert watched(run, 2.1, 2.3) == ["Running running", "Failed terminated:137 Evicted"]
    status = status_of(advance(run, T0 + 3))
    assert status["message"] == 'Container main exceeded its local ephemeral storage limit "1Gi". '
    target = next(c for c in status["conditions"] if c["type"] == "DisruptionTarget")
    assert (target["status"], target["reason"]) == ("True", "TerminationByKubelet")


def test_kwok_annotations_select_the_failing_container() -> None:
    label = names.KWOK_FAILED
    annotations = {
        f"{label}/container-name": "b", f"{label}/exit-code": "7", f"{label}/reason": "Lost",
        f"{label}/message": "gone", f"{label}/delay": "2s",
    }  # fmt: skip
    subject = pod(annotations=annotations, containers=[{"name": "a", "image": "i"}, {"name": "b", "image": "i"}])
    meta = msgspec.structs.replace(subject.metadata, labels={label: "true"})
    run = advance(run_of(msgspec.structs.replace(subject, metadata=meta)), T0 + 10)
    a, b = status_of(run)["containerStatuses"]
    assert a["state"]["terminated"]["exitCode"] == 0
    ended = b["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"], ended["message"]) == (7, "Lost", "gone")
    assert (ended["startedAt"], ended["finishedAt"]) == ("2027-01-15T08:00:00Z", "2027-01-15T08:00:02Z")


def test_a_failing_init_container_ends_a_pod_that_may_not_restart() -> None:
    label = names.KWOK_INIT_FAILED
    subject = pod(initContainers=[{"name": "init", "image": "i"}])
    meta = msgspec.structs.replace(subject.metadata, labels={label: "true"})
    run = run_of(msgspec.structs.replace(subject, metadata=meta))
    assert watched(run, 1) == ["Failed terminated:1 waiting:PodInitializing"]
