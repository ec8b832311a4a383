"""JobFlows and JobTemplates as tests write them."""

from __future__ import annotations

from typing import Any

from volcanoio.model.base import Manifest


def part(name: str, *targets: str, probe: Manifest | None = None, patch: Manifest | None = None) -> Manifest:
    made: Manifest = {"name": name}
    if targets:
        made["dependsOn"] = {"targets": list(targets), **({"probe": probe} if probe else {})}
    if patch:
        made["patch"] = {"jobSpec": patch}
    return made


def flow(*parts: Manifest, name: str = "f", **spec: Any) -> Manifest:
    return {"metadata": {"name": name, "namespace": "ns"}, "spec": {"flows": list(parts), **spec}}


def template(name: str, replicas: int = 2, **spec: Any) -> Manifest:
    task = {"name": "main", "replicas": replicas, "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}
    return {"metadata": {"name": name, "namespace": "ns"}, "spec": {"queue": "q", "tasks": [task], **spec}}
