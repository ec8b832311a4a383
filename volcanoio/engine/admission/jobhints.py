"""What a Job says that cannot have the effect it was written for: accepted, as Volcano does, but not in silence.

A row is a field, what becomes of it, and the next step. They are warnings: the Job runs without what they are about.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence

from volcanoio.engine.admission.findings import Findings
from volcanoio.engine.admission.request import AdmissionSettings
from volcanoio.model import durations, names
from volcanoio.model.batch import Job, JobEvent, LifecyclePolicy

_ITERATIONS = ("", "any", "all")
_TRUTHS = ("true", "false")


def hint_job(job: Job, settings: AdmissionSettings, findings: Findings) -> None:
    """Warn of everything in a Job that will have no effect."""
    spec = job.spec
    _policies(spec.policies, "spec.policies", findings)
    for index, task in enumerate(spec.tasks):
        _policies(task.policies, f"spec.tasks[{index}].policies", findings)
        if task.depends_on is not None and task.depends_on.iteration not in _ITERATIONS:
            findings.mention(
                f"spec.tasks[{index}].dependsOn.iteration",
                f'"{task.depends_on.iteration}" counts as all: the task waits for every dependency',
                'write "any" if one is enough, else leave it out',
            )
    _gang(job, findings)
    _schedulers(job, settings.schedulers, findings)
    replicas = sum(task.replicas for task in spec.tasks)
    if spec.min_success is not None and spec.min_success > replicas:
        findings.mention(
            "spec.minSuccess",
            f"{spec.min_success} pods can never succeed, the job has {replicas}; it will fail",
            "lower minSuccess or raise the tasks' replicas",
        )
    _annotations(job.metadata.annotations, "metadata.annotations", findings)
    _annotations(job.metadata.labels, "metadata.labels", findings)
    for name, warning in _of_plugins(job, settings):
        findings.mention(f"spec.plugins.{name}", *warning)


def _gang(job: Job, findings: Findings) -> None:
    """A gang starts as a whole, so it must not count pods that are made only once others of it run or ended."""
    first = sum(task.replicas for task in job.spec.tasks if task.depends_on is None or not task.depends_on.name)
    wanted = job.spec.min_available
    if first < wanted:
        findings.mention(
            "spec.minAvailable",
            f"{wanted} pods are to start together, but only {first} do not wait for other tasks (dependsOn), so none "
            "will start",
            f"lower minAvailable to {first} or less",
        )


def _schedulers(job: Job, known: Sequence[str], findings: Findings) -> None:
    """Names that no scheduler of this cluster goes by."""
    named = {"spec.schedulerName": job.spec.scheduler_name}
    for index, task in enumerate(job.spec.tasks):
        template = task.template.get("spec") or {}
        named[f"spec.tasks[{index}].template.spec.schedulerName"] = template.get("schedulerName") or ""
    for path, name in named.items():
        if known and name and name not in known:
            findings.mention(path, f'no scheduler here is named "{name}", so its pods stay Pending', f"use {known[0]}")


def _policies(policies: Sequence[LifecyclePolicy], path: str, findings: Findings) -> None:
    for index, policy in enumerate(policies):
        if JobEvent.POD_PENDING in (policy.event, *policy.events) and not policy.timeout:
            findings.mention(
                f"{path}[{index}].timeout",
                "every pod is pending at first, so a policy for PodPending without a timeout never acts",
                "say for how long a pod may be pending, such as timeout: 10m",
            )


def _duration(text: str) -> str:
    try:
        durations.seconds(text)
    except durations.DurationError as error:
        return str(error)
    return ""


def _truth(text: str) -> str:
    return "" if text.lower() in _TRUTHS else f'"{text}" is neither "true" nor "false"'


def _budget(text: str) -> str:
    digits = text.removesuffix("%")
    number = int(digits) if digits.isascii() and digits.isdigit() else 0
    if number > 0 and (digits == text or number < 100):
        return ""
    return f'"{text}" is neither a number of pods from 1 on nor a part of them from 1% to 99%'


_RULES: Mapping[str, Callable[[str], str]] = {
    names.COOLDOWN_TIME: _duration,
    names.PREEMPTABLE: _truth,
    names.JDB_MIN_AVAILABLE: _budget,
    names.JDB_MAX_UNAVAILABLE: _budget,
}
"""What the scheduler reads of a Job's annotations and labels, and the rule of each."""


def _annotations(given: Mapping[str, str], path: str, findings: Findings) -> None:
    for name in sorted(given):
        prefix, slash, _ = name.partition("/")
        for written, meant in ((name, names.POLICIES), (prefix + slash, names.POLICY_ARGUMENTS)):
            if written != meant and difflib.get_close_matches(written, (meant,), cutoff=0.9):
                findings.mention(f"{path}[{name}]", "it has no effect", f'did you mean "{meant}"?')
    for name, rule in _RULES.items():
        if name in given and (broken := rule(given[name])):
            findings.mention(f"{path}[{name}]", "it has no effect", broken)
    if names.JDB_MIN_AVAILABLE in given and names.JDB_MAX_UNAVAILABLE in given:
        advice = f"{names.JDB_MIN_AVAILABLE} is what counts; give one of them"
        findings.mention(f"{path}[{names.JDB_MAX_UNAVAILABLE}]", "it has no effect", advice)


def _of_plugins(job: Job, settings: AdmissionSettings) -> Iterator[tuple[str, tuple[str, str]]]:
    """What each job plugin has to say; one that fails here was told as a refusal before."""
    known = settings.job_plugins or {}
    for name, arguments in sorted((job.spec.plugins or {}).items()):
        if name in known:
            for rule, _, advice in (each.partition("; ") for each in known[name](arguments or ()).hints(job)):
                yield name, (rule, advice)
