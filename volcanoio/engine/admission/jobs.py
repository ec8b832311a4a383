"""Defaults and rules of a Job (Volcano: pkg/webhooks/admission/jobs), at its creation and on updates.

Plugins that others need are added, and each plugin checks the Job itself, where Volcano's webhook has fixed rules.
Fields that cannot have their intended effect are accepted with a warning, as the Job runs without it.
"""

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from volcanoio.engine.admission.jobtasks import (
    check_counts,
    check_dependencies,
    check_policies,
    check_tasks,
    check_topology,
)
from volcanoio.engine.admission.pods import budget_error
from volcanoio.engine.admission.queues import check_job_queue
from volcanoio.engine.admission.request import AdmissionLookup, AdmissionSettings, Findings
from volcanoio.engine.admission.topology import warn_about_numa_policies
from volcanoio.framework.arguments import MOST_COMPARED, shortened
from volcanoio.framework.jobs import lenient_plugin
from volcanoio.model import names, quantity, times
from volcanoio.model.base import Manifest
from volcanoio.model.batch import MOST_PODS, Job, JobEvent, LifecyclePolicy, VolumeSpec
from volcanoio.model.validation.dns_names import qualified_rule, subdomain_rule


def needed_plugins(names: Iterable[str], settings: AdmissionSettings) -> list[str]:
    """Return the plugins that the named ones need, directly or indirectly, in a fixed order."""
    known = settings.job_plugins or {}
    found: list[str] = []
    waiting = sorted(names)
    for name in waiting:
        for needed in getattr(known.get(name), "needs", ()):  # a factory may be a plain function
            if needed not in found:
                found.append(needed)
                waiting.append(needed)
    return found


def check_plugins(job: Job, settings: AdmissionSettings, findings: Findings, *, stored: bool = False) -> None:
    """Refuse unknown plugins, invalid arguments, and Jobs that a plugin cannot work with.

    On an update too: a plugin that works with two replicas need not work with ten thousand. Arguments that another
    admission accepted do not refuse an update of a `stored` job, as an update cannot change them.
    """
    plugins = job.spec.plugins or {}
    if (known := settings.job_plugins) is None:
        return
    for name in sorted(plugins):
        if name not in known:
            rule = f"unable to find job plugin: {name}{findings.hint(name, known)}"
            findings.refuse(f"spec.plugins.{name}", rule)
            continue
        try:
            given = plugins[name] or ()
            plugin = lenient_plugin(known[name], given)[0] if stored else known[name](given)
        except Exception as error:  # third-party code: its exception is the reason
            findings.refuse(f"spec.plugins.{name}", str(error), "fix the argument")
            continue
        try:
            found = plugin.problems(job)
        except Exception as error:
            findings.refuse(f"spec.plugins.{name}", f"the plugin failed: {error}", "leave it out, or fix it")
        else:
            for problem in found:
                findings.refuse(f"spec.plugins.{name}", problem)


MAX_RETRY = 3


def default_job(job: Manifest, settings: AdmissionSettings) -> None:
    """Set the defaults in place. Values of the wrong type are left to the validation."""
    if not isinstance(spec := job.get("spec"), dict):
        return
    spec["queue"] = spec.get("queue") or names.DEFAULT_QUEUE
    spec["schedulerName"] = spec.get("schedulerName") or settings.scheduler_name
    spec["maxRetry"] = spec.get("maxRetry") or MAX_RETRY
    tasks = [task for task in _list_or_empty(spec.get("tasks")) if isinstance(task, dict)]
    for index, task in enumerate(tasks):
        _default_task(task, index)
    if not spec.get("minAvailable"):
        spec["minAvailable"] = sum(_number_or_zero(task.get("minAvailable")) for task in tasks)
    if isinstance(plugins := spec.get("plugins"), dict):
        for needed in needed_plugins(plugins, settings):
            plugins.setdefault(needed, [])


def set_creator(job: Manifest, username: str, settings: AdmissionSettings) -> None:
    """Annotate a new Job with its creator, in place.

    Users cannot choose the value. Jobs that the controllers create have an owner instead: their CronJob or JobFlow.
    """
    metadata = job.get("metadata")
    if not username or not isinstance(metadata, dict):
        return
    given = metadata.get("annotations")
    annotations = {name: text for name, text in (given or {}).items() if name != names.CREATOR}
    if username not in settings.trusted_users:
        annotations[names.CREATOR] = username
    if annotations or given:
        metadata["annotations"] = annotations


def check_creator(new: Job, old: Manifest, findings: Findings) -> None:
    """Refuse another creator than that of the stored Job; an update may leave the annotation out."""
    creator = new.metadata.annotations.get(names.CREATOR)
    before = ((old.get("metadata") or {}).get("annotations") or {}).get(names.CREATOR)
    if creator is not None and creator != before:
        advice = "leave the annotation out, or as it is"
        findings.refuse(f"metadata.annotations[{names.CREATOR}]", "it is set when the Job is created", advice)


def _default_task(task: Manifest, index: int) -> None:
    task["name"] = task.get("name") or f"{names.DEFAULT_TASK_SPEC}{index}"
    task["maxRetry"] = task.get("maxRetry") or MAX_RETRY
    if task.get("minAvailable") is None:
        policy = task.get("partitionPolicy")
        partitions = _number_or_zero(policy.get("minPartitions")) if isinstance(policy, dict) else 0
        if isinstance(policy, dict) and partitions > 0:
            task["minAvailable"] = partitions * _number_or_zero(policy.get("partitionSize"))
        else:
            task["minAvailable"] = _number_or_zero(task.get("replicas"))
    template = task.get("template")
    spec = template.get("spec") if isinstance(template, dict) else None
    if isinstance(spec, dict) and spec.get("hostNetwork") and not spec.get("dnsPolicy"):
        spec["dnsPolicy"] = "ClusterFirstWithHostNet"


def _list_or_empty(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _number_or_zero(value: Any) -> int:
    return value if isinstance(value, int) else 0


_CLAIM_CONFLICT = (
    "conflict: If you want to use an existing PVC, just specify VolumeClaimName."
    "If you want to create a new PVC, you do not need to specify VolumeClaimName"
)


def check_volumes(volumes: Sequence[VolumeSpec], findings: Findings) -> None:
    """Check mount paths and claims. Both older forms of a claim give a warning, and are refused when strict."""
    seen: set[str] = set()
    for index, volume in enumerate(volumes):
        path = f"spec.volumes[{index}]"
        if not volume.mount_path:
            findings.refuse(f"{path}.mountPath", "mountPath is required", "give the path inside the containers")
        elif volume.mount_path in seen:
            findings.refuse(f"{path}.mountPath", f"duplicated mountPath: {volume.mount_path}", "give each its own path")
        seen.add(volume.mount_path)
        if volume.volume_claim_name and (rule := subdomain_rule(volume.volume_claim_name)):
            findings.refuse(
                f"{path}.volumeClaimName",
                f"invalid VolumeClaimName {volume.volume_claim_name} : {rule}",
                "choose a name of lower case letters, digits, '-' and '.'",
            )
        if not volume.volume_claim_name and volume.volume_claim is None:
            findings.warn_unless_strict(
                path,
                "either VolumeClaim or VolumeClaimName must be specified",
                "it is made an emptyDir, which ends with each pod",
                "name a claim to keep the data",
            )
        elif volume.volume_claim_name and volume.volume_claim is not None:
            findings.warn_unless_strict(
                path,
                _CLAIM_CONFLICT,
                f"claim {volume.volume_claim_name} is used, and created as described if it is absent",
                "keep one of them",
            )


_ITERATIONS = ("", "any", "all")
_BOOLEANS = ("true", "false")


def warn_about_job(job: Job, settings: AdmissionSettings, findings: Findings) -> None:
    """Warn about everything in a Job that will have no effect."""
    spec = job.spec
    _warn_about_policies(spec.policies, "spec.policies", findings)
    for index, task in enumerate(spec.tasks):
        _warn_about_policies(task.policies, f"spec.tasks[{index}].policies", findings)
        if task.depends_on is not None and task.depends_on.iteration not in _ITERATIONS:
            findings.warn(
                f"spec.tasks[{index}].dependsOn.iteration",
                f'"{task.depends_on.iteration}" counts as all: the task waits for every dependency',
                'write "any" if one is enough, else leave it out',
            )
    _warn_about_gang(job, findings)
    _warn_about_schedulers(job, settings.schedulers, findings)
    replicas = _replicas(job)
    if spec.min_success is not None and spec.min_success > replicas:
        findings.warn(
            "spec.minSuccess",
            f"{spec.min_success} pods can never succeed, the job has {replicas}; it will fail",
            "lower minSuccess or raise the tasks' replicas",
        )
    _warn_about_annotations(job.metadata.annotations, "metadata.annotations", findings)
    _warn_about_annotations(job.metadata.labels, "metadata.labels", findings)
    for name, warning in _plugin_warnings(job, settings):
        findings.warn(f"spec.plugins.{name}", *warning)


def _warn_about_gang(job: Job, findings: Findings) -> None:
    """Warn about a gang that includes pods which are created only after others of it run or ended."""
    first = sum(task.replicas for task in job.spec.tasks if task.depends_on is None or not task.depends_on.name)
    required = job.spec.min_available
    if first < required:
        findings.warn(
            "spec.minAvailable",
            f"{required} pods are to start together, but only {first} do not wait for other tasks (dependsOn), so none "
            "will start",
            f"lower minAvailable to {first} or less",
        )


def _warn_about_schedulers(job: Job, known: Sequence[str], findings: Findings) -> None:
    named = {"spec.schedulerName": job.spec.scheduler_name}
    for index, task in enumerate(job.spec.tasks):
        template = task.template.get("spec") or {}
        named[f"spec.tasks[{index}].template.spec.schedulerName"] = template.get("schedulerName") or ""
    for path, name in named.items():
        if known and name and name not in known:
            findings.warn(path, f'no scheduler here is named "{name}", so its pods stay Pending', f"use {known[0]}")


def _warn_about_policies(policies: Sequence[LifecyclePolicy], path: str, findings: Findings) -> None:
    for index, policy in enumerate(policies):
        if JobEvent.POD_PENDING in (policy.event, *policy.events) and not policy.timeout:
            findings.warn(
                f"{path}[{index}].timeout",
                "every pod is pending at first, so a policy for PodPending without a timeout never acts",
                "say for how long a pod may be pending, such as timeout: 10m",
            )


def _duration_error(text: str) -> str:
    try:
        times.parse_duration(text)
    except times.DurationError as error:
        return str(error)
    return ""


def _boolean_error(text: str) -> str:
    return "" if text.lower() in _BOOLEANS else f'"{text}" is neither "true" nor "false"'


_ANNOTATION_RULES: Mapping[str, Callable[[str], str]] = {
    names.COOLDOWN_TIME: _duration_error,
    names.PREEMPTABLE: _boolean_error,
    names.JDB_MIN_AVAILABLE: budget_error,
    names.JDB_MAX_UNAVAILABLE: budget_error,
}
"""Annotations and labels of a Job that the scheduler reads, and their rules."""


def _warn_about_annotations(given: Mapping[str, str], path: str, findings: Findings) -> None:
    for name in sorted(given)[:MOST_COMPARED]:
        prefix, slash, _ = name.partition("/")
        for written, meant in ((name, names.POLICIES), (prefix + slash, names.POLICY_ARGUMENTS)):
            is_near = abs(len(written) - len(meant)) <= len(meant) // 4  # what the cutoff implies, at less cost
            if is_near and written != meant and difflib.get_close_matches(written, (meant,), cutoff=0.9):
                findings.warn(f"{path}[{name}]", "it has no effect", f'did you mean "{meant}"?')
    for name, rule in _ANNOTATION_RULES.items():
        if name in given and (broken := rule(given[name])):
            findings.warn(f"{path}[{name}]", "it has no effect", broken)
    if names.JDB_MIN_AVAILABLE in given and names.JDB_MAX_UNAVAILABLE in given:
        advice = f"{names.JDB_MIN_AVAILABLE} is what counts; give one of them"
        findings.warn(f"{path}[{names.JDB_MAX_UNAVAILABLE}]", "it has no effect", advice)


def _plugin_warnings(job: Job, settings: AdmissionSettings) -> Iterator[tuple[str, tuple[str, str]]]:
    """Return the warnings of each job plugin; one that fails here was refused before."""
    known = settings.job_plugins or {}
    for name, arguments in sorted((job.spec.plugins or {}).items()):
        if name in known:
            for rule, _, advice in (each.partition("; ") for each in known[name](arguments or ()).warnings(job)):
                yield name, (rule, advice)


MAX_NAME_LENGTH = 63
"""A Job's name is also a label value of its pods."""


def check_job(job: Job, lookup: AdmissionLookup, settings: AdmissionSettings, findings: Findings) -> None:
    """Check a new Job, with defaults set."""
    check_content(job, settings, findings)
    if job.spec.tasks:
        check_job_queue(job.spec.queue, lookup, findings)
    if not findings.messages:  # a refused Job gets no warnings, as it may be malformed
        warn_about_numa_policies(job, findings)
        warn_about_job(job, settings, findings)


def check_content(job: Job, settings: AdmissionSettings, findings: Findings) -> None:
    """Check what depends on the Job alone."""
    spec = job.spec
    if not spec.tasks:
        findings.refuse("spec.tasks", "No task specified in job spec", "add at least one task with a pod template")
        return
    _check_name(job, findings)
    check_numbers(job, findings)
    check_tasks(job, findings)
    check_policies(spec.policies, "spec.policies", findings)
    check_topology(spec.network_topology, "spec.networkTopology", findings)
    if _has_possible_size(job):
        check_plugins(job, settings, findings)
    check_volumes(spec.volumes, findings)
    check_dependencies(spec.tasks, findings)


def _has_possible_size(job: Job) -> bool:
    """Return whether a job can have its pods: plugins list them, so that they are not asked about others."""
    return all(task.replicas >= 0 for task in job.spec.tasks) and _replicas(job) <= MOST_PODS


def _replicas(job: Job) -> int:
    return sum(task.replicas for task in job.spec.tasks)


def check_numbers(job: Job, findings: Findings, *, updating: bool = False) -> None:
    """Check the Job's numbers, on create and update."""
    spec = job.spec
    replicas = _replicas(job)
    if spec.min_available < 0:
        findings.refuse(
            "spec.minAvailable", "job 'minAvailable' must be >= 0", "give the pods that must start together"
        )
    elif spec.min_available > replicas:
        rule = (
            "must not be greater than total replicas"
            if updating
            else "should not be greater than total replicas in tasks"
        )
        findings.refuse(
            "spec.minAvailable",
            f"job 'minAvailable' {rule} ({spec.min_available} > {replicas})",
            "lower minAvailable or raise the tasks' replicas",
        )
    if replicas > MOST_PODS:
        findings.refuse(
            "spec.tasks",
            f"a job has at most {MOST_PODS} pods, all tasks together ({replicas} wanted)",
            "lower the tasks' replicas or submit several jobs",
        )
    for field, value in (("maxRetry", spec.max_retry), ("ttlSecondsAfterFinished", spec.ttl_seconds_after_finished)):
        if value is not None and value < 0:
            findings.refuse(f"spec.{field}", f"'{field}' cannot be less than zero", "give 0 or more")
    findings.check_duration("spec.runningEstimate", spec.running_estimate)
    if spec.min_success is not None and spec.min_success < 1:
        findings.refuse("spec.minSuccess", "'minSuccess' must be at least 1", "leave it out or give 1 or more")


def _check_name(job: Job, findings: Findings) -> None:
    if rule := qualified_rule(job.metadata.name):
        findings.refuse(
            "metadata.name",
            f"create job with name {job.metadata.name} validate failed {rule}",
            f"choose a name of at most {MAX_NAME_LENGTH} letters, digits, '-', '_' and '.'",
        )


UPDATE_RULE = (
    "job updates may not change fields other than `minAvailable`, `tasks[*].replicas under spec` and "
    "`PriorityClassName`"
)
_UPDATE_ADVICE = "delete the Job and create it again to change this"
FREE_KEYS = frozenset({
    "annotations", "labels", "limits", "matchLabels", "nodeSelector", "options", "overhead", "plugins", "requests",
    "userAnnotations", "volumeAttributes",
})  # fmt: skip
"""Maps with arbitrary keys: a key without a value is not a missing key."""
ZERO_IS_ABSENT = frozenset({
    "chapAuthDiscovery", "chapAuthSession", "containerPort", "failureThreshold", "hostIPC", "hostNetwork", "hostPID",
    "hostPort", "initialDelaySeconds", "maxRetry", "minPartitions", "partition", "partitionSize", "periodSeconds",
    "port", "readOnly", "seconds", "sslEnabled", "stdin", "stdinOnce", "successThreshold", "timeoutSeconds",
    "totalPartitions", "tty", "weight",
})  # fmt: skip
"""Numbers and booleans that are no pointers in Kubernetes' and Volcano's Go types, so that zero means absent."""
_OPTIONAL_TEXTS = frozenset({"hostnameOverride", "storageClassName", "volumeAttributesClassName"})
"""Strings that are pointers in Go, so that "" is a value."""
_VALUE_OBJECTS = FREE_KEYS | {"metadata", "resources", "spec", "template"}
"""Objects that are no pointers in Go, so that {} means absent."""
_QUANTITY_FIELDS = frozenset({"divisor", "limits", "overhead", "requests", "sizeLimit"})


def check_update(new: Job, old: Manifest, raw: Manifest, settings: AdmissionSettings, findings: Findings) -> None:
    """Check the numbers, and that the rest of the spec is unchanged.

    `raw` and `old` are manifests; metadata may change.
    """
    for index, task in enumerate(new.spec.tasks):
        check_counts(task, f"spec.tasks[{index}]", new.metadata.name, findings, updating=True)
    check_numbers(new, findings, updating=True)
    check_topology(new.spec.network_topology, "spec.networkTopology", findings)
    # an unchanged spec may belong to an update that only removes a finalizer
    if old.get("spec") != raw.get("spec") and _has_possible_size(new):
        check_plugins(new, settings, findings, stored=True)
    before, after = _fixed_part(old, settings), _fixed_part(raw, settings)
    if len(before.get("tasks") or ()) != len(after.get("tasks") or ()):
        findings.refuse("spec.tasks", "job updates may not add or remove tasks", _UPDATE_ADVICE)
        return
    for path in _differences(before, after, ("spec",), "spec"):
        findings.refuse(_format_path(path), UPDATE_RULE, _UPDATE_ADVICE)


def _fixed_part(job: Manifest, settings: AdmissionSettings) -> Manifest:
    """Return the spec with defaults, without the fields that may change."""
    copy: Manifest = msgspec.json.decode(msgspec.json.encode(job))  # a tenth of what deepcopy takes
    default_job(copy, settings)
    spec: Manifest = copy.get("spec") or {}
    for field in ("minAvailable", "priorityClassName"):
        spec.pop(field, None)
    for task in spec.get("tasks") or ():
        for field in ("replicas", "minAvailable"):
            task.pop(field, None)
    for volume in spec.get("volumes") or ():
        if volume.get("volumeClaim") is not None:
            volume.pop("volumeClaimName", None)
    return spec


_Path: TypeAlias = tuple[str | int, ...]
"""Keys and indexes, which become text only where values differ: keys can be long, and what is below them large."""


def _differences(before: Any, after: Any, path: _Path, field: str) -> Iterator[_Path]:
    """Iterate over the paths at which two values of a field differ as Go reads them."""
    if _is_unset(before, field) and _is_unset(after, field):
        return
    if field in _VALUE_OBJECTS:
        before, after = {} if before is None else before, {} if after is None else after
    if isinstance(before, dict) and isinstance(after, dict):
        yield from _object_differences(before, after, path, field)
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from _differences(old, new, (*path, index), "")
    elif before != after and not (field in _QUANTITY_FIELDS and _is_same_amount(before, after)):
        yield path


def _object_differences(before: Manifest, after: Manifest, path: _Path, field: str) -> Iterator[_Path]:
    for key in sorted({*before, *after}):
        key_path = (*path, key)
        if field not in FREE_KEYS:
            yield from _differences(before.get(key), after.get(key), key_path, key)
        elif (key in before) != (key in after):
            yield key_path
        elif field not in _QUANTITY_FIELDS or not _is_same_amount(before[key], after[key]):
            yield from _differences(before[key], after[key], key_path, "")


def _format_path(path: _Path) -> str:
    return "".join(f"[{each}]" if isinstance(each, int) else f".{shortened(each, 253)}" for each in path)[1:]


def _is_unset(value: Any, field: str) -> bool:
    """Return whether a value of a field means the same as its absence.

    Go's clients omit such values when they write an object back. A zero behind a pointer is not among them.
    """
    match value:
        case None | []:
            return True
        case str():
            return not value and field not in _OPTIONAL_TEXTS
        case dict():
            return field in _VALUE_OBJECTS and all(
                field not in FREE_KEYS and _is_unset(value[key], key) for key in value
            )
    return not value and field in ZERO_IS_ABSENT


def _is_same_amount(one: Any, other: Any) -> bool:
    try:
        return quantity.parse(str(one)) == quantity.parse(str(other))
    except quantity.QuantityError:
        return False
