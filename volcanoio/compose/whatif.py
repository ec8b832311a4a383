"""What `volcanoio simulate` alters in a state before it is decided: `Changes` of nodes and fields, and Jobs.

Submitted Jobs get their defaults, PodGroup and pods as admission and the Job controller make them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from difflib import get_close_matches
from typing import Any, NamedTuple

import msgspec
from msgspec import inspect

from volcanoio.engine.admission.jobs import check_content, default_job
from volcanoio.engine.admission.request import AdmissionSettings, Findings
from volcanoio.engine.jobs.pods.manifests import build_pod, pod_group_manifest, pod_group_spec, pod_name
from volcanoio.engine.scheduling.offline.remedies import another_node
from volcanoio.engine.scheduling.offline.until import RunTime
from volcanoio.framework import entrypoints
from volcanoio.framework.jobpods import priority_class_of
from volcanoio.localcluster.nodes.hollow import NodeResourcesError, parse_node_resources
from volcanoio.model import kinds
from volcanoio.model.base import ApiObject, Manifest, ObjectMeta
from volcanoio.model.batch import Job, JobPhase, TaskSpec
from volcanoio.model.core import Node, NodeStatus, Pod, PriorityClass, ResourceList
from volcanoio.model.documents import load_yaml
from volcanoio.model.kinds import Kind
from volcanoio.model.manifests import ManifestError, load_manifests
from volcanoio.model.names import GROUP_NAME
from volcanoio.model.quantity import QuantityError
from volcanoio.model.scheduling import PodGroup
from volcanoio.model.times import positive_duration
from volcanoio.runtime.loading.registry import Registry

MOST_NODES = 10_000
KINDS = {"queue": kinds.QUEUE, "podgroup": kinds.POD_GROUP, "node": kinds.NODE, "pod": kinds.POD}
"""Kinds whose spec may be changed, by their name in the text of a change."""
_COUNTED = re.compile(r"([1-9][0-9]*)x(.+)")


class WhatIfError(ValueError):
    """A change that cannot be made; the message is one line: the option, the rule and the next step."""


class _Addition(NamedTuple):
    """Nodes to add: like one of that name, or with these amounts."""

    number: int
    like: str
    amounts: ResourceList


class _FieldChange(NamedTuple):
    """A new value of a field; `path` begins with the name of the object, whose dots are dots of the path."""

    text: str
    kind: Kind
    path: tuple[str, ...]
    value: Any


class Changes:
    """Changes in the order in which they were given; nodes are added first."""

    def __init__(self, additions: Sequence[_Addition], fields: Sequence[_FieldChange]) -> None:
        self._additions = additions
        self._fields = fields

    @classmethod
    def parse(cls, nodes: Iterable[str], fields: Iterable[str]) -> Changes:
        """Read the values of --add-nodes and --set. Raises WhatIfError."""
        return cls([_addition(text) for text in nodes], [_field_change(text) for text in fields])

    def apply(self, objects: Sequence[ApiObject]) -> list[ApiObject]:
        """Return the objects with all changes. Raises WhatIfError."""
        result = list(objects)
        for number, addition in enumerate(self._additions):
            result += _added(result, addition, number)
        for change in self._fields:
            at, field = _find(result, change)
            result[at] = _set(result[at], change, field)
        return result


def _addition(text: str) -> _Addition:
    if (found := _COUNTED.fullmatch(text)) is None or int(found[1]) > MOST_NODES:
        raise WhatIfError(
            f'--add-nodes: "{text}" is not COUNTxNODE or COUNTxAMOUNTS with a count from 1 to {MOST_NODES}; '
            "write for instance 2xnode-1 or 2xcpu=16,memory=64Gi"
        )
    if "=" not in found[2]:
        return _Addition(int(found[1]), found[2], {})
    try:
        return _Addition(int(found[1]), "", dict(parse_node_resources(found[2])))
    except NodeResourcesError as error:
        raise WhatIfError(f"--add-nodes: {text}: {str(error).removeprefix('--node-resources: ')}") from None


def _field_change(text: str) -> _FieldChange:
    target, equals, value = text.partition("=")
    kind, *path = target.split(".")
    if not equals or len(path) < 2 or not all(path):
        raise WhatIfError(
            f'--set: "{text}" is not KIND.NAME.FIELD=VALUE; write for instance queue.ml.weight=3 '
            "or podgroup.team/train.minMember=3"
        )
    if kind not in KINDS:
        raise WhatIfError(f'--set: {text}: "{kind}" cannot be changed; valid values: {", ".join(sorted(KINDS))}')
    try:
        return _FieldChange(text, KINDS[kind], tuple(path), load_yaml(value))
    except (ManifestError, ValueError) as error:
        raise WhatIfError(f"--set: {text}: the value is no YAML: {error}") from None


def _added(objects: Sequence[ApiObject], addition: _Addition, number: int) -> list[ApiObject]:
    """Return the nodes of an addition; their names are new."""
    nodes = {obj.metadata.name: obj for obj in objects if isinstance(obj, Node)}
    if addition.like:
        if (like := nodes.get(addition.like)) is None:
            close = get_close_matches(addition.like, nodes, n=1)
            hint = f"did you mean {close[0]}?" if close else "name one of the state, or write amounts as cpu=16"
            raise WhatIfError(f'--add-nodes: there is no node "{addition.like}"; {hint}')
    else:
        status = NodeStatus(allocatable=addition.amounts, capacity=addition.amounts)
        like = Node(metadata=ObjectMeta(), status=status)
    return [another_node(like, f"added-{number}-{at}") for at in range(addition.number)]


def _find(objects: Sequence[ApiObject], change: _FieldChange) -> tuple[int, tuple[str, ...]]:
    """Return where the object is, and the rest of the path: its longest beginning that is a name is the object."""
    indexes = {obj.metadata.key: at for at, obj in enumerate(objects) if type(obj) is change.kind.type}
    for length in range(len(change.path) - 1, 0, -1):
        key = ".".join(change.path[:length])
        key = key if "/" in key or not change.kind.namespaced else f"default/{key}"
        if key in indexes:
            return indexes[key], change.path[length:]
    name = change.path[0]
    close = get_close_matches(name, indexes, n=1)
    hint = "write the namespace as in podgroup.team/train.minMember=3" if change.kind.namespaced else "name another"
    hint = f"did you mean {close[0]}?" if close else hint
    raise WhatIfError(f'--set: {change.text}: there is no {change.kind.kind} "{name}" in the state; {hint}')


def _set(obj: ApiObject, change: _FieldChange, field: tuple[str, ...]) -> ApiObject:
    """Return the object with a new value at a path of its spec."""
    manifest = change.kind.manifest(obj)
    holder = manifest.setdefault("spec", {})
    *parents, last = _keys(change, field)
    for name in parents:
        holder = holder.setdefault(name, {})
    holder[last] = change.value
    try:
        return msgspec.convert(manifest, change.kind.type, strict=False)
    except msgspec.ValidationError as error:
        raise WhatIfError(f"--set: {change.text}: {error}; write it as Kubernetes documents the field") from None


def _keys(change: _FieldChange, field: tuple[str, ...]) -> list[str]:
    """Return the keys of a path. What follows a map with free keys is one key: names of resources have dots."""
    found = inspect.type_info(change.kind.type)
    assert isinstance(found, inspect.StructType)
    at: inspect.Type = next(each.type for each in found.fields if each.encode_name == "spec")
    keys = list[str]()
    for number, name in enumerate(field):
        if isinstance(at, inspect.UnionType):
            at = next((each for each in at.types if isinstance(each, inspect.StructType | inspect.DictType)), at)
        if isinstance(at, inspect.DictType):
            return [*keys, ".".join(field[number:])]
        if not isinstance(at, inspect.StructType):
            raise WhatIfError(f'--set: {change.text}: "{keys[-1]}" has no fields; leave out what follows it')
        known = {each.encode_name: each.type for each in at.fields}
        if name not in known:
            close = get_close_matches(name, sorted(known), n=1)
            hint = f"did you mean {close[0]}?" if close else f"valid values: {', '.join(sorted(known))}"
            where = ".".join(["spec", *keys])
            raise WhatIfError(f'--set: {change.text}: {where} of a {change.kind.kind} has no field "{name}"; {hint}')
        keys.append(name)
        at = known[name]
    return keys


class Submission(NamedTuple):
    """The objects with those of submitted Jobs, and the Jobs by the key of their PodGroup."""

    objects: list[ApiObject]
    jobs: dict[str, Job]


def submit(objects: Sequence[ApiObject], text: str, source: str, registry: Registry, created: str) -> Submission:
    """Return the objects, and the PodGroup and all pods of each Job in a YAML or JSON text, created at that time.

    The Jobs are checked as admission checks them, but for the rights to their queue. Raises WhatIfError.
    """
    settings = AdmissionSettings(job_plugins=registry.factories(entrypoints.JOB_PLUGINS))
    priorities = {obj.metadata.name: obj.value for obj in objects if isinstance(obj, PriorityClass)}
    result, known = list(objects), {(kinds.of(obj).resource, obj.metadata.key) for obj in objects}
    jobs: dict[str, Job] = {}
    try:
        for manifest in load_manifests(text, source):
            job = _job(manifest, source, settings, created)
            for obj in _objects_of(job, priorities, created):
                if isinstance(obj, PodGroup):
                    jobs[obj.metadata.key] = job
                if (key := (kinds.of(obj).resource, obj.metadata.key)) in known:
                    raise WhatIfError(f"--submit: {source}: {key[1]} exists in the state; submit another name")
                known.add(key)
                result.append(obj)
    except ManifestError as error:
        raise WhatIfError(f"--submit: {error}") from None
    return Submission(result, jobs)


def run_times(jobs: Mapping[str, Job], default: float | None) -> RunTime:
    """Return how long pods run: as their submitted Job estimates, else the default."""
    estimates = {key: positive_duration(job.spec.running_estimate or "") or default for key, job in jobs.items()}
    return lambda pod: estimates.get(f"{pod.metadata.namespace}/{pod.metadata.annotations.get(GROUP_NAME)}", default)


def _job(manifest: Manifest, source: str, settings: AdmissionSettings, created: str) -> Job:
    """Return a checked Job with its defaults."""
    if (manifest.get("apiVersion"), manifest.get("kind")) != (kinds.JOB.api_version, kinds.JOB.kind):
        raise WhatIfError(
            f"--submit: {source}: {manifest.get('kind')} of {manifest.get('apiVersion')} is not a Job of "
            f"{kinds.JOB.api_version}; submit only such Jobs"
        )
    default_job(manifest, settings)
    meta = manifest.setdefault("metadata", {})
    name = meta.get("name") or f"{meta.get('generateName', 'job-')}0"
    meta |= {"name": name, "namespace": meta.get("namespace") or "default", "uid": f"submitted-{name}"}
    meta["creationTimestamp"] = created
    findings = Findings()
    try:
        job = msgspec.convert(manifest, Job)
    except msgspec.ValidationError as error:
        raise WhatIfError(f"--submit: {source}: Job {name}: {error}; correct the manifest") from None
    check_content(job, settings, findings)
    if findings.messages:
        raise WhatIfError(f"--submit: {source}: Job {name}: {'; '.join(findings.messages)}")
    return job


def _objects_of(job: Job, priorities: Mapping[str, int], created: str) -> list[ApiObject]:
    """Return the PodGroup and the pods of a Job as its controller creates them."""
    classes = {job.spec.priority_class_name, *(priority_class_of(task) for task in job.spec.tasks)}
    values = {name: priorities.get(name, 0) for name in classes if name}
    try:
        made = [_created(kinds.POD_GROUP, pod_group_manifest(job, pod_group_spec(job, values)), created)]
        made += [_pod(job, task, index, values, created) for task in job.spec.tasks for index in range(task.replicas)]
    except (QuantityError, msgspec.ValidationError) as error:
        raise WhatIfError(f"--submit: Job {job.metadata.name}: {error}; correct the pod template") from None
    return made


def _pod(job: Job, task: TaskSpec, index: int, priorities: Mapping[str, int], created: str) -> ApiObject:
    pod = build_pod(job, task, index, (), ())
    pod["spec"].setdefault("priority", priorities.get(pod["spec"].get("priorityClassName", ""), 0))
    return _created(kinds.POD, pod, created)


_ACTIVE = ("", JobPhase.PENDING, JobPhase.RUNNING)


def missing_pods(objects: Sequence[ApiObject], jobs: Iterable[Job], created: str) -> list[ApiObject]:
    """Return the pods that Jobs with a PodGroup do not have yet: their controller creates them after the admission.

    Pods of tasks that wait for other tasks are left out, and those of templates that cannot be read.
    """
    pods = {obj.metadata.key for obj in objects if isinstance(obj, Pod)}
    groups = {owner.uid for obj in objects if isinstance(obj, PodGroup) for owner in obj.metadata.owner_references}
    priorities = {obj.metadata.name: obj.value for obj in objects if isinstance(obj, PriorityClass)}
    found: list[ApiObject] = []
    for job in jobs:
        if job.metadata.uid not in groups or job.status.state.phase not in _ACTIVE or job.metadata.deletion_timestamp:
            continue
        for task in job.spec.tasks:
            names = [f"{job.metadata.namespace}/{pod_name(job, task, index)}" for index in range(task.replicas)]
            if task.depends_on is None:
                with suppress(QuantityError, msgspec.ValidationError):
                    found += [
                        _pod(job, task, index, priorities, created)
                        for index, name in enumerate(names)
                        if name not in pods
                    ]
    return found


def _created(kind: Kind, manifest: Manifest, created: str) -> ApiObject:
    meta = manifest["metadata"]
    meta |= {"uid": f"{kind.resource}/{meta['namespace']}/{meta['name']}", "creationTimestamp": created}
    return msgspec.convert(manifest, kind.type)
