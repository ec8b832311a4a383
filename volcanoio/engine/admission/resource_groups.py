"""Resource groups: pods of some namespaces, or with some annotations, are bound to a part of the cluster.

The file of `--admission-conf` lists them (Volcano: pkg/webhooks/config). The first group that a pod belongs to adds its
labels to the pod's node selector, its tolerations, its affinity where the pod has none, and replaces the scheduler.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
import yaml

from volcanoio.framework.arguments import suggestion
from volcanoio.model.base import Manifest
from volcanoio.model.core import Toleration
from volcanoio.model.documents import load_yaml
from volcanoio.model.names import RESOURCE_GROUP

_GROUP_FIELDS = ("resourceGroup", "object", "schedulerName", "tolerations", "labels", "affinity")
_OBJECT_KEYS = ("", "annotation", "namespace")
_TOLERATION_FIELDS = ("key", "operator", "value", "effect", "tolerationSeconds")
_SECONDS = "tolerationseconds"
"""Spelling of `tolerationSeconds` that Volcano's parser reads."""


class AdmissionConfError(ValueError):
    """The file cannot be used; the message has a line for each problem: field, rule and next step."""


class ResourceGroup(msgspec.Struct, frozen=True, kw_only=True):
    """One group. A pod belongs to it by its namespace, or by any one of the annotations."""

    name: str
    namespaces: tuple[str, ...] = ()
    annotations: tuple[tuple[str, str], ...] = ()
    scheduler_name: str = ""
    tolerations: tuple[Manifest, ...] = ()
    labels: Mapping[str, str] = {}
    affinity: Manifest | None = None

    def has(self, namespace: str, annotations: Mapping[str, str]) -> bool:
        """Return whether a pod with these annotations belongs to the group."""
        return namespace in self.namespaces or any(annotations.get(key) == value for key, value in self.annotations)

    def apply(self, pod: Manifest) -> None:
        """Change a pod's spec in place."""
        spec = pod["spec"]
        if self.labels:
            spec["nodeSelector"] = {**(spec.get("nodeSelector") or {}), **self.labels}
        present = spec.get("tolerations") or []
        if added := [toleration for toleration in self.tolerations if toleration not in present]:
            spec["tolerations"] = [*present, *(dict(toleration) for toleration in added)]
        if self.affinity is not None and not spec.get("affinity"):
            spec["affinity"] = self.affinity
        if self.scheduler_name:
            spec["schedulerName"] = self.scheduler_name


def apply_resource_group(pod: Manifest, namespace: str, groups: Iterable[ResourceGroup]) -> None:
    """Apply the first group that a pod belongs to, in place."""
    annotations = (pod.get("metadata") or {}).get("annotations") or {}
    for group in groups:
        if group.has(namespace, annotations):
            group.apply(pod)
            return


def membership_condition(groups: Sequence[ResourceGroup]) -> str:
    """Return a CEL expression that is true for pods of any group, "" for no groups; for a webhook's matchConditions."""
    namespaces = list(dict.fromkeys(name for group in groups for name in group.namespaces))
    annotations = dict.fromkeys(pair for group in groups for pair in group.annotations)
    terms = [f"request.namespace in [{', '.join(map(_literal, namespaces))}]"] if namespaces else []
    terms += [
        f"has(object.metadata.annotations) && {_literal(key)} in object.metadata.annotations && "
        f"object.metadata.annotations[{_literal(key)}] == {_literal(value)}"
        for key, value in annotations
    ]
    return " || ".join(f"({term})" for term in terms)


def _literal(text: str) -> str:
    """Return a CEL string literal: JSON's escapes are a subset of CEL's."""
    return msgspec.json.encode(text).decode()


def parse_admission_conf(text: str) -> tuple[ResourceGroup, ...]:
    """Return the resource groups of a configuration file. Raises AdmissionConfError."""
    try:
        document = load_yaml(text)
    except yaml.YAMLError as error:
        raise AdmissionConfError(f"not YAML: {' '.join(str(error).split())}; fix the YAML there") from None
    problems: list[str] = []
    if not isinstance(document or {}, dict):
        raise AdmissionConfError("the file is not a mapping; write resourceGroups: and a list below it")
    entries = (document or {}).get("resourceGroups") or []
    if not isinstance(entries, list):
        raise AdmissionConfError("resourceGroups: not a list; start each group with '- resourceGroup: <name>'")
    groups = [_group(entry, f"resourceGroups[{index}]", problems) for index, entry in enumerate(entries)]
    if problems:
        raise AdmissionConfError("\n".join(problems))
    return tuple(group for group in groups if group is not None)


def _group(entry: Any, path: str, problems: list[str]) -> ResourceGroup | None:
    if not isinstance(entry, dict):
        problems.append(f"{path}: not a mapping; write resourceGroup, object, labels and so on")
        return None
    _refuse_unknown(entry, _GROUP_FIELDS, path, problems)
    name = _text(entry, "resourceGroup", path, problems)
    if not name:
        problems.append(f"{path}.resourceGroup: missing; give the group a name")
    namespaces, annotations = _members(entry.get("object") or {}, name, f"{path}.object", problems)
    return ResourceGroup(
        name=name,
        namespaces=namespaces,
        annotations=annotations,
        scheduler_name=_text(entry, "schedulerName", path, problems),
        tolerations=_tolerations(entry.get("tolerations") or [], f"{path}.tolerations", problems),
        labels=_labels(entry.get("labels") or {}, f"{path}.labels", problems),
        affinity=_affinity(_text(entry, "affinity", path, problems), f"{path}.affinity", problems),
    )


def _members(
    given: Any, name: str, path: str, problems: list[str]
) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
    """Return the namespaces and the annotations by which pods belong to the group `name`."""
    if not isinstance(given, dict):
        problems.append(f"{path}: not a mapping; write key and value")
        return (), ()
    _refuse_unknown(given, ("key", "value"), path, problems)
    key, values = given.get("key") or "", given.get("value") or []
    if key not in _OBJECT_KEYS:
        hint = suggestion(str(key), ["annotation", "namespace"])
        problems.append(f'{path}.key: "{key}" is neither annotation nor namespace{hint}')
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        problems.append(f"{path}.value: not a list of strings; quote annotations, such as 'key: value'")
        return (), ()
    if key == "namespace":
        return tuple(values), ()
    pairs = [] if key else [(RESOURCE_GROUP, name)]
    for number, value in enumerate(values):
        annotation, colon, expected = value.partition(":")
        if not colon or not annotation.strip():
            problems.append(f"{path}.value[{number}]: \"{value}\" is no annotation; write 'key: value'")
        pairs.append((annotation.strip().strip("\"'"), expected.strip().strip("\"'")))
    return (), tuple(pairs)


def _tolerations(given: Any, path: str, problems: list[str]) -> tuple[Manifest, ...]:
    if not isinstance(given, list) or not all(isinstance(entry, dict) for entry in given):
        problems.append(f"{path}: not a list of tolerations; start each with '- key: <taint>'")
        return ()
    found = []
    for number, entry in enumerate(given):
        toleration = {"tolerationSeconds" if key == _SECONDS else key: value for key, value in entry.items()}
        _refuse_unknown(toleration, _TOLERATION_FIELDS, f"{path}[{number}]", problems)
        try:
            msgspec.convert(toleration, Toleration)
        except msgspec.ValidationError as error:
            problems.append(f"{path}[{number}]: {error}; see kubectl explain pod.spec.tolerations")
        found.append(toleration)
    return tuple(found)


def _labels(given: Any, path: str, problems: list[str]) -> dict[str, str]:
    if not isinstance(given, dict):
        problems.append(f"{path}: not a mapping; write 'label: value' lines")
        return {}
    for key, value in given.items():
        if not isinstance(key, str) or not isinstance(value, str):
            problems.append(f"{path}.{key}: {value} is not a string; quote it")
    return given


def _affinity(text: str, path: str, problems: list[str]) -> Manifest | None:
    if not text:
        return None
    try:
        affinity = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        problems.append(f"{path}: not JSON: {error}; write a pod's affinity as one JSON object in quotes")
        return None
    if not isinstance(affinity, dict):
        problems.append(f"{path}: not an object; write a pod's affinity as one JSON object in quotes")
        return None
    return affinity


def _text(entry: Mapping[str, Any], field: str, path: str, problems: list[str]) -> str:
    value = entry.get(field)
    if value is not None and not isinstance(value, str):
        problems.append(f"{path}.{field}: not a string; quote it")
        return ""
    return value or ""


def _refuse_unknown(entry: Mapping[str, Any], fields: Sequence[str], path: str, problems: list[str]) -> None:
    problems += [
        f"{path}.{key}: no such field{suggestion(str(key), list(fields))}" for key in entry if key not in fields
    ]
