"""What makes the flows of a JobFlow unusable as a whole; told at admission, and on a JobFlow that came past it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from volcanoio.engine.admission.dependencies import find_circle
from volcanoio.framework.arguments import suggestion
from volcanoio.model.flow import Flow

NOT_DAG = "jobflow Flow is not DAG"


def graph_problems(flows: Sequence[Flow]) -> list[tuple[str, str]]:
    """Field and rule of everything wrong with the names and dependencies of flows."""
    names = [flow.name for flow in flows]
    problems = [
        ("spec.flows", f'flow "{name}" is named {count} times; each makes one job, so its name must be unique')
        for name, count in Counter(names).items()
        if count > 1
    ]
    edges = {flow.name: flow.depends_on.targets for flow in flows if flow.depends_on is not None}
    for number, flow in enumerate(flows):
        problems += [
            (
                f"spec.flows[{number}].dependsOn.targets",
                f"{NOT_DAG}: vertex is not defined: {target}{suggestion(target, sorted(set(names)))}",
            )
            for target in edges.get(flow.name, ())
            if target not in names
        ]
    if not problems and (circle := find_circle(edges)):
        problems.append(("spec.flows", f"{NOT_DAG}: {' → '.join(circle)}; remove one of these dependencies"))
    return problems
