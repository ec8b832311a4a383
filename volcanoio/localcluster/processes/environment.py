"""A container's variables, command and arguments, resolved. Kubernetes: `pkg/kubelet/kubelet_pods.go`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from volcanoio.localcluster.processes.expansion import expand
from volcanoio.localcluster.processes.fields import field_value, resource_value
from volcanoio.localcluster.processes.sources import Missing, Sources
from volcanoio.model.base import Manifest

INHERITED = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR")
"""What a container has of the server's environment: there is no image to bring these. Nothing else gets in."""


def inherited(environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """The part of the server's environment that containers get."""
    own = os.environ if environment is None else environment
    return {name: own[name] for name in INHERITED if name in own} | ({} if "PATH" in own else {"PATH": os.defpath})


def declared(pod: Manifest, container: Manifest, sources: Sources) -> dict[str, str]:
    """The variables that a container's `envFrom` and `env` give. Raises Missing or FieldProblem."""
    found: dict[str, str] = {}
    for bundle in container.get("envFrom") or ():
        content = None
        if bundle.get("configMapRef"):
            content = sources.config_map(bundle["configMapRef"])
        elif bundle.get("secretRef"):
            content = sources.secret(bundle["secretRef"])
        for key, data in (content or {}).items():
            found[bundle.get("prefix", "") + key] = data.decode(errors="replace")
    for variable in container.get("env") or ():
        name = variable["name"]
        if "valueFrom" in variable:
            value = _value_from(pod, container, variable["valueFrom"] or {}, sources)
            if value is not None:
                found[name] = value
        else:
            found[name] = expand(variable.get("value") or "", found)
    return found


def _value_from(pod: Manifest, container: Manifest, source: Mapping[str, Any], sources: Sources) -> str | None:
    if reference := source.get("fieldRef"):
        return field_value(pod, reference.get("fieldPath", ""))
    if reference := source.get("resourceFieldRef"):
        return resource_value(pod, container["name"], reference, sources.allocatable)
    for field, kind, look in (
        ("configMapKeyRef", "ConfigMap", sources.config_map),
        ("secretKeyRef", "Secret", sources.secret),
    ):
        if reference := source.get(field):
            content = look(reference)
            if content is not None and reference["key"] in content:
                return content[reference["key"]].decode(errors="replace")
            if reference.get("optional"):
                return None
            namespace = pod["metadata"]["namespace"]
            raise Missing(f"couldn't find key {reference['key']} in {kind} {namespace}/{reference['name']}")
    return None


def argv(container: Manifest, entrypoint: list[str], variables: Mapping[str, str]) -> list[str]:
    """The command line: `command`, or the image's entry point, and `args`, with their references expanded."""
    command = container.get("command") or entrypoint
    return [expand(word, variables) for word in (*command, *(container.get("args") or ()))]
