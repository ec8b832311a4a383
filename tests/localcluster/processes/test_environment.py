"""A container's variables and command line, resolved as a kubelet resolves them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from volcanoio.localcluster.processes.container_spec import ImageMapError, Images, argv, declared, expand, inherited
from volcanoio.localcluster.processes.sources import FieldError, Missing, Sources, field_value, resource_value

POD: dict[str, Any] = {
    "metadata": {
        "name": "w-0", "namespace": "ns", "uid": "u",
        "labels": {"a": "1", "b": 'say "hi"'}, "annotations": {"k/x": "y"},
    },
    "spec": {
        "nodeName": "node-1",
        "containers": [
            {"name": "main", "resources": {"limits": {"cpu": "1500m", "memory": "1Gi"}, "requests": {"cpu": "250m"}}},
        ],
    },
    "status": {"podIP": "127.1.0.2", "hostIP": "127.0.0.1"},
}  # fmt: skip
SOURCES = Sources(
    config_maps={"cm": {"key": b"value", "other": b"thing"}},
    secrets={"se": {"password": b"s3cret"}},
    allocatable={"cpu": "8", "memory": "32Gi"},
)


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("$(A)/$(B)", "1/two"),
        ("$(NOPE) stays", "$(NOPE) stays"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$1"),
        ("$A and ${A} are the shell's", "$A and ${A} are the shell's"),
        ("$(A", "$(A"),
        ("cost: 5$", "cost: 5$"),
    ],
)
def test_references_are_expanded(text: str, expanded: str) -> None:
    assert expand(text, {"A": "1", "B": "two"}) == expanded


@given(st.text(alphabet="abc $()", max_size=20).filter(lambda text: "$$" not in text))
def test_without_variables_nothing_is_expanded(text: str) -> None:
    assert expand(text, {}) == text


def test_variables_come_from_everywhere_and_the_later_wins() -> None:
    container = {
        "name": "main",
        "envFrom": [
            {"prefix": "P_", "configMapRef": {"name": "cm"}},
            {"secretRef": {"name": "gone", "optional": True}},
        ],
        "env": [
            {"name": "P_other", "value": "own"},
            {"name": "PLAIN", "value": "$(P_key)-$(LATER)"},
            {"name": "LATER", "value": "later"},
            {"name": "EMPTY"},
            {"name": "SECRET", "valueFrom": {"secretKeyRef": {"name": "se", "key": "password"}}},
            {"name": "SKIPPED", "valueFrom": {"secretKeyRef": {"name": "se", "key": "nope", "optional": True}}},
            {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            {"name": "CPUS", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
        ],
    }
    assert declared(POD, container, SOURCES) == {
        "P_key": "value",
        "P_other": "own",
        "PLAIN": "value-$(LATER)",
        "LATER": "later",
        "EMPTY": "",
        "SECRET": "s3cret",
        "IP": "127.1.0.2",
        "CPUS": "2",
    }


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ({"configMapKeyRef": {"name": "cm", "key": "nope"}}, "couldn't find key nope in ConfigMap ns/cm"),
        ({"configMapKeyRef": {"name": "gone", "key": "x"}}, 'configmap "gone" not found'),
        ({"secretKeyRef": {"name": "gone", "key": "x"}}, 'secret "gone" not found'),
    ],
)
def test_missing_names_are_reported(variable: dict[str, Any], text: str) -> None:
    container = {"name": "main", "env": [{"name": "X", "valueFrom": variable}]}
    with pytest.raises(Missing) as missing:
        declared(POD, container, SOURCES)
    assert str(missing.value) == text


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("metadata.name", "w-0"),
        ("metadata.labels", 'a="1"\nb="say \\"hi\\""'),
        ("metadata.annotations['k/x']", "y"),
        ("metadata.labels['nope']", ""),
        ("spec.nodeName", "node-1"),
        ("spec.serviceAccountName", "default"),
    ],
)
def test_a_pod_knows_itself(path: str, value: str) -> None:
    assert field_value(POD, path) == value


def test_a_field_that_is_not_offered_is_named() -> None:
    with pytest.raises(FieldError, match=r"spec\.containers"):
        field_value(POD, "spec.containers")


@pytest.mark.parametrize(
    ("reference", "value"),
    [
        ({"resource": "limits.memory", "divisor": "1Mi"}, "1024"),
        ({"resource": "requests.cpu", "divisor": "1m"}, "250"),
        ({"resource": "requests.memory"}, "0"),
        ({"resource": "limits.cpu", "divisor": "0"}, "2"),
    ],
)
def test_resources_are_divided_and_rounded_up(reference: dict[str, str], value: str) -> None:
    assert resource_value(POD, "main", reference, SOURCES.allocatable) == value


def test_without_a_limit_the_node_counts() -> None:
    pod = {"spec": {"containers": [{"name": "free"}]}}
    assert resource_value(pod, "free", {"resource": "limits.cpu"}, SOURCES.allocatable) == "8"


def test_little_of_the_servers_environment_gets_in() -> None:
    own = {"PATH": "/bin", "AWS_SECRET_ACCESS_KEY": "x", "KUBECONFIG": "/k", "LANG": "C"}
    assert inherited(own) == {"PATH": "/bin", "LANG": "C"}
    assert inherited({})["PATH"]


def test_the_command_line_is_command_and_arguments() -> None:
    container = {"command": ["sh", "-c"], "args": ["echo $(X)", "$(Y)"]}
    assert argv(container, ["ignored"], {"X": "1"}) == ["sh", "-c", "echo 1", "$(Y)"]
    assert argv({"args": ["a"]}, ["entry", "point"], {}) == ["entry", "point", "a"]


@pytest.mark.parametrize(
    ("image", "words"),
    [
        ("nginx", ["nginx", "-g", "daemon off;"]),
        ("nginx:1.27", ["nginx", "-g", "daemon off;"]),
        ("nginx@sha256:00", ["nginx", "-g", "daemon off;"]),
        ("registry:5000/team/tool:1", ["tool"]),
        ("registry:5000/team/other", []),
        ("busybox", []),
    ],
)
def test_commands_stand_for_images(image: str, words: list[str]) -> None:
    images = Images.parse(["nginx=nginx -g 'daemon off;'", "*/tool=tool"])
    assert images.entrypoint(image) == words


@pytest.mark.parametrize("entry", ["nginx", "=x", "nginx=", "nginx='"])
def test_a_bad_entry_of_the_image_map_is_named(entry: str) -> None:
    with pytest.raises(ImageMapError, match="IMAGE=COMMAND"):
        Images.parse([entry])
