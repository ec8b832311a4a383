"""The files of config/admission belong together; `tests.realcluster.admission` runs them on a real API server."""

from __future__ import annotations

import re

from volcanoio.engine.admission.jobs import UPDATE_RULE
from volcanoio.engine.admission.jobtasks import ACTIONS
from volcanoio.model import kinds, names
from volcanoio.model.base import Manifest
from volcanoio.model.batch import MOST_PODS, POLICY_EVENTS
from volcanoio.model.manifests import read_manifests
from volcanoio.model.packaged import config_path

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


def test_policies_are_about_served_kinds_and_stop_no_pod_when_they_fail() -> None:
    """A policy with parameters fails for all pods, whatever its conditions, while their kind is unknown."""
    served = {(kind.group, kind.version, kind.plural) for kind in kinds.ALL}
    policies = [*objects("ValidatingAdmissionPolicy").values(), *objects("MutatingAdmissionPolicy").values()]
    for spec in policies:
        for rule in spec["matchConstraints"]["resourceRules"]:
            (group,), (version,) = rule["apiGroups"], rule["apiVersions"]
            assert {(group, version, plural) for plural in rule["resources"]} <= served
            assert spec["failurePolicy"] == ("Ignore" if "pods" in rule["resources"] else "Fail")


def test_policies_of_pods_are_about_our_schedulers() -> None:
    for verb in ("Validating", "Mutating"):
        for spec in objects(f"{verb}AdmissionPolicy").values():
            if "pods" in spec["matchConstraints"]["resourceRules"][0]["resources"]:
                conditions = {each["name"]: each["expression"] for each in spec["matchConditions"]}
                assert conditions["scheduler"] == "object.spec.?schedulerName.orValue('') in ['volcano']"


def test_the_policies_of_queue_rights_select_restricted_queues() -> None:
    for name in ("volcano-queue-rights", "volcano-pod-queue-rights"):
        binding = objects("ValidatingAdmissionPolicyBinding")[name]
        assert binding["paramRef"]["selector"] == {"matchLabels": {names.RESTRICTED: "true"}}


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
