"""The files of config/admission belong together; `tests.realcluster.admission` runs them on a real API server."""

from __future__ import annotations

import re
from itertools import product
from typing import Any

import pytest

from tests.unit.admission.objects import Stored
from volcanoio.engine.admission.jobs import UPDATE_RULE
from volcanoio.engine.admission.jobtasks import ACTIONS
from volcanoio.engine.admission.queue_rights import used_queues
from volcanoio.engine.admission.request import Operation, ReviewRequest
from volcanoio.model import kinds, names
from volcanoio.model.base import Manifest
from volcanoio.model.batch import MOST_PODS, POLICY_EVENTS
from volcanoio.model.cel import DYN, compile_expression
from volcanoio.model.kinds import Kind
from volcanoio.model.manifests import read_manifests
from volcanoio.model.packaged import config_path

QUEUE = names.QUEUE_NAME_ANNOTATION
FILES = sorted(config_path("admission").glob("*.yaml"))


def objects(kind: str) -> dict[str, Manifest]:
    listed = [each for path in FILES for each in read_manifests(path) if each["kind"] == kind]
    assert len({each["metadata"]["name"] for each in listed}) == len(listed)
    return {each["metadata"]["name"]: each["spec"] for each in listed}


def test_each_policy_is_bound() -> None:
    for verb in ("Validating", "Mutating"):
        policies, bindings = objects(f"{verb}AdmissionPolicy"), objects(f"{verb}AdmissionPolicyBinding")
        assert set(policies) == {binding["policyName"] for binding in bindings.values()} == set(bindings)
        assert all(spec.get("validationActions", ["Deny"]) == ["Deny"] for spec in bindings.values())


def test_policies_are_about_served_kinds_and_stop_only_ours_when_they_fail() -> None:
    """A policy with parameters fails for all objects, whatever its conditions, while their kind is unknown."""
    served = {(kind.group, kind.version, kind.plural) for kind in kinds.ALL}
    policies = [*objects("ValidatingAdmissionPolicy").values(), *objects("MutatingAdmissionPolicy").values()]
    for spec in policies:
        for rule in spec["matchConstraints"]["resourceRules"]:
            (group,), (version,) = rule["apiGroups"], rule["apiVersions"]
            assert {(group, version, plural) for plural in rule["resources"]} <= served
            assert spec["failurePolicy"] == ("Fail" if group.endswith(".volcano.sh") else "Ignore")


def test_policies_of_pods_are_about_our_schedulers() -> None:
    for verb in ("Validating", "Mutating"):
        for spec in objects(f"{verb}AdmissionPolicy").values():
            if "pods" in spec["matchConstraints"]["resourceRules"][0]["resources"]:
                conditions = {each["name"]: each["expression"] for each in spec["matchConditions"]}
                assert conditions["scheduler"] == "object.spec.?schedulerName.orValue('') in ['volcano']"


def test_the_policies_of_queue_rights_select_restricted_queues() -> None:
    for name in ("volcano-queue-rights", "volcano-pod-queue-rights", "volcano-native-group-queue-rights"):
        binding = objects("ValidatingAdmissionPolicyBinding")[name]
        assert binding["paramRef"]["selector"] == {"matchLabels": {names.RESTRICTED: "true"}}


def variable(policy: str, name: str, new: Manifest, old: Manifest | None = None) -> Any:
    """Return a variable of a policy about a write, evaluated with those before it."""
    spec, values = objects("ValidatingAdmissionPolicy")[policy], dict[str, Any]()
    home = {"metadata": {"annotations": {QUEUE: "of-namespace"}}}
    bindings = {"object": new, "oldObject": old, "namespaceObject": home}
    for each in spec["variables"]:
        program = compile_expression(each["expression"], dict.fromkeys((*bindings, "variables"), DYN))
        values[each["name"]] = program.evaluate({**bindings, "variables": values})
        if each["name"] == name:
            break
    return values[name]


def named(annotation: str, label: str = "") -> Manifest:
    """Return a native group that names queues in an annotation and a label, "" for none."""
    metadata: Manifest = {"name": "g", "namespace": "ns"}
    metadata |= {field: {QUEUE: each} for field, each in (("annotations", annotation), ("labels", label)) if each}
    return {"metadata": metadata, "spec": {}}


NAMINGS = [named(annotation, label) for annotation in ("", "a", "b") for label in ("", "a", "c")]


@pytest.mark.parametrize("kind", [kinds.NATIVE_POD_GROUP, kinds.WORKLOAD], ids=lambda kind: kind.plural)
def test_native_groups_need_the_right_to_the_queues_that_the_webhook_checks(kind: Kind) -> None:
    """All writes that name queues; the Workload of a PodGroup is known to the webhook alone."""
    for new, old in product(NAMINGS, [None, *NAMINGS]):
        operation = Operation.CREATE if old is None else Operation.UPDATE
        request = ReviewRequest(resource=kind.resource, operation=operation, namespace="ns", object=new, old=old)
        expected = [use.queue for use in used_queues(request, Stored())]
        assert list(variable("volcano-native-group-queue-rights", "queues", new, old)) == expected


@pytest.mark.parametrize(
    ("annotations", "native", "queue"),
    [
        ({QUEUE: "fast"}, "g", "fast"),
        ({}, "g", ""),
        ({QUEUE: "fast", names.GROUP_NAME: "other"}, "g", ""),
        ({QUEUE: "fast"}, "", "fast"),
        ({}, "", "of-namespace"),
    ],
)
def test_a_pod_of_a_native_group_uses_only_the_queue_that_it_names(
    annotations: dict[str, str], native: str, queue: str
) -> None:
    """The default queue of the namespace is for PodGroups of Volcano; the queue of the group was checked with it."""
    spec = {"schedulingGroup": {"podGroupName": native}} if native else {}
    pod = {"metadata": {"annotations": annotations}, "spec": spec}
    assert variable("volcano-pod-queue-rights", "queue", pod) == queue


def test_lists_of_events_actions_and_limits_are_those_of_the_webhooks() -> None:
    spec = objects("ValidatingAdmissionPolicy")["volcano-jobs"]
    variables = {each["name"]: each["expression"] for each in spec["variables"]}
    assert set(re.findall(r"'([^']*)'", variables["events"])) == {*POLICY_EVENTS, ""}
    assert set(re.findall(r"'([^']*)'", variables["actions"])) == set(ACTIONS)
    assert f"variables.replicas <= {MOST_PODS}" in [each["expression"] for each in spec["validations"]]
    assert UPDATE_RULE in variables["updateRule"]


def test_the_policies_of_a_tenant_are_about_pods_that_change() -> None:
    """A stored Job that breaks them can be scaled and annotated, and can lose a finalizer."""
    listed = read_manifests(config_path("examples") / "tenant" / "3-policies.yaml")
    policies = [each["spec"] for each in listed if each["kind"] == "ValidatingAdmissionPolicy"]
    assert len(policies) == 2
    for spec in policies:
        (condition,) = spec["matchConditions"]
        assert condition["name"] == "pods-changed"
        assert condition["expression"].startswith("oldObject == null || (object.kind == ")
