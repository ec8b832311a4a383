"""Rules of a Job's tasks: policies, dependencies, numbers and pod templates."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from volcanoio.engine.admission.request import Findings
from volcanoio.framework.arguments import few, shortened
from volcanoio.model import quantity
from volcanoio.model.base import Manifest
from volcanoio.model.batch import POLICY_EVENTS, Job, JobAction, JobEvent, LifecyclePolicy, NetworkTopology, TaskSpec
from volcanoio.model.validation.dns_names import qualified_rule
from volcanoio.model.validation.pod_template import validate_pod_template

ACTIONS = tuple(sorted(set(JobAction) - {JobAction.SYNC_JOB}))
_ANY_ADVICE = 'write "*" in quotes: unquoted it is a YAML alias'


def check_policies(policies: Sequence[LifecyclePolicy], path: str, findings: Findings) -> None:
    """Check every policy of a list, and their combination."""
    events: set[str] = set()
    codes: set[int] = set()
    for index, policy in enumerate(policies):
        place = f"{path}[{index}]"
        if (named := [*policy.events, *([policy.event] if policy.event else [])]) and policy.exit_code is not None:
            findings.refuse(place, "must not specify event and exitCode simultaneously", "make two policies of it")
        elif policy.exit_code is not None:
            _check_exit_code(policy.exit_code, codes, f"{place}.exitCode", findings)
        elif named:
            for event in dict.fromkeys(named):
                _check_event(event, events, f"{place}.event", findings)
        else:
            findings.refuse(place, "either event and exitCode should be specified", f"give one of them; {_ANY_ADVICE}")
        _check_action(policy, place, findings)
        findings.check_duration(f"{place}.timeout", policy.timeout)
    if JobEvent.ANY in events and len(events) > 1:
        findings.refuse(
            path, "if there's * here, no other policy should be here", "remove the policies of the other events"
        )


def _check_event(event: str, seen: set[str], path: str, findings: Findings) -> None:
    if event not in POLICY_EVENTS:
        rule = f'Invalid value: "{event}": invalid policy event'
        findings.refuse(path, rule, _valid_values("events", event, POLICY_EVENTS, findings))
    elif event in seen:
        findings.refuse(path, f"duplicate event {event} across different policy", "keep one policy for each event")
    seen.add(event)


def _check_exit_code(code: int, seen: set[int], path: str, findings: Findings) -> None:
    if code == 0:
        findings.refuse(path, "0 is not a valid error code", "use event: TaskCompleted for success")
    elif code in seen:
        findings.refuse(path, f"duplicate exitCode {code}", "keep one policy for each exit code")
    seen.add(code)


def _check_action(policy: LifecyclePolicy, path: str, findings: Findings) -> None:
    if policy.action not in ACTIONS:
        rule = f'Invalid value: "{policy.action}": invalid policy action'
        findings.refuse(f"{path}.action", rule, _valid_values("actions", policy.action, ACTIONS, findings))


def _valid_values(what: str, word: str, values: Sequence[str], findings: Findings) -> str:
    """Return the probable intention, and the list that Volcano gives."""
    hint = findings.hint(word, values).removeprefix("; ")
    meant = f"{hint} " if hint.startswith("did you mean") else ""
    return f"{meant}valid {what} are [{' '.join(values)}]"


_DAG_RULE = "job has dependencies between tasks, but doesn't form a directed acyclic graph(DAG)"


def check_dependencies(tasks: Sequence[TaskSpec], findings: Findings) -> None:
    """Refuse missing dependencies and cycles."""
    names = {task.name for task in tasks}
    advice = f"use one of {few(names)}"
    edges: dict[str, tuple[str, ...]] = {}
    is_valid = True
    for index, task in enumerate(tasks):
        edges[task.name] = wanted = task.depends_on.name if task.depends_on is not None else ()
        for missing in wanted:
            if missing not in names:
                is_valid = False
                rule = f'{_DAG_RULE}: there is no task "{shortened(missing, MAX_POD_NAME_LENGTH)}"'
                findings.refuse(f"spec.tasks[{index}].dependsOn.name", rule, advice)
    if is_valid and (circle := find_cycle(edges)):
        findings.refuse("spec.tasks", f"{_DAG_RULE}: {format_cycle(circle)}", "remove one of these dependencies")


def find_cycle(edges: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the nodes of one cycle, the first again at the end; [] when there is none. Linear, without recursion."""
    done: set[str] = set()
    for start in edges:
        path: dict[str, None] = {}
        """The nodes from `start` to the current one."""
        stack: list[tuple[str, bool]] = [(start, False)]
        while stack:
            node, leaving = stack.pop()
            if leaving:
                del path[node]
                done.add(node)
            elif node in path:
                names = list(path)
                return [*names[names.index(node) :], node]
            elif node not in done:
                path[node] = None
                stack.append((node, True))
                stack += [(after, False) for after in reversed(edges.get(node, ()))]
    return []


def format_cycle(circle: Sequence[str], most: int = 20) -> str:
    """Return a cycle as `a → b → a`; of a long one the first nodes."""
    shown = " → ".join(shortened(name, MAX_POD_NAME_LENGTH) for name in circle[:most])
    return shown if len(circle) <= most else f"{shown} → … ({len(circle) - most} more)"


MAX_POD_NAME_LENGTH = 63
MISSPELLED_FIELDS = {
    "priorityClass": "priorityClassName",
    "nodeselector": "nodeSelector",
    "restartpolicy": "restartPolicy",
}
"""Misspelled fields of a pod spec, and the right names."""


def check_tasks(job: Job, findings: Findings) -> None:
    """Check every task of a new Job."""
    seen: set[str] = set()
    for index, task in enumerate(job.spec.tasks):
        path = f"spec.tasks[{index}]"
        if task.name in seen:
            findings.refuse(f"{path}.name", f"duplicated task name {task.name}", "give every task its own name")
            continue
        seen.add(task.name)
        check_counts(task, path, job.metadata.name, findings)
        check_policies(task.policies, f"{path}.policies", findings)
        _check_pod_name(job, task, path, findings)
        _check_template(task, f"{path}.template", findings)
        if task.topology_policy not in ("", "none"):
            _check_whole_cpus(task, index, f"{path}.template.spec", findings)


def check_counts(task: TaskSpec, path: str, job: str, findings: Findings, *, updating: bool = False) -> None:
    """Check a task's numbers, with Volcano's messages for create and update."""
    where = f"in task: {task.name}" if updating else f"in task: {task.name}, job: {job}"
    below, above = ("must be >= 0", "must be <= 'replicas'") if updating else ("< 0", "is greater than 'replicas'")
    if task.replicas < 0:
        findings.refuse(f"{path}.replicas", f"'replicas' {below} {where}", "give 0 or more")
    if (minimum := task.min_available) is not None and minimum < 0:
        findings.refuse(f"{path}.minAvailable", f"'minAvailable' {below} {where}", "give 0 or more")
    elif minimum is not None and minimum > task.replicas:
        findings.refuse(
            f"{path}.minAvailable",
            f"'minAvailable' {above} {where} ({minimum} > {task.replicas})",
            "lower minAvailable or raise replicas",
        )
    _check_partitions(task, f"{path}.partitionPolicy", job, findings)


def check_topology(topology: NetworkTopology | None, path: str, findings: Findings, *, prefix: str = "") -> None:
    """Refuse a topology that has both a highest tier and its name."""
    if topology is not None and topology.highest_tier_allowed is not None and topology.highest_tier_name:
        rule = "must not specify 'highestTierAllowed' and 'highestTierName' in networkTopology simultaneously"
        findings.refuse(path, f"{prefix}{rule}", "keep one of them")


def _check_partitions(task: TaskSpec, path: str, job: str, findings: Findings) -> None:
    if (policy := task.partition_policy) is None:
        return
    where = f"in task: {task.name}, job: {job}"
    check_topology(policy.network_topology, f"{path}.networkTopology", findings)
    for field, value in (("TotalPartitions", policy.total_partitions), ("PartitionSize", policy.partition_size)):
        if value <= 0:
            place = f"{path}.{field[0].lower()}{field[1:]}"
            findings.refuse(place, f"'{field}' must be greater than 0 {where}", "give 1 or more")
            return
    total = policy.total_partitions * policy.partition_size
    if task.replicas != total:
        findings.refuse(
            path,
            f"'Replicas' are not equal to TotalPartitions*PartitionSize {where} ({task.replicas} ≠ {total})",
            f"set replicas to {total}",
        )
    required = policy.min_partitions * policy.partition_size
    if policy.min_partitions > 0 and task.min_available is not None and task.min_available != required:
        findings.refuse(
            path,
            f"'MinAvailable' is not equal to MinPartitions*PartitionSize {where} ({task.min_available} ≠ {required})",
            f"set the task's minAvailable to {required} or leave it out",
        )


def _check_pod_name(job: Job, task: TaskSpec, path: str, findings: Findings) -> None:
    """Check the name of the task's last pod, which is the longest."""
    name = f"{job.metadata.name}-{task.name}-{max(task.replicas - 1, 0)}"
    if rule := qualified_rule(name):
        over = len(name) - MAX_POD_NAME_LENGTH
        advice = f"shorten the names of job and task by {over}" if over > 0 else "fix the name of job or task"
        findings.refuse(f"{path}.name", f"create pod with name {name} validate failed {rule}", advice)


def _check_template(task: TaskSpec, path: str, findings: Findings) -> None:
    for error in validate_pod_template(task.template, path):
        findings.refuse_line(error, "fix the pod template (kubectl explain pod.spec)")
    spec = task.template.get("spec")
    for wrong, meant in MISSPELLED_FIELDS.items():
        if isinstance(spec, dict) and wrong in spec:
            findings.warn_unless_strict(
                f"{path}.spec.{wrong}", "there is no such field", "it has no effect", f'write "{meant}"'
            )


def _check_whole_cpus(task: TaskSpec, index: int, path: str, findings: Findings) -> None:
    """Check that a task with a NUMA policy has whole CPUs: requests, or limits without requests."""
    for at, (field, container) in enumerate(_containers(task.template)):
        resources = container.get("resources") or {}
        required = (resources.get("requests") or resources.get("limits") or {}).get("cpu", 0)
        try:
            milli = quantity.milli(required)
        except quantity.QuantityError:
            continue  # the pod template's own rules name it
        if milli < 1000 or milli % 1000:
            findings.refuse(
                f"{path}.{field}.resources.requests.cpu",
                f"the cpu request isn't an integer in spec.task[{index}] container[{at}]",
                "request whole CPUs or set topologyPolicy to none",
            )


def _containers(template: Manifest) -> Iterator[tuple[str, dict[str, Any]]]:
    spec = template.get("spec") or {}
    for field in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(field) or ()):
            if isinstance(container, dict):
                yield f"{field}[{index}]", container
