"""`volcanoio run` and `volcanoio submit`: Jobs from options, scripts and manifests, and what happens after.

The manifest of a Job from options is made as by the Python client (`volcanoio.client`). Indices from 0 on are a Job of
as many pods, in which VC_TASK_INDEX is the index; others are a table of shards, and the index is in VC_SHARD.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import msgspec

from volcanoio.cli.act.operations import print_failure
from volcanoio.cli.connection import Cluster, reporting_api_errors
from volcanoio.cli.look.logs import LogOptions, print_logs
from volcanoio.cli.look.waiting import wait_for_jobs, watch_job
from volcanoio.cli.output import documents, formatted, object_name
from volcanoio.cli.terminal import CommandError, ExitCode, UsageError
from volcanoio.client.errors import InvalidJob
from volcanoio.client.shards import Sharded, sharded_job
from volcanoio.client.specification import JobOptions, job_manifest
from volcanoio.engine.jobs.status.phases import current_phase
from volcanoio.framework.arguments import ArgumentError, parse_annotation
from volcanoio.kube.errors import AlreadyExists, check
from volcanoio.model import kinds
from volcanoio.model.base import Manifest
from volcanoio.model.batch import MOST_PODS, Job, JobPhase
from volcanoio.model.documents import MANIFESTS, read_text
from volcanoio.model.kinds import Kind
from volcanoio.model.manifests import ManifestError, load_manifests

GPU = "nvidia.com/gpu"
_PENDING_SECONDS = 10.0
"""Time after which --follow remarks that a job still waits."""
_SPAN = re.compile(r"(\d+)(?:-(\d+)(?::(\d+))?)?")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")


class After(NamedTuple):
    """What a command does once the job exists: how it is created, printed and waited for."""

    dry_run: str = "none"
    """none, client or server."""
    output: str = "text"
    follow: bool = False
    wait: bool = False
    watch: bool = False
    timeout: float | None = None

    def checked(self) -> After:
        """Return self; raises UsageError for options that exclude each other."""
        chosen = [name for name in ("follow", "wait", "watch") if getattr(self, name)]
        if len(chosen) > 1:
            raise UsageError(f"--{chosen[0]} and --{chosen[1]} are two ways to wait for the job; give one of them")
        if chosen and self.dry_run != "none":
            raise UsageError(f"--{chosen[0]}: with --dry-run there is no job to wait for; leave one of the two out")
        if self.timeout is not None and not chosen:
            raise UsageError("--timeout is for --wait, --watch and --follow; add one of them")
        return self


def indices(text: str) -> list[int]:
    """Return the indices of --array: `0-9`, `0-20:5`, `1,3,5-7`. Raises UsageError."""
    found: list[int] = []
    for part in text.split(","):
        if (match := _SPAN.fullmatch(part.strip())) is None:
            raise UsageError(f'--array: "{part}" is no index or range; write for instance 0-9, 0-20:5 or 1,3,5-7')
        first, last, step = int(match[1]), int(match[2] or match[1]), int(match[3] or 1)
        if last < first or step < 1:
            raise UsageError(f'--array: "{part}" is empty; write the smaller number first, and a step of 1 or more')
        if len(found) + (last - first) // step >= MOST_PODS:
            raise UsageError(f"--array: a job has at most {MOST_PODS} pods; divide it into several jobs")
        found += range(first, last + 1, step)
    if len(set(found)) < len(found):
        raise UsageError(f'--array: "{text}" has an index twice; give each once')
    return found


def job_of(given: Mapping[str, Any], command: Sequence[str]) -> Sharded:
    """Return the Job of the options of `run`; options that are None are left out. Raises UsageError."""
    options: dict[str, Any] = {
        name: given[name]
        for name in (
            "name",
            "image",
            "queue",
            "replicas",
            "min_available",
            "priority",
            "working_dir",
            "running_estimate",
            "limits",
        )
        if given.get(name) is not None
    }
    resources = {"cpu": given.get("cpu"), "memory": given.get("memory"), GPU: given.get("gpu")}
    resources |= given.get("resources") or {}
    options["resources"] = {name: amount for name, amount in resources.items() if amount is not None}
    options["env"] = dict(_variable(each) for each in given.get("env") or ())
    options["plugins"] = {"env": [], **dict(_plugin(each) for each in given.get("plugins") or ())}
    options["lifecycle"] = dict(_lifecycle(each) for each in given.get("lifecycle") or ())
    job: JobOptions = options  # type: ignore[assignment]  # the names above are its
    array, days = given.get("array"), given.get("days")
    if array is not None and days is not None:
        raise UsageError("--array and --days are two ways to divide the work; give one of them")
    try:
        if array is None and days is None:
            return Sharded(job_manifest({**job, **({"command": command} if command else {})}), {})
        if not command:
            option = "--array" if days is None else "--days"
            raise UsageError(f"{option} needs the command that each pod runs; give it after --")
        if days is not None:
            first, _, last = days.partition("..")
            return sharded_job(command, job, days=(first, last or first))
        wanted = indices(given["array"])
        if wanted == list(range(len(wanted))):
            return sharded_job(command, job, shards=len(wanted))
        return sharded_job(command, job, rows=wanted)
    except InvalidJob as error:
        raise UsageError(error) from None


def _variable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not _VARIABLE.fullmatch(name):
        raise UsageError(f'--env: "{text}" is not NAME=VALUE; write for instance SEED=7, or SEED to pass it on')
    if not equals and name not in os.environ:
        raise UsageError(f'--env: "{name}" is not set here; write {name}=VALUE')
    return name, value if equals else os.environ[name]


def _plugin(text: str) -> tuple[str, list[str]]:
    name, _, arguments = text.partition("=")
    return name, arguments.split()


def _lifecycle(text: str) -> tuple[str, dict[str, Any]]:
    """Return name and arguments of a lifecycle policy: `NAME` or `NAME=KEY: VALUE, KEY: VALUE`."""
    name, _, arguments = text.partition("=")
    try:
        return name, parse_annotation(f"{{{arguments}}}", "--lifecycle", "oom_scale_up=factor: 2, cap: 16Gi")
    except ArgumentError as error:
        raise UsageError(error) from None


def read_objects(files: Iterable[Path], script: Callable[[str, str], Sharded]) -> list[Sharded]:
    """Return the objects of manifests and scripts, - for stdin; raises UsageError.

    `script` makes the Job of a text that begins with `#!`, and gets its source, too.
    """
    found: list[Sharded] = []
    for file in files:
        source = "stdin" if str(file) == "-" else str(file)
        text = _text(file, source)
        if text.startswith("#!"):
            found.append(script(text, source))
            continue
        try:
            some = load_manifests(text, source)
        except ManifestError as error:
            raise UsageError(error) from None
        if not some:
            raise UsageError(f"{source}: has no objects; give a Job (apiVersion: {kinds.JOB.api_version})")
        for each in some:
            if kinds.named(each["apiVersion"], each["kind"]) is None:
                known = "is not known here; apply it with kubectl"
                raise UsageError(f"{source}: {each['kind']} of {each['apiVersion']} {known}")
        found += [Sharded(each, {}) for each in some]
    return found


def _text(file: Path, source: str) -> str:
    try:
        return sys.stdin.read() if str(file) == "-" else read_text(file, MANIFESTS)
    except OSError as error:
        raise UsageError(f"{source}: {error.strerror}; give the path of a manifest or a script") from None
    except UnicodeDecodeError:
        raise UsageError(f"{source}: not UTF-8 text; give a manifest or a script") from None


def objects_of_run(
    image: str | None, command: Sequence[str], file: Path | None, given: Mapping[str, Any]
) -> list[Sharded]:
    """Return the objects of `run`: the Job of an image and options, or those of a file. Raises UsageError."""
    if file is None:
        if image is None:
            raise UsageError("give an image, such as: volcanoio run busybox -- echo hello; or a file with -f")
        return [job_of({**given, "image": image}, command)]
    extra = [f"--{name.replace('_', '-')}" for name, value in given.items() if value and name not in ("name", "queue")]
    if image is not None or command or extra:
        what = "an image" if image is not None else "a command" if command else extra[0]
        raise UsageError(f"-f: the file has what the job is; leave {what} out, --name and --queue may stay")
    objects = read_objects([file], _no_script)
    _override(objects, given)
    return objects


def _no_script(_text: str, source: str) -> Sharded:
    raise UsageError(f"{source}: this is a script; run it with: volcanoio submit {source}")


def _override(objects: Sequence[Sharded], given: Mapping[str, Any]) -> None:
    """Give the only Job the name and queue of these options, if they are given. Raises UsageError."""
    jobs = [each.job for each in objects if each.job["kind"] == kinds.JOB.kind]
    if len(jobs) != 1:
        raise UsageError(f"-f: run takes a file with one Job, and this has {len(jobs)}; use: volcanoio submit")
    if given.get("name") is not None:
        jobs[0].setdefault("metadata", {})["name"] = given["name"]
    if given.get("queue") is not None:
        jobs[0].setdefault("spec", {})["queue"] = given["queue"]


def print_only(objects: Sequence[Sharded], output: str) -> int:
    """Print what would be submitted, for --dry-run=client."""
    found = [manifest for each in objects for manifest in (each.job, *_tables(each, each.job["metadata"]))]
    if output == "name":
        print("\n".join(object_name(_kind(each), each) for each in found))
    elif output == "json":
        shown = found[0] if len(found) == 1 else {"apiVersion": "v1", "kind": "List", "items": found}
        print(formatted(shown, "json"))
    else:
        print("\n---\n".join(formatted(each, "yaml") for each in found))
    return ExitCode.OK


def _tables(sharded: Sharded, meta: Manifest) -> list[Manifest]:
    """Return the ConfigMap of a job of shards, which has this metadata; it has an owner once that is stored."""
    if not sharded.data:
        return []
    table = sharded.config_map(meta["name"], meta.get("namespace", ""), meta.get("uid", ""))
    if "uid" not in meta:
        table["metadata"] = {"name": table["metadata"]["name"]}
    return [table]


def _kind(manifest: Manifest) -> Kind:
    kind = kinds.named(manifest["apiVersion"], manifest["kind"])
    assert kind is not None  # `read_objects` refuses others
    return kind


async def submit(cluster: Cluster, objects: Sequence[Sharded], after: After) -> int:
    """Create objects, print them, and wait for the jobs as `after` requires; returns the exit code.

    Objects that exist already are an error for Jobs, and are left as they are otherwise. The others are still created.
    """
    jobs: list[Manifest] = []
    code = ExitCode.OK
    for each in objects:
        try:
            created = await _create(cluster, each.job, after)
            if created is not None and after.dry_run == "none":
                await _create_tables(cluster, each, created, after)
        except CommandError as error:
            code = max(code, print_failure(error))
            if code is ExitCode.UNREACHABLE:
                return code
            continue
        if created is not None and each.job["kind"] == kinds.JOB.kind:
            jobs.append(created)
    if code is not ExitCode.OK or after.dry_run != "none" or not jobs:
        return code
    return await _await_jobs(cluster, jobs, after)


async def _create_tables(cluster: Cluster, sharded: Sharded, job: Manifest, after: After) -> None:
    """Create the ConfigMap of a job of shards; without it its pods would wait forever, so the job goes, too."""
    meta = job["metadata"]
    try:
        for table in _tables(sharded, meta):
            if await _create(cluster, table, after._replace(output="none")) is None:
                name, step = table["metadata"]["name"], "delete that one with kubectl, or choose another --name"
                raise CommandError(f"job {meta['name']} is not run: it needs a ConfigMap {name} of its own; {step}")
    except CommandError:
        with reporting_api_errors():
            await cluster.client.delete(kinds.JOB, meta["name"], meta["namespace"])
        raise


async def _create(cluster: Cluster, manifest: Manifest, after: After) -> Manifest | None:
    """Create one object and print it; None if it exists already and is no Job. Raises CommandError."""
    kind = _kind(manifest)
    meta = manifest.setdefault("metadata", {})
    if kind.namespaced:
        meta.setdefault("namespace", cluster.namespace)
    query = {"dryRun": "All"} if after.dry_run == "server" else None
    path, body = kind.path(meta.get("namespace", "")), json.dumps(manifest).encode()
    with reporting_api_errors():
        try:
            response = check(await cluster.client.transport.request("POST", path, query=query, body=body))
        except AlreadyExists:
            if kind is kinds.JOB:
                raise
            print(f"{object_name(kind, manifest)} exists already and is left as it is", file=sys.stderr)
            return None
    created: Manifest = msgspec.json.decode(response.body)
    if after.output == "text":
        print(f"{object_name(kind, created)} created{' (dry run)' if query else ''}", flush=True)
    elif after.output != "none":
        print(documents(kind, [created], after.output, is_list=False), flush=True)
    return created


async def _await_jobs(cluster: Cluster, jobs: Sequence[Manifest], after: After) -> int:
    """Follow, watch or wait for jobs; without one of these, name the next commands."""
    meta = jobs[0]["metadata"]
    names = [each["metadata"]["name"] for each in jobs]
    place = f" -n {meta['namespace']}"
    here = replace(cluster, namespace=meta["namespace"])
    if not (after.follow or after.watch or after.wait):
        if after.output == "text" and len(jobs) == 1:
            print(
                f"see it with: volcanoio watch {names[0]}{place}; why it waits: volcanoio why {names[0]}{place}",
                file=sys.stderr,
            )
        return ExitCode.OK
    if len(jobs) > 1 and not after.wait:
        raise UsageError(f"{len(jobs)} jobs were submitted: --follow and --watch are for one; wait for all with --wait")
    if after.watch:
        return await watch_job(here, names[0], after.timeout)
    try:
        if after.wait:
            return await wait_for_jobs(here, names, "", JobPhase.COMPLETED, after.timeout)
        return await _follow(here, names[0], after.timeout)
    except anyio.get_cancelled_exc_class():
        raise CommandError(
            f"{', '.join(names)} runs on; wait for it with: volcanoio wait {' '.join(names)}{place}, or end it with: "
            f"volcanoio cancel {' '.join(names)}{place}",
            ExitCode.INTERRUPTED,
        ) from None


async def _remark_pending(cluster: Cluster, name: str) -> None:
    """Print how to find out why a job has no logs yet, if it still waits after a while."""
    await anyio.sleep(_PENDING_SECONDS)
    job = await cluster.get(kinds.JOB, name)
    assert isinstance(job, Job)
    if current_phase(job) is JobPhase.PENDING:
        place = f" -n {cluster.namespace}"
        print(f"job {name} still waits; see why: volcanoio why {name}{place}", file=sys.stderr, flush=True)


async def _follow(cluster: Cluster, name: str, timeout: float | None) -> int:  # noqa: ASYNC109 - the user's
    """Print the logs of a job until it ends; returns its result."""
    with anyio.move_on_after(timeout) as scope:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_remark_pending, cluster, name)
            await print_logs(cluster, name, LogOptions(follow=True))
            tasks.cancel_scope.cancel()
    if scope.cancelled_caught:
        raise CommandError(
            f"job {name} has not ended in time and runs on; follow it with: volcanoio logs -f {name}", ExitCode.TIMEOUT
        )
    job = await cluster.get(kinds.JOB, name)
    assert isinstance(job, Job)
    phase = job.status.state.phase
    if phase == JobPhase.COMPLETED:
        return ExitCode.OK
    print(f"job {name} is {phase}; see: volcanoio job {name}", file=sys.stderr)
    return ExitCode.JOB_FAILED
