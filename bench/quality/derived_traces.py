"""Traces derived from the given ones by a seeded rule: other shares of pods, and clusters of other nodes.

No formula of a policy was chosen on them. Pods are drawn with replacement from those of a given trace, class by class,
until each class requests its part of the GPUs that the given trace requests.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from bench.quality.openb_trace import TRACES, WHOLE_GPU, GpuNode, GpuPod, read_nodes, read_pods


class Rule(NamedTuple):
    """How a trace is derived; a part that is None stays that of the given trace.

    `shared`, `several`: parts of the requested GPUs that pods with a share of a GPU, or with several GPUs, request.
    `constrained`: part of the pods with GPUs that name models, as pods of gpuspec25 with as many GPUs do.
    `cpu_pods`: pods without GPUs, as a multiple of those given. `kept`: part of the nodes with so many GPUs.
    """

    given: str = "default"
    shared: float | None = None
    several: float | None = None
    constrained: float | None = None
    cpu_pods: float = 1.0
    kept: Mapping[int, float] = {}


DERIVED: Mapping[str, Rule] = {
    "shared-60": Rule(shared=0.6),
    "shared-100": Rule(shared=1.0, several=0.0),
    "several-20": Rule("multigpu30", several=0.2),
    "several-50": Rule("multigpu30", several=0.5),
    "models-10": Rule(constrained=0.1),
    "models-33": Rule(constrained=0.33),
    "shared-40-several-30-models-33": Rule("multigpu30", shared=0.4, several=0.3, constrained=0.33),
    "cpu-250": Rule(cpu_pods=2.5),
    "half-of-the-nodes": Rule(kept=dict.fromkeys((1, 2, 4, 8), 0.5)),
    "few-large-nodes": Rule(kept={8: 0.25}),
}


def read(directory: Path, trace: str, seed: int) -> tuple[list[GpuNode], list[GpuPod]]:
    """Return the nodes by name and the pods of a trace; a derived one differs by seed."""
    nodes = read_nodes(directory)
    if trace in TRACES:
        return nodes, read_pods(directory, trace)
    rule, drawn = DERIVED[trace], random.Random(seed)
    pods = redrawn(read_pods(directory, rule.given), rule, drawn)
    if rule.constrained is not None:
        pods = constrained(pods, read_pods(directory, "gpuspec25"), rule.constrained, drawn)
    return [node for node in nodes if drawn.random() < rule.kept.get(node.gpus, 1.0)], pods


def redrawn(pods: list[GpuPod], rule: Rule, drawn: random.Random) -> list[GpuPod]:
    """Return pods of each class that request its part of the GPUs, and pods without GPUs."""
    classes = {
        "shared": [pod for pod in pods if pod.gpus == 1 and pod.milli < WHOLE_GPU],
        "several": [pod for pod in pods if pod.gpus > 1],
        "single": [pod for pod in pods if pod.gpus == 1 and pod.milli == WHOLE_GPU],
    }
    total = sum(pod.request for pod in pods)
    parts = {name: sum(pod.request for pod in members) / total for name, members in classes.items()}
    for name, part in (("shared", rule.shared), ("several", rule.several)):
        parts[name] = parts[name] if part is None else part
    parts["single"] = max(1 - parts["shared"] - parts["several"], 0.0)
    without = [pod for pod in pods if not pod.gpus]
    result = drawn.choices(without, k=round(rule.cpu_pods * len(without)))
    for name, members in classes.items():
        missing = parts[name] * total
        while missing > 0:
            result.append(drawn.choice(members))
            missing -= result[-1].request
    return result


def constrained(pods: list[GpuPod], given: list[GpuPod], part: float, drawn: random.Random) -> list[GpuPod]:
    """Let a part of the pods with GPUs name models."""
    models: dict[int, list[tuple[str, ...]]] = {}
    for pod in given:
        if pod.models:
            models.setdefault(pod.gpus, []).append(pod.models)
    return [
        pod._replace(models=drawn.choice(models[pod.gpus]) if pod.gpus in models and drawn.random() < part else ())
        for pod in pods
    ]
