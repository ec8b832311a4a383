"""The files of ConfigMap, Secret, downward API and projected volumes. Kubernetes: `pkg/volume/{configmap,...}`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from volcanoio.localcluster.processes.fields import FieldProblem, field_value, resource_value
from volcanoio.localcluster.processes.sources import Content, Sources
from volcanoio.model.base import Manifest

DEFAULT_MODE = 0o644


class File(NamedTuple):
    """A file's content and permission bits."""

    data: bytes
    mode: int


Payload = dict[str, File]
"""Files by their path in the volume."""


def payload(pod: Manifest, volume: Mapping[str, Any], sources: Sources) -> Payload | None:
    """The files of a volume, None for one of another kind. Raises Missing or FieldProblem."""
    if projected := volume.get("projected"):
        mode = int(projected.get("defaultMode") or DEFAULT_MODE)
        found: Payload = {}
        for source in projected.get("sources") or ():
            found |= _of(pod, source, sources, mode) or {}
        return found
    return _of(pod, volume, sources, None)


def _of(pod: Manifest, source: Mapping[str, Any], sources: Sources, mode: int | None) -> Payload | None:
    if (reference := source.get("configMap")) is not None:
        return _keys(reference, sources.config_map(reference), mode)
    if (reference := source.get("secret")) is not None:
        return _keys(reference, sources.secret(reference), mode)
    if (reference := source.get("downwardAPI")) is not None:
        default = _mode(reference.get("defaultMode"), mode)
        return {item["path"]: _downward(pod, item, sources, default) for item in reference.get("items") or ()}
    if reference := source.get("serviceAccountToken"):
        token = sources.tokens.get(str(reference.get("audience") or ""), "")
        return {reference["path"]: File(token.encode(), 0o600 if mode is None else mode)}
    return None


def _mode(own: object, default: int | None) -> int:
    return int(str(own)) if own is not None else DEFAULT_MODE if default is None else default


def _keys(reference: Mapping[str, Any], content: Content | None, default: int | None) -> Payload:
    """The wanted keys of a ConfigMap or Secret: those of `items`, else all."""
    mode = _mode(reference.get("defaultMode"), default)
    items: Sequence[Mapping[str, Any]] = reference.get("items") or ()
    if content is None:
        return {}
    if not items:
        return {key: File(data, mode) for key, data in content.items()}
    found: Payload = {}
    for item in items:
        if item["key"] in content:
            found[item["path"]] = File(content[item["key"]], _mode(item.get("mode"), mode))
        elif not reference.get("optional"):
            raise FieldProblem(f"references non-existent config key: {item['key']}")
    return found


def _downward(pod: Manifest, item: Mapping[str, Any], sources: Sources, mode: int) -> File:
    if reference := item.get("fieldRef"):
        text = field_value(pod, reference.get("fieldPath", ""))
    else:
        reference = item.get("resourceFieldRef") or {}
        text = resource_value(pod, "", reference, sources.allocatable)
    return File(text.encode(), _mode(item.get("mode"), mode))
