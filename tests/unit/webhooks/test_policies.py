"""The files of config/admission belong together; `tests.realcluster.admission` runs them on a real API server."""

from __future__ import annotations

from volcanoio.model import kinds, names
from volcanoio.model.base import Manifest
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
    served = {(kind.group, kind.version, kind.plural) for kind in kinds.ALL}
    for spec in (objects("ValidatingAdmissionPolicy") | objects("MutatingAdmissionPolicy")).values():
        for rule in spec["matchConstraints"]["resourceRules"]:
            (group,), (version,) = rule["apiGroups"], rule["apiVersions"]
            assert {(group, version, plural) for plural in rule["resources"]} <= served
            assert spec["failurePolicy"] == ("Ignore" if "pods" in rule["resources"] else "Fail")


def test_the_policy_of_queue_rights_selects_restricted_queues() -> None:
    binding = objects("ValidatingAdmissionPolicyBinding")["volcano-queue-rights"]
    assert binding["paramRef"]["selector"] == {"matchLabels": {names.RESTRICTED: "true"}}
