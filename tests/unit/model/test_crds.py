"""The CRDs in config/crds are what the model says, and valid structural schemas."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from volcanoio.model.batch import POLICY_EVENTS
from volcanoio.model.crds.__main__ import COMMAND, render
from volcanoio.model.crds.definitions import DEFINITIONS, Definition
from volcanoio.model.documents import load_yaml
from volcanoio.model.packaged import config_path

IDS = [definition.kind.kind for definition in DEFINITIONS]
LAST_APPLIED_LIMIT = 256 * 1024  # bytes of all annotations of an object; `kubectl apply` stores the manifest in one


def schema_of(kind: str) -> dict[str, Any]:
    definition = next(d for d in DEFINITIONS if d.kind.kind == kind)
    schema: dict[str, Any] = definition.manifest()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


def at(schema: dict[str, Any], path: str) -> dict[str, Any]:
    for part in path.split("."):
        schema = schema["items"] if part == "[]" else schema["properties"][part]
    return schema


def nodes(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield schema
    for child in schema.get("properties", {}).values():
        yield from nodes(child)
    for key in ("items", "additionalProperties"):
        if key in schema:
            yield from nodes(schema[key])


@pytest.mark.parametrize("definition", DEFINITIONS, ids=IDS)
def test_the_checked_in_file_is_current(definition: Definition) -> None:
    stored = (config_path("crds") / definition.file_name).read_text(encoding="utf-8")
    assert stored == render(definition), f"config/crds is stale: run `{COMMAND}` and commit the result"


@pytest.mark.parametrize("definition", DEFINITIONS, ids=IDS)
def test_schema_is_structural_as_a_real_server_demands(definition: Definition) -> None:
    for node in nodes(schema_of(definition.kind.kind)):
        if node.get("x-kubernetes-int-or-string"):
            assert "type" not in node
        else:
            assert node.get("type") in {"object", "array", "string", "integer", "number", "boolean"}
        assert not (node.get("properties") and node.get("additionalProperties"))
        assert set(node.get("required", ())) <= set(node.get("properties", {}))
        if node.get("type") == "array":
            assert "items" in node
        for key in node.get("x-kubernetes-list-map-keys", ()):
            items = node["items"]
            assert key in items.get("required", ()) or "default" in items["properties"][key]


@pytest.mark.parametrize("definition", DEFINITIONS, ids=IDS)
def test_client_side_apply_can_store_it_in_an_annotation(definition: Definition) -> None:
    manifest = load_yaml(render(definition))
    assert len(json.dumps(manifest, separators=(",", ":"))) < LAST_APPLIED_LIMIT


@pytest.mark.parametrize(
    ("kind", "path", "expected"),
    [
        ("Job", "spec.queue", {"default": "default", "maxLength": 253}),
        ("Job", "spec.maxRetry", {"default": 3, "minimum": 0}),
        ("Job", "spec.tasks", {"minItems": 1}),
        ("Job", "spec.minSuccess", {"minimum": 1}),
        ("Job", "spec.tasks.[].name", {"maxLength": 63}),
        ("Job", "spec.tasks.[].replicas", {"default": 0, "minimum": 0}),
        ("Job", "spec.volumes.[].mountPath", {"minLength": 1, "pattern": "^[^:]+$"}),
        ("Job", "spec.networkTopology.mode", {"default": "hard", "enum": ["hard", "soft"]}),
        ("Job", "spec.tasks.[].partitionPolicy", {"required": ["partitionSize", "totalPartitions"]}),
        ("PodGroup", "spec.queue", {"default": "default"}),
        ("PodGroup", "spec.subGroupPolicy.[].subGroupSize", {"default": 1, "minimum": 1}),
        ("PodGroup", "spec.subGroupPolicy.[].minSubGroups", {"default": 0}),
        ("Queue", "spec.weight", {"default": 1, "minimum": 1, "maximum": 2147483647}),
        ("Queue", "spec.dequeueStrategy", {"default": "traverse"}),
        ("CronJob", "spec", {"required": ["jobTemplate", "schedule"]}),
        ("CronJob", "spec.concurrencyPolicy", {"default": "Allow", "enum": ["Allow", "Forbid", "Replace"]}),
        ("CronJob", "spec.startingDeadlineSeconds", {"format": "int64", "minimum": 0}),
        ("CronJob", "spec.jobTemplate.spec.queue", {"default": "default"}),
        ("JobTemplate", "spec.maxRetry", {"default": 3}),
        ("JobFlow", "spec.flows.[].patch.jobSpec.queue", {"default": None, "maxLength": 253}),
        ("JobFlow", "spec.flows.[].patch.jobSpec.tasks.[].replicas", {"default": None, "minimum": 0}),
        ("JobFlow", "spec.flows.[].dependsOn.probe.tcpSocketList.[]", {"required": ["port"]}),
        ("Command", "target", {"required": ["apiVersion", "kind", "name", "uid"]}),
        ("HyperNode", "spec", {"required": ["tier"]}),
        ("HyperNode", "spec.tier", {"type": "integer", "minimum": 0}),
        ("HyperNode", "spec.members", {"minItems": 1}),
        ("HyperNode", "spec.members.[].type", {"enum": ["Node", "HyperNode"]}),
        ("HyperNode", "spec.members.[].selector.exactMatch.name", {"minLength": 1, "maxLength": 253}),
        ("HyperNode", "spec.members.[].selector.labelMatch", {"x-kubernetes-map-type": "atomic"}),
        ("HyperNode", "status.nodeCount", {"format": "int64", "minimum": 0}),
        ("NodeShard", "spec", {"required": ["nodesDesired"]}),
        ("Numatopology", "spec.cpuDetail", {"type": "object"}),
        ("ColocationConfiguration", "spec.memoryQos.highRatio", {"default": 100, "minimum": 0, "maximum": 100}),
        ("ColocationConfiguration", "status.conditions", {"x-kubernetes-list-map-keys": ["type"]}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_constraints_of_volcano(kind: str, path: str, expected: dict[str, Any]) -> None:
    node = at(schema_of(kind), path)
    assert {key: node.get(key) for key in expected} == expected


def undescribed(schema: dict[str, Any], path: str = "") -> Iterator[str]:
    """Yield the paths of properties without a description."""
    for name, child in schema.get("properties", {}).items():
        place = f"{path}.{name}".lstrip(".")
        if not child.get("description"):
            yield place
        yield from undescribed(child, place)
    for key in ("items", "additionalProperties"):
        if key in schema:
            yield from undescribed(schema[key], f"{path}[]")


@pytest.mark.parametrize("definition", DEFINITIONS, ids=IDS)
def test_every_property_has_a_description(definition: Definition) -> None:
    """`kubectl explain` shows them. Those of metadata are the server's: a definition may not give any."""
    schema = schema_of(definition.kind.kind)
    assert list(undescribed(schema)) == ["metadata"]
    assert schema["description"]


@pytest.mark.parametrize(
    ("kind", "path", "text"),
    [
        ("Job", "spec.queue", "Queue in which the job waits and whose share it uses."),
        ("Job", "spec.tasks.[].template.spec.containers", "List of containers belonging to the pod."),
        ("Job", "spec.tasks.[].template.spec.affinity", "Nodes and other pods that the pod should be near to or away"),
        (
            "CronJob",
            "spec.jobTemplate.spec.minAvailable",
            "Minimum number of pods that must be able to start together",
        ),
        ("HyperNode", "status.conditions.[].reason", "Reason for the status, as one word in CamelCase."),
    ],
)
def test_descriptions_come_from_the_docstrings_of_fields(kind: str, path: str, text: str) -> None:
    assert at(schema_of(kind), path)["description"].startswith(text)


def test_the_schema_offers_the_events_that_admission_accepts() -> None:
    for path in ("spec.policies.[]", "spec.tasks.[].policies.[]"):
        assert at(schema_of("Job"), f"{path}.event")["enum"] == list(POLICY_EVENTS)
        assert at(schema_of("Job"), f"{path}.events.[]")["enum"] == list(POLICY_EVENTS)
    assert POLICY_EVENTS == (
        "*", "JobUpdated", "PodEvicted", "PodFailed", "PodPending", "TaskCompleted", "TaskFailed", "Unknown",
    )  # fmt: skip


def test_pod_template_is_the_whole_pod_spec_with_reduced_metadata() -> None:
    template = at(schema_of("Job"), "spec.tasks.[].template")
    assert set(at(template, "metadata")["properties"]) == {"name", "namespace", "labels", "annotations", "finalizers"}
    assert at(template, "spec")["required"] == ["containers"]
    assert at(template, "spec.containers.[].ports")["x-kubernetes-list-map-keys"] == ["containerPort", "protocol"]
    assert at(template, "spec.containers.[].ports.[].hostIP")["type"] == "string"
    assert at(template, "spec.containers.[].livenessProbe.exec")["type"] == "object"
    assert at(template, "spec.containers.[].livenessProbe.httpGet.port")["x-kubernetes-int-or-string"]
    assert at(template, "spec.containers.[].resources.limits")["additionalProperties"]["x-kubernetes-int-or-string"]
    assert at(template, "spec.terminationGracePeriodSeconds")["format"] == "int64"
    assert "priorityClass" not in template["properties"]["spec"]["properties"]


def test_printer_columns_and_subresources() -> None:
    rows = {d.kind.kind: d.manifest()["spec"]["versions"][0] for d in DEFINITIONS}
    columns = {
        kind: [(c["name"], c["jsonPath"], c.get("priority", 0)) for c in row.get("additionalPrinterColumns", ())]
        for kind, row in rows.items()
    }
    assert columns == {
        "Job": [
            ("STATUS", ".status.state.phase", 0),
            ("minAvailable", ".status.minAvailable", 0),
            ("RUNNINGS", ".status.running", 0),
            ("AGE", ".metadata.creationTimestamp", 0),
            ("QUEUE", ".spec.queue", 1),
            ("WHY", ".status.state.message", 1),
        ],
        "CronJob": [
            ("SCHEDULE", ".spec.schedule", 0),
            ("TIMEZONE", ".spec.timeZone", 0),
            ("SUSPEND", ".spec.suspend", 0),
            ("LAST SCHEDULE", ".status.lastScheduleTime", 0),
            ("AGE", ".metadata.creationTimestamp", 0),
        ],
        "JobFlow": [("Status", ".status.state.phase", 0), ("Age", ".metadata.creationTimestamp", 0)],
        "JobTemplate": [],
        "Command": [],
        "PodGroup": [
            ("STATUS", ".status.phase", 0),
            ("minMember", ".spec.minMember", 0),
            ("RUNNINGS", ".status.running", 0),
            ("AGE", ".metadata.creationTimestamp", 0),
            ("QUEUE", ".spec.queue", 1),
        ],
        "Queue": [
            ("STATE", ".status.state", 0),
            ("WEIGHT", ".spec.weight", 0),
            ("PARENT", ".spec.parent", 0),
            ("RUNNINGS", ".status.running", 0),
        ],
        "HyperNode": [
            ("Tier", ".spec.tier", 0),
            ("TierName", ".spec.tierName", 0),
            ("NodeCount", ".status.nodeCount", 0),
            ("Age", ".metadata.creationTimestamp", 0),
        ],
        "Numatopology": [],
        "NodeShard": [("AGE", ".metadata.creationTimestamp", 0)],
        "ColocationConfiguration": [],
    }
    assert {kind: "status" in row["subresources"] for kind, row in rows.items()} == {
        "Job": True,
        "CronJob": True,
        "JobFlow": True,
        "JobTemplate": True,
        "Command": False,
        "PodGroup": False,
        "Queue": True,
        "HyperNode": True,
        "Numatopology": False,
        "NodeShard": True,
        "ColocationConfiguration": True,
    }
