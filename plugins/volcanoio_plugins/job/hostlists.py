"""Lists of a job's hosts, and what becomes of those that are too long for where they have to be.

Up to the limits they are Volcano's, name by name. A list beyond one is told as a range, `job-task-[0-9999].job`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate

import msgspec

from volcanoio.framework.jobpods import addresses, containers, domain_of, own_hostname
from volcanoio.model.base import Manifest
from volcanoio.model.batch import Job, TaskSpec

OBJECT_BYTES = 252 * 1024
"""What the content of one generated object may take as JSON; with its metadata it stays below 256 KiB."""
STRING_BYTES = 128 * 1024 - 1
"""The longest NAME=VALUE, without the byte that ends it, that a program can be started with (Linux MAX_ARG_STRLEN)."""
POD_BYTES = 224 * 1024
"""What all copies of a variable in one pod may take as JSON."""


def ranged(job: Job, task: TaskSpec) -> str:
    """The addresses of a task's pods as one range, for people and for tools that know such (pdsh, clush, Slurm)."""
    if own_hostname(task) or task.replicas < 2:
        return ",".join(addresses(job, task))
    return f"{job.metadata.name}-{task.name}-[0-{task.replicas - 1}].{domain_of(job, task)}"


def fits_variable(name: str, value: str) -> bool:
    """Whether a program can be started with the variable."""
    return len(name) + 1 + len(value.encode()) <= STRING_BYTES


def fits_pod(pod: Manifest, value: str) -> bool:
    """Whether a pod can hold the value once for each of its containers."""
    return sum(1 for _ in containers(pod)) * json_bytes(value) <= POD_BYTES


def json_bytes(text: str) -> int:
    """What a text takes in JSON."""
    return len(msgspec.json.encode(text))


def too_long(sizes: Mapping[str, int], budget: int) -> set[str]:
    """Which entries have to be told shorter, the longest first, so that the rest is within the budget (bytes)."""
    over: set[str] = set()
    left = sum(sizes.values())
    for name in sorted(sizes, key=lambda name: (-sizes[name], name)):
        if left <= budget:
            break
        over.add(name)
        left -= sizes[name]
    return over


def parts(lines: Sequence[str], budget: int) -> list[str]:
    """Lines of DNS names as texts of at most so many bytes of JSON, each of whole lines and no newline at its end."""
    upto = list(accumulate(map(len, lines), initial=0))
    found: list[str] = []
    start = 0
    while start < len(lines):

        def size(end: int, start: int = start) -> int:
            return upto[end] - upto[start] + 2 * (end - start)  # a newline takes two in JSON

        end = start + max(1, bisect_right(range(start + 1, len(lines) + 1), budget, key=size))
        found.append("\n".join(lines[start:end]))
        start = end
    return found
