"""Resource groups: which pods belong to one, what they get, and what the file's errors say."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from tests.unit.admission.objects import SETTINGS, create
from volcanoio.engine.admission.resource_groups import AdmissionConfError, membership_condition, parse_admission_conf
from volcanoio.model import kinds
from volcanoio.model.base import Manifest

CONF = """
resourceGroups:
- resourceGroup: management
  object:
    key: namespace
    value: [mng-ns-1]
  schedulerName: default-scheduler
  tolerations:
  - effect: NoSchedule
    key: taint
    operator: Exists
  labels:
    volcano.sh/nodetype: management
- resourceGroup: cpu
  object:
    key: annotation
    value: ["volcano.sh/resource-group: cpu", "team: a"]
  schedulerName: volcano
  labels: {volcano.sh/nodetype: cpu}
  affinity: '{"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}}'
- resourceGroup: gpu
  schedulerName: volcano
"""
"""Volcano's example of an admission configuration, with a second annotation and a group without `object`."""


def pod(namespace: str = "ns", annotations: dict[str, str] | None = None, **spec: Any) -> Manifest:
    """A pod that uses no scheduler of ours."""
    containers = [{"name": "main", "image": "busybox"}]
    return {
        "metadata": {"name": "p", "namespace": namespace, "annotations": annotations or {}},
        "spec": {"schedulerName": "default-scheduler", "containers": containers, **spec},
    }


def defaulted(manifest: Manifest) -> Manifest:
    """The pod's spec after the review, without its containers."""
    answer = create(kinds.POD, manifest, settings=replace(SETTINGS, resource_groups=parse_admission_conf(CONF)))
    assert answer.allowed
    assert answer.object is not None
    return {key: value for key, value in answer.object["spec"].items() if key != "containers"}


def test_a_pod_of_a_namespace_gets_labels_and_tolerations_beside_its_own() -> None:
    own = {"key": "mine", "operator": "Exists"}
    given = pod("mng-ns-1", nodeSelector={"zone": "a"}, tolerations=[own])
    assert defaulted(given) == {
        "schedulerName": "default-scheduler",
        "nodeSelector": {"zone": "a", "volcano.sh/nodetype": "management"},
        "tolerations": [own, {"effect": "NoSchedule", "key": "taint", "operator": "Exists"}],
    }


@pytest.mark.parametrize("annotations", [{"volcano.sh/resource-group": "cpu"}, {"team": "a"}])
def test_any_one_annotation_suffices_and_the_affinity_is_added(annotations: dict[str, str]) -> None:
    spec = defaulted(pod(annotations=annotations))
    assert spec["schedulerName"] == "volcano"
    assert spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] == {
        "nodeSelectorTerms": []
    }


def test_an_affinity_of_the_pod_stays() -> None:
    own: Manifest = {"podAntiAffinity": {}}
    assert defaulted(pod(annotations={"team": "a"}, affinity=own))["affinity"] == own


def test_a_group_without_object_takes_pods_that_name_it() -> None:
    assert defaulted(pod(annotations={"volcano.sh/resource-group": "gpu"})) == {"schedulerName": "volcano"}


@pytest.mark.parametrize("given", [pod(), pod(annotations={"volcano.sh/resource-group": "management"})])
def test_other_pods_stay_as_they_are(given: Manifest) -> None:
    assert defaulted(given) == {"schedulerName": "default-scheduler"}


def test_tolerations_are_added_once() -> None:
    taint = {"effect": "NoSchedule", "key": "taint", "operator": "Exists"}
    assert defaulted(pod("mng-ns-1", tolerations=[taint]))["tolerations"] == [taint]


def test_the_condition_selects_the_pods_of_all_groups() -> None:
    groups = parse_admission_conf(CONF)
    present = "has(object.metadata.annotations) && {0} in object.metadata.annotations"
    annotated = "(" + present + " && object.metadata.annotations[{0}] == {1})"
    assert membership_condition(groups).split(" || ") == [
        '(request.namespace in ["mng-ns-1"])',
        annotated.format('"volcano.sh/resource-group"', '"cpu"'),
        annotated.format('"team"', '"a"'),
        annotated.format('"volcano.sh/resource-group"', '"gpu"'),
    ]
    assert membership_condition(()) == ""


def test_volcanos_spelling_of_toleration_seconds_is_read() -> None:
    text = "resourceGroups: [{resourceGroup: a, tolerations: [{key: t, operator: Exists, tolerationseconds: 5}]}]"
    assert parse_admission_conf(text)[0].tolerations == ({"key": "t", "operator": "Exists", "tolerationSeconds": 5},)


@pytest.mark.parametrize("text", ["", "# nothing\n", "resourceGroups:\n"])
def test_a_file_without_groups_has_none(text: str) -> None:
    assert parse_admission_conf(text) == ()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[", "not YAML"),
        ("- a", "the file is not a mapping"),
        ("resourceGroups: a", "resourceGroups: not a list"),
        ("resourceGroups: [a]", "resourceGroups[0]: not a mapping"),
        ("resourceGroups: [{}]", "resourceGroups[0].resourceGroup: missing"),
    ],
)
def test_a_file_that_is_no_configuration_is_refused(text: str, problem: str) -> None:
    with pytest.raises(AdmissionConfError) as caught:
        parse_admission_conf(text)
    assert str(caught.value).startswith(problem)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ("lables: {}", 'lables: no such field; did you mean "labels"?'),
        ("object: {key: namespaces}", 'object.key: "namespaces" is neither annotation nor namespace; did you mean'),
        ("object: {value: [a]}", 'object.value[0]: "a" is no annotation'),
        ("object: {value: [{a: b}]}", "object.value: not a list of strings"),
        ("object: a", "object: not a mapping"),
        ("labels: {a: 1}", "labels.a: 1 is not a string; quote it"),
        ("labels: [a]", "labels: not a mapping"),
        ("affinity: '{'", "affinity: not JSON"),
        ("affinity: '[]'", "affinity: not an object"),
        ("tolerations: [{key: 1}]", "tolerations[0]: Expected `str`"),
        ("tolerations: a", "tolerations: not a list"),
        ("schedulerName: 1", "schedulerName: not a string"),
    ],
)
def test_an_error_names_the_field(fields: str, problem: str) -> None:
    text = f"resourceGroups: [{{resourceGroup: a, {fields}}}]"
    with pytest.raises(AdmissionConfError) as caught:
        parse_admission_conf(text)
    assert str(caught.value).startswith(f"resourceGroups[0].{problem}")
