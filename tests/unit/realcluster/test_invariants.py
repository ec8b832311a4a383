"""The observers of the runs on a real control plane notice what they are there for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.realcluster.deployed import audit
from tests.realcluster.deployed.api import Api, Obj
from tests.realcluster.deployed.faultproxy import BINDING, Fault
from tests.realcluster.deployed.invariants import (
    DISTURBED_SECONDS,
    EXCUSED_SECONDS,
    GROUP,
    PARTIAL_SECONDS,
    Invariants,
    requests_of,
)


def _pod(name: str, node: str = "", *, cpu: str = "1", group: str = "", **status: Any) -> Obj:
    return {
        "metadata": {"namespace": "ns", "name": name, "uid": f"uid-{name}", "annotations": {GROUP: group}},
        "spec": {"nodeName": node, "containers": [{"resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}]},
        "status": {"phase": "Pending", **status},
    }


def _observing(*, minimum: int = 1) -> Invariants:
    found = Invariants(Api.__new__(Api))
    found._nodes["n"] = {"status": {"allocatable": {"cpu": "2", "memory": "4Gi", "pods": "10"}}}
    found._groups["ns", "g"] = {"spec": {"minMember": minimum}}
    return found


def test_requests_count_containers_together_and_init_containers_alone() -> None:
    pod = _pod("a", cpu="500m")
    pod["spec"]["containers"].append({"resources": {"requests": {"cpu": "0.25"}}})
    pod["spec"]["initContainers"] = [{"resources": {"requests": {"cpu": "1"}}}]
    assert {name: str(value) for name, value in requests_of(pod).items()} == {
        "pods": "1",
        "cpu": "1",
        "memory": "1073741824",
    }


def test_a_node_over_its_allocatable_is_a_violation_until_a_pod_has_ended() -> None:
    found = _observing()
    for name in ("a", "b"):
        found.observe("ADDED", _pod(name, "n"))
    found.observe("MODIFIED", _pod("a", "n", phase="Succeeded"))
    found.observe("ADDED", _pod("c", "n"))
    assert found.violations == []
    found.observe("ADDED", _pod("d", "n"))
    assert ["node n has 3 of cpu booked, over 2 allocatable" in one for one in found.violations] == [True]


def test_a_pod_that_moves_is_a_violation() -> None:
    found = _observing()
    found.observe("ADDED", _pod("a", "n"))
    found.observe("MODIFIED", _pod("a", "m"))
    assert "moved from node n to m" in found.violations[0]


def test_a_gang_bound_in_part_is_a_violation_after_its_time_unless_a_bind_was_refused() -> None:
    for refused in (False, True):
        found = _observing(minimum=2)
        for name in ("a", "b"):
            found.observe("ADDED", _pod(name, group="g"))
        found.observe("MODIFIED", _pod("a", "n", group="g"))
        begun = found._episodes["ns", "g"].begun
        if refused:
            found.refused("ns", "b")
        found.check_gangs(begun + PARTIAL_SECONDS - 1)
        assert found.violations == []
        found.check_gangs(begun + PARTIAL_SECONDS + 1)
        assert [("gang ns/g has 1 of 2 bound" in one) for one in found.violations] == [True] * (not refused)


def test_a_gang_that_a_fault_struck_may_take_longer_and_must_be_completed() -> None:
    def halves(*, refused_first: bool) -> Invariants:
        found = _observing(minimum=2)
        if refused_first:  # the proxy may strike before the watch shows the pod
            found.refused("ns", "b")
        for name in ("a", "b"):
            found.observe("ADDED", _pod(name, group="g"))
        if not refused_first:
            found.disturbed()
        found.observe("MODIFIED", _pod("a", "n", group="g"))
        return found

    for refused_first, waits in ((True, 0.0), (False, DISTURBED_SECONDS)):
        found = halves(refused_first=refused_first)
        begun = found._episodes["ns", "g"].begun
        found.check_gangs(begun + waits + EXCUSED_SECONDS - 1)
        assert found.violations == []
        found.check_gangs(begun + waits + EXCUSED_SECONDS + 1)
        found.check_gangs(begun + waits + EXCUSED_SECONDS + 2)
        assert len(found.violations) == 1
    found = halves(refused_first=True)
    found.observe("MODIFIED", _pod("b", "n", group="g"))
    assert [name for name, _ in found.partials] == ["ns/g"]


def test_a_whole_gang_is_none() -> None:
    found = _observing(minimum=2)
    for name in ("a", "b"):
        found.observe("ADDED", _pod(name, "n", group="g"))
    found.check_gangs(1e12)
    assert found.violations == []


def test_every_kth_request_is_struck_at_most_so_many_times() -> None:
    fault = Fault("POST", BINDING, "status", every=3, times=2)
    paths = [f"/api/v1/namespaces/ns/pods/p{number}/binding" for number in range(12)]
    assert [path for path in paths if fault.strikes("POST", path)] == [paths[2], paths[5]]
    assert not fault.strikes("POST", "/api/v1/namespaces/ns/pods")


def test_the_audit_log_shows_what_was_forbidden_and_never_used(tmp_path: Path) -> None:
    user = "system:serviceaccount:volcano-system:volcano-scheduler"

    def event(verb: str, resource: str, decision: str) -> str:
        target = {"resource": resource, "namespace": "ns", "name": "p"}
        return json.dumps(
            {
                "user": {"username": user},
                "verb": verb,
                "objectRef": target,
                "responseStatus": {"code": 403},
                "annotations": {"authorization.k8s.io/decision": decision},
            }
        )

    log = tmp_path / "audit.log"
    log.write_text(f"{event('list', 'pods', 'allow')}\n{event('create', 'secrets', 'forbid')}\n{{unfinished")
    calls = list(audit.AuditLog(log).calls())
    assert [call.resource for call in calls if call.forbidden] == ["secrets"]
    role = {
        "kind": "ClusterRole",
        "metadata": {"name": "r"},
        "rules": [{"apiGroups": [""], "resources": ["pods", "pods/finalizers"], "verbs": ["list", "update"]}],
    }
    subject = {"kind": "ServiceAccount", "namespace": "volcano-system", "name": "volcano-scheduler"}
    binding = {"metadata": {"name": "b"}, "roleRef": {"kind": "ClusterRole", "name": "r"}, "subjects": [subject]}
    never = audit.unused(audit.grants([role], [binding], [user]), calls)
    assert [(one.verb, one.resource) for one in never] == [("update", "pods"), ("list", "pods/finalizers")]
