"""The host files and variables of `svc`: Volcano's as long as they fit, ranges with the whole lists beside them else.

`<task>.host` has one address a line and no newline at the end, `VC_<TASK>_HOSTS` the same with commas, `VC_<TASK>_NUM`
their number. One ConfigMap holds all of it, and each variable has to fit into a program's environment. Where they do
not, first the longest variables and then the longest files hold a range such as `job-task-[0-9999].job`; the lines of
such a file are in `<task>.host.000`, `<task>.host.001` …, each in a ConfigMap of its own.
"""

from __future__ import annotations

import msgspec

from volcanoio.framework.jobpods import addresses
from volcanoio.model.batch import Job, TaskSpec
from volcanoio_plugins.job.hostlists import OBJECT_BYTES, fits_variable, json_bytes, parts, ranged, too_long

_KEY_BYTES = 16
"""Quotes, colon and comma of an entry, with room for the digits of a count."""


class HostFiles(msgspec.Struct, frozen=True):
    """`lists` are the data of the job's ConfigMap; `parts` those of further ones, with the files too long for it."""

    lists: dict[str, str]
    parts: tuple[dict[str, str], ...] = ()


def file_name(task: TaskSpec) -> str:
    """The host file of a task."""
    return f"{task.name.replace('-', '_')}.host"


def variable_names(task: TaskSpec) -> tuple[str, str]:
    """The variables of a task: its hosts, and how many they are."""
    upper = task.name.replace("-", "_").upper()
    return f"VC_{upper}_HOSTS", f"VC_{upper}_NUM"


def host_files(job: Job) -> HostFiles:
    """The lists of all tasks of a job."""
    data: dict[str, str] = {}
    shorter: dict[str, str] = {}
    found = {file_name(task): addresses(job, task) for task in job.spec.tasks}
    for task in job.spec.tasks:
        hosts = found[file_name(task)]
        listed, count = variable_names(task)
        data[file_name(task)] = text = "\n".join(hosts)
        data[listed] = text.replace("\n", ",") if fits_variable(listed, text) else ranged(job, task)
        data[count] = str(len(hosts))
        shorter |= {file_name(task): ranged(job, task), listed: ranged(job, task)}
    _shorten(data, shorter, {variable_names(task)[0] for task in job.spec.tasks})
    _shorten(data, shorter, set(found))
    long = [name for name in found if len(found[name]) > 1 and data[name] == shorter[name]]
    texts = ((name, parts(found[name], OBJECT_BYTES)) for name in long)
    pieces = tuple({f"{name}.{n:03d}": text} for name, several in texts for n, text in enumerate(several))
    return HostFiles(data, pieces)


def _shorten(data: dict[str, str], shorter: dict[str, str], which: set[str]) -> None:
    """Put the shorter form in place of the longest of some entries, until all fit into one object."""
    sizes = {
        name: len(name) + (len(text) if len(text) > OBJECT_BYTES else json_bytes(text)) + _KEY_BYTES
        for name, text in data.items()
    }
    fixed = sum(size for name, size in sizes.items() if name not in which)
    for name in too_long({name: sizes[name] for name in which}, OBJECT_BYTES - fixed):
        data[name] = shorter[name]
