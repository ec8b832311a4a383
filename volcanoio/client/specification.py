"""Job manifests from keyword arguments.

The arguments are named as in a manifest, in Python's spelling. Values are passed on as they are: what a field may
contain is decided by the API server's admission, whose sentence the caller gets.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias, TypedDict

from volcanoio.client.errors import InvalidJob
from volcanoio.framework.arguments import suggestion
from volcanoio.model import kinds, names
from volcanoio.model.base import Manifest
from volcanoio.model.manifests import ManifestError, read_manifests

Command: TypeAlias = str | Sequence[str]
"""A text, which `/bin/sh -c` runs, or a program with its arguments."""
Amounts: TypeAlias = Mapping[str, str | int | float]
"""Amounts by resource, as Kubernetes quantities, such as {"cpu": 2, "memory": "4Gi", "nvidia.com/gpu": 1}."""
Policies: TypeAlias = Mapping[str | int, str] | Sequence[Mapping[str, Any]]
"""Actions by event or exit code, such as {"PodFailed": "RestartJob", 137: "RestartTask"}, or policies as in a manifest.
"""


class TaskOptions(TypedDict, total=False):
    """Arguments of one task: a group of identical pods."""

    name: str
    image: str
    command: Command
    args: Sequence[str]
    replicas: int
    """Number of pods, 1 by default."""
    min_available: int
    """Pods that have to start together, all by default."""
    resources: Amounts
    """What each pod requests. Extended resources, such as GPUs, are limits too."""
    limits: Amounts
    env: Mapping[str, str | int | float]
    policies: Policies
    working_dir: str
    node_selector: Mapping[str, str]
    restart_policy: str
    """Never by default: a failed pod stays, and policies decide."""
    depends_on: Sequence[str]
    """Tasks of the job that have to run or end before this one starts."""
    pod: Manifest
    """Further fields of the pod template, such as {"spec": {"tolerations": [...]}}."""


class JobOptions(TaskOptions, total=False):
    """Arguments of a job: those of its only task, or `tasks`, and those of the job itself."""

    tasks: Sequence[TaskOptions]
    namespace: str
    queue: str
    plugins: Sequence[str] | Mapping[str, Sequence[str]]
    """Job plugins, with arguments if it is a mapping; by default env, which sets VC_TASK_INDEX."""
    lifecycle: Mapping[str, Mapping[str, Any]]
    """Lifecycle policies of the job with their arguments, such as {"oom_scale_up": {"factor": 2}}."""
    priority: str
    """Name of a PriorityClass."""
    max_retry: int
    min_success: int
    """Pods that have to succeed for the job to complete."""
    ttl: int
    """Seconds after its end after which the job is deleted."""
    running_estimate: str
    """Expected run time, such as 30m."""
    labels: Mapping[str, str]
    annotations: Mapping[str, str]


_OF_TASKS = frozenset(TaskOptions.__annotations__) - {"name", "min_available", "policies"}
"""Arguments that belong to each task where a job has `tasks`."""
_SPEC = {
    "min_available": "minAvailable", "queue": "queue", "priority": "priorityClassName", "max_retry": "maxRetry",
    "min_success": "minSuccess", "ttl": "ttlSecondsAfterFinished", "running_estimate": "runningEstimate",
}  # fmt: skip
"""Fields of the job's spec by argument, passed on unchanged."""


def read_job(source: Manifest | str | Path) -> Manifest:
    """Return the manifest of a Job from a mapping or a file with one Job. Raises InvalidJob."""
    if isinstance(source, str | Path):
        try:
            found = read_manifests(Path(source))
        except ManifestError as error:
            raise InvalidJob(str(error)) from None
        jobs = [each for each in found if each["kind"] == kinds.JOB.kind]
        if len(jobs) != 1 or len(found) != 1:
            has = ", ".join(str(each["kind"]) for each in found) or "nothing"
            raise InvalidJob(f"{source}: it has {has}; give a file with one Job, and create the rest with kubectl")
        source = jobs[0]
    if not isinstance(source, Mapping):
        msg = f"a manifest is a mapping or the path of a file, not {type(source).__name__}; or give name= and image="
        raise InvalidJob(msg)
    kind = (source.get("apiVersion", kinds.JOB.api_version), source.get("kind", kinds.JOB.kind))
    if kind != (kinds.JOB.api_version, kinds.JOB.kind):
        msg = f"{kind[1]} of {kind[0]} is not a Volcano Job; give kind: Job, apiVersion: {kinds.JOB.api_version}"
        raise InvalidJob(msg)
    return {"apiVersion": kinds.JOB.api_version, "kind": kinds.JOB.kind, **source}


def job_manifest(options: JobOptions) -> Manifest:
    """Return the manifest of a job. Raises InvalidJob."""
    given: Mapping[str, Any] = options
    check_names(given, JobOptions, "the job")
    tasks = given.get("tasks")
    if tasks is not None and (misplaced := sorted(_OF_TASKS & given.keys())):
        raise InvalidJob(f"a job with tasks= has no {', '.join(misplaced)} of its own; give it in each of the tasks")
    spec: Manifest = {field: given[name] for name, field in _SPEC.items() if name in given}
    spec["plugins"] = _plugins(given.get("plugins", ("env",)))
    if tasks is None:
        spec["tasks"] = [_task({name: value for name, value in given.items() if name in _OF_TASKS}, "the job")]
    else:
        spec["tasks"] = [_named_task(task, number) for number, task in enumerate(tasks)]
    if "policies" in given:
        spec["policies"] = _policies(given["policies"])
    metadata: Manifest = {"name": given.get("name") or _generated_name(spec["tasks"])}
    metadata |= {field: given[field] for field in ("namespace", "labels") if field in given}
    if annotations := {**given.get("annotations", {}), **_lifecycle(given.get("lifecycle", {}))}:
        metadata["annotations"] = annotations
    return {"apiVersion": kinds.JOB.api_version, "kind": kinds.JOB.kind, "metadata": metadata, "spec": spec}


def check_names(given: Mapping[str, Any], options: type, owner: str) -> None:
    """Raise InvalidJob for an argument that does not exist."""
    known = options.__annotations__
    if unknown := next((name for name in given if name not in known), None):
        raise InvalidJob(f'{owner} has no argument "{unknown}"{suggestion(unknown, known)}')


def _named_task(given: Mapping[str, Any], number: int) -> Manifest:
    owner = f"tasks[{number}]"
    check_names(given, TaskOptions, owner)
    task = _task(given, owner)
    if "min_available" in given:
        task["minAvailable"] = given["min_available"]
    if "policies" in given:
        task["policies"] = _policies(given["policies"])
    return {"name": given["name"], **task} if "name" in given else task


def _task(given: Mapping[str, Any], owner: str) -> Manifest:
    spec = {"restartPolicy": given.get("restart_policy", "Never"), "containers": [_container(given, owner)]}
    if "node_selector" in given:
        spec["nodeSelector"] = dict(given["node_selector"])
    task: Manifest = {"replicas": given.get("replicas", 1), "template": _merged({"spec": spec}, given.get("pod", {}))}
    if "depends_on" in given:
        task["dependsOn"] = {"name": list(given["depends_on"])}
    return task


def _container(given: Mapping[str, Any], owner: str) -> Manifest:
    """Return the container of a task's pods, called `main`."""
    if not given.get("image"):
        raise InvalidJob(f'{owner} has no image; give one, such as image="busybox"')
    container: Manifest = {"name": "main", "image": given["image"]}
    if "command" in given:
        container["command"] = command_line(given["command"])
    if "args" in given:
        container["args"] = [str(each) for each in given["args"]]
    if "working_dir" in given:
        container["workingDir"] = given["working_dir"]
    if env := given.get("env"):
        container["env"] = [{"name": name, "value": str(value)} for name, value in env.items()]
    requests, limits = _amounts(given, "resources", owner), _amounts(given, "limits", owner)
    limits = {**{name: amount for name, amount in requests.items() if "/" in name}, **limits}
    if resources := {name: amounts for name, amounts in (("requests", requests), ("limits", limits)) if amounts}:
        container["resources"] = resources
    return container


def command_line(command: Command) -> list[str]:
    """Return a command as a program with its arguments. Raises InvalidJob."""
    if isinstance(command, str):
        return ["/bin/sh", "-c", command]
    if not isinstance(command, Sequence) or not command:
        raise InvalidJob(f"command: {command!r} is no command; give a text for /bin/sh, or a list of words")
    return [str(word) for word in command]


def _amounts(given: Mapping[str, Any], name: str, owner: str) -> dict[str, str]:
    amounts = given.get(name, {})
    if not isinstance(amounts, Mapping):
        raise InvalidJob(f'{owner}: {name} is a mapping such as {{"cpu": 2, "memory": "4Gi"}}, not {amounts!r}')
    return {resource: str(amount) for resource, amount in amounts.items()}


def _policies(given: Policies) -> list[Manifest]:
    if not isinstance(given, Mapping):
        return [dict(policy) for policy in given]
    return [
        {"exitCode": on, "action": action} if isinstance(on, int) else {"event": on, "action": action}
        for on, action in given.items()
    ]


def _plugins(given: Sequence[str] | Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    if isinstance(given, str):
        raise InvalidJob(f'plugins: give a list such as ["{given}"], or a mapping to their arguments')
    return {name: list(given[name]) if isinstance(given, Mapping) else [] for name in given}


def _lifecycle(given: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Return the annotations that name lifecycle policies of the job, with their arguments."""
    if not given:
        return {}
    arguments = {f"{names.POLICY_ARGUMENTS}{name}": json.dumps(dict(each)) for name, each in given.items() if each}
    return {names.POLICIES: ",".join(given), **arguments}


def _merged(base: Manifest, more: Mapping[str, Any]) -> Manifest:
    """Return `base` with the fields of `more`; mappings are merged, other values replaced."""
    result = dict(base)
    for key, value in more.items():
        inner = result.get(key)
        result[key] = _merged(inner, value) if isinstance(inner, dict) and isinstance(value, Mapping) else value
    return result


def _generated_name(tasks: Sequence[Manifest]) -> str:
    """Return a name made of the first image, with six random digits."""
    image = str(tasks[0]["template"]["spec"]["containers"][0]["image"]) if tasks else "job"
    word = re.sub(r"[^a-z0-9]+", "-", image.rpartition("/")[2].partition("@")[0].partition(":")[0].lower()).strip("-")
    return f"{word[:40] or 'job'}-{secrets.token_hex(3)}"
