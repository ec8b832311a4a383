"""Nodes and pods of the openb traces, drawn as their authors do, and the figures they published.

Source: Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent",
USENIX ATC 2023, and the simulator published with it.
"""

from __future__ import annotations

import csv
import random
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

TRACES = ("default", "gpushare40", "gpuspec25", "multigpu30")
ARRIVED = (0.95, 1.0, 1.3)
"""Requested GPUs that have arrived, as parts of the cluster's, at which figures are read."""
WHOLE_GPU = 1000
"""The share of a whole GPU."""
MODEL = "example.com/gpu-model"
"""The node label with the model of the GPUs."""


class GpuNode(NamedTuple):
    """A node: cpu in milli-cores, memory in MiB, GPUs and their model."""

    name: str
    cpu: int
    memory: int
    gpus: int
    model: str


class GpuPod(NamedTuple):
    """A pod: cpu in milli-cores, memory in MiB, GPUs, the share of each in thousandths, and the allowed models."""

    cpu: int
    memory: int
    gpus: int
    milli: int
    models: tuple[str, ...]

    @property
    def request(self) -> int:
        """Its GPUs in thousandths."""
        return self.gpus * self.milli


def read_nodes(directory: Path) -> list[GpuNode]:
    """Return the nodes by name."""
    with (directory / "openb_node_list_gpu_node.csv").open(encoding="utf-8", newline="") as file:
        rows = [
            GpuNode(row["sn"], int(row["cpu_milli"]), int(row["memory_mib"]), int(row["gpu"]), row["model"])
            for row in csv.DictReader(file)
        ]
    return sorted(rows)


def read_pods(directory: Path, trace: str) -> list[GpuPod]:
    """Return the pods of a trace in its order."""
    with (directory / f"openb_pod_list_{trace}.csv").open(encoding="utf-8", newline="") as file:
        return [
            GpuPod(
                int(row["cpu_milli"]),
                int(row["memory_mib"]),
                int(row["num_gpu"]),
                int(row["gpu_milli"]),
                tuple(sorted({model for model in (row.get("gpu_spec") or "").split("|") if model})),
            )
            for row in csv.DictReader(file)
        ]


def draw(pods: list[GpuPod], gpus: int, seed: int, *, load: float = ARRIVED[-1]) -> list[GpuPod]:
    """Return arriving pods in shuffled order whose requests reach `load` times the cluster's GPUs.

    All pods of the trace and, while they are too few, further ones drawn from them; of too many, some are left out.
    """
    drawn = random.Random(seed)
    wanted, arriving = load * gpus * WHOLE_GPU, list(pods)
    drawn.shuffle(arriving)
    requested = sum(pod.request for pod in arriving)
    while requested < wanted:
        arriving.append(drawn.choice(pods))
        requested += arriving[-1].request
    while requested - arriving[-1].request >= wanted:
        requested -= arriving.pop().request
    drawn.shuffle(arriving)
    return arriving


def typical_pods(pods: Iterable[GpuPod]) -> list[tuple[GpuPod, int]]:
    """Return each kind of pods (memory aside) and how many there are of it."""
    return list(Counter(pod._replace(memory=0) for pod in pods).items())


class Published(NamedTuple):
    """Allocated and fragmented GPUs in percent, at each of `ARRIVED`."""

    allocated: tuple[float, float, float]
    fragmented: tuple[float, float, float]


def _published(*figures: float) -> Published:
    return Published((figures[0], figures[2], figures[4]), (figures[1], figures[3], figures[5]))


PUBLISHED = {
    "default": {
        "random": _published(85.72, 13.95, 86.30, 13.49, 87.47, 12.43),
        "dot-product": _published(90.58, 9.34, 90.62, 9.30, 90.85, 9.08),
        "gpu-clustering": _published(91.61, 8.26, 91.65, 8.21, 91.88, 8.00),
        "gpu-packing": _published(91.74, 8.17, 91.78, 8.13, 92.00, 7.91),
        "best-fit": _published(92.82, 7.09, 92.86, 7.05, 93.08, 6.85),
        "fgd": _published(94.91, 4.65, 95.23, 4.73, 95.39, 4.57),
    },
    "gpushare40": {
        "random": _published(84.38, 15.34, 84.86, 14.95, 86.00, 13.93),
        "dot-product": _published(89.26, 10.69, 89.30, 10.65, 89.56, 10.40),
        "gpu-clustering": _published(89.71, 10.19, 89.76, 10.14, 90.02, 9.89),
        "gpu-packing": _published(89.73, 10.20, 89.77, 10.16, 90.03, 9.92),
        "best-fit": _published(91.40, 8.56, 91.44, 8.52, 91.69, 8.28),
        "fgd": _published(93.92, 6.02, 93.96, 5.98, 94.15, 5.80),
    },
    "gpuspec25": {
        "random": _published(84.33, 15.02, 85.42, 14.27, 86.94, 12.95),
        "dot-product": _published(81.44, 12.29, 85.44, 11.36, 89.63, 10.29),
        "gpu-clustering": _published(82.41, 10.38, 86.41, 9.36, 92.08, 7.78),
        "gpu-packing": _published(82.78, 9.71, 86.77, 8.67, 92.98, 6.94),
        "best-fit": _published(81.62, 9.76, 85.67, 8.74, 93.23, 6.69),
        "fgd": _published(89.76, 6.33, 93.91, 5.32, 94.74, 5.21),
    },
    "multigpu30": {
        "random": _published(84.24, 13.35, 86.63, 12.57, 89.27, 10.55),
        "dot-product": _published(93.07, 6.86, 93.11, 6.82, 93.28, 6.66),
        "gpu-clustering": _published(94.44, 5.30, 94.55, 5.26, 94.72, 5.09),
        "gpu-packing": _published(94.61, 5.24, 94.70, 5.19, 94.87, 5.03),
        "best-fit": _published(94.51, 5.37, 94.57, 5.33, 94.72, 5.18),
        "fgd": _published(95.00, 3.71, 96.36, 3.57, 96.46, 3.48),
    },
}
"""Means of ten seeds by trace and policy."""
