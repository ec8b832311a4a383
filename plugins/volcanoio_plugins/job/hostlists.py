"""Lists of a job's hosts, as host files, variables and ConfigMaps; long ones are shortened to ranges.

Up to the size limits they equal Volcano's. For `svc`, `<task>.host` has one address per line and no newline at the end,
`VC_<TASK>_HOSTS` the same with commas, `VC_<TASK>_NUM` their number; one ConfigMap holds all, and each variable must
fit into the environment of a program. If they do not fit, first the longest variables and then the longest files become
a range such as `job-task-[0-9999].job`; the lines of such a file are in `<task>.host.000`, `<task>.host.001` …, each in
a ConfigMap of its own.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate

import msgspec

from volcanoio.framework.jobpods import addresses, containers, domain_of, own_hostname
from volcanoio.model.base import Manifest
from volcanoio.model.batch import Job, TaskSpec

MAX_OBJECT_BYTES = 252 * 1024
"""Size limit of the content of one generated object, as JSON; with its metadata it stays below 256 KiB."""
MAX_VARIABLE_BYTES = 128 * 1024 - 1
"""The longest NAME=VALUE, without the final NUL, that a program can be started with (Linux MAX_ARG_STRLEN)."""
MAX_POD_BYTES = 224 * 1024
"""Size limit of all copies of a variable in one pod, as JSON."""


def host_range(job: Job, task: TaskSpec) -> str:
    """Return the addresses of a task's pods as one range, a format that pdsh, clush and Slurm can read."""
    if own_hostname(task) or task.replicas < 2:
        return ",".join(addresses(job, task))
    return f"{job.metadata.name}-{task.name}-[0-{task.replicas - 1}].{domain_of(job, task)}"


def fits_variable(name: str, value: str) -> bool:
    """Return whether a program can be started with the variable."""
    return len(name) + 1 + len(value.encode()) <= MAX_VARIABLE_BYTES


def fits_pod(pod: Manifest, value: str) -> bool:
    """Return whether a pod can hold the value once for each of its containers."""
    return sum(1 for _ in containers(pod)) * json_bytes(value) <= MAX_POD_BYTES


def json_bytes(text: str) -> int:
    """Return the size of a text in JSON."""
    return len(msgspec.json.encode(text))


def entries_to_shorten(sizes: Mapping[str, int], budget: int) -> set[str]:
    """Return the entries to shorten, longest first, so that the others are within the budget (bytes)."""
    over: set[str] = set()
    left = sum(sizes.values())
    for name in sorted(sizes, key=lambda name: (-sizes[name], name)):
        if left <= budget:
            break
        over.add(name)
        left -= sizes[name]
    return over


def split_lines(lines: Sequence[str], budget: int) -> list[str]:
    """Split lines of DNS names into texts of whole lines with at most so many bytes of JSON each."""
    upto = list(accumulate(map(len, lines), initial=0))
    found: list[str] = []
    start = 0
    while start < len(lines):

        def size(end: int, start: int = start) -> int:
            return upto[end] - upto[start] + 2 * (end - start)  # a newline takes two bytes in JSON

        end = start + max(1, bisect_right(range(start + 1, len(lines) + 1), budget, key=size))
        found.append("\n".join(lines[start:end]))
        start = end
    return found


_KEY_BYTES = 16
"""Quotes, colon and comma of an entry, and space for the digits of a count."""


class HostFiles(msgspec.Struct, frozen=True):
    """The data of the job's ConfigMap (`lists`), and those of further ones with the files too long for it (`parts`)."""

    lists: dict[str, str]
    parts: tuple[dict[str, str], ...] = ()


def file_name(task: TaskSpec) -> str:
    """Return the name of a task's host file."""
    return f"{task.name.replace('-', '_')}.host"


def variable_names(task: TaskSpec) -> tuple[str, str]:
    """Return the names of a task's variables: its hosts, and their number."""
    upper = task.name.replace("-", "_").upper()
    return f"VC_{upper}_HOSTS", f"VC_{upper}_NUM"


def host_files(job: Job) -> HostFiles:
    """Return the lists of all tasks of a job."""
    data: dict[str, str] = {}
    shorter: dict[str, str] = {}
    found = {file_name(task): addresses(job, task) for task in job.spec.tasks}
    for task in job.spec.tasks:
        hosts = found[file_name(task)]
        listed, count = variable_names(task)
        data[file_name(task)] = text = "\n".join(hosts)
        data[listed] = text.replace("\n", ",") if fits_variable(listed, text) else host_range(job, task)
        data[count] = str(len(hosts))
        shorter |= {file_name(task): host_range(job, task), listed: host_range(job, task)}
    _shorten(data, shorter, {variable_names(task)[0] for task in job.spec.tasks})
    _shorten(data, shorter, set(found))
    long = [name for name in found if len(found[name]) > 1 and data[name] == shorter[name]]
    texts = ((name, split_lines(found[name], MAX_OBJECT_BYTES)) for name in long)
    pieces = tuple({f"{name}.{n:03d}": text} for name, several in texts for n, text in enumerate(several))
    return HostFiles(data, pieces)


def _shorten(data: dict[str, str], shorter: dict[str, str], which: set[str]) -> None:
    """Replace the longest of some entries with their shorter form, until all fit into one object."""
    sizes = {
        name: len(name) + (len(text) if len(text) > MAX_OBJECT_BYTES else json_bytes(text)) + _KEY_BYTES
        for name, text in data.items()
    }
    fixed = sum(size for name, size in sizes.items() if name not in which)
    for name in entries_to_shorten({name: sizes[name] for name in which}, MAX_OBJECT_BYTES - fixed):
        data[name] = shorter[name]
