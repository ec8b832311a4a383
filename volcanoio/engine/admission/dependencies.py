"""`dependsOn` must be a directed acyclic graph of the Job's own tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from volcanoio.engine.admission.findings import Findings
from volcanoio.model.batch import TaskSpec

_RULE = "job has dependencies between tasks, but doesn't form a directed acyclic graph(DAG)"


def check_dependencies(tasks: Sequence[TaskSpec], findings: Findings) -> None:
    """Names what is missing or what goes round in a circle."""
    names = {task.name for task in tasks}
    edges = {task.name: task.depends_on.name for task in tasks if task.depends_on is not None}
    sound = True
    for index, task in enumerate(tasks):
        for missing in [name for name in edges.get(task.name, ()) if name not in names]:
            sound = False
            findings.refuse(
                f"spec.tasks[{index}].dependsOn.name",
                f'{_RULE}: there is no task "{missing}"',
                f"use one of {', '.join(sorted(names))}",
            )
    if sound and (circle := find_circle(edges)):
        findings.refuse("spec.tasks", f"{_RULE}: {' → '.join(circle)}", "remove one of these dependencies")


def find_circle(edges: Mapping[str, Sequence[str]]) -> list[str]:
    """The nodes of one circle, its first again at the end; [] when there is none. Without recursion."""
    done: set[str] = set()
    for start in edges:
        path: list[str] = []
        stack: list[tuple[str, bool]] = [(start, False)]
        while stack:
            node, leaving = stack.pop()
            if leaving:
                path.pop()
                done.add(node)
            elif node in path:
                return [*path[path.index(node) :], node]
            elif node not in done:
                path.append(node)
                stack.append((node, True))
                stack += [(after, False) for after in reversed(edges.get(node, ()))]
    return []
