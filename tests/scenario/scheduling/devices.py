"""Nodes with cards that pods share, and pods that ask for them."""

from __future__ import annotations

import json
from typing import Any

from tests.scenario.scheduling.harness import group, labelled, node, pod
from volcanoio.model.base import Manifest
from volcanoio.model.devices.annotations import RegisteredCard, format_register

A100 = "NVIDIA-A100-SXM4-40GB"
NPU_CORE = "huawei.com/npu-core"


def configuration(**arguments: Any) -> str:
    """Return a configuration with gang and deviceshare, the latter with these arguments (without prefix)."""
    given = {f"deviceshare.{name}": value for name, value in arguments.items()}
    return json.dumps(
        {
            "actions": arguments.pop("actions", "enqueue, allocate, backfill"),
            "tiers": [{"plugins": [{"name": "gang"}, {"name": "deviceshare", "arguments": given}]}],
        }
    )


def gpu_node(name: str, cards: int, memory: int, **annotations: str) -> Manifest:
    """Return a node for GPU sharing, with so many GPUs of that memory each."""
    resources = {"volcano.sh/gpu-number": str(cards), "volcano.sh/gpu-memory": str(cards * memory)}
    return annotated(node(name, **resources), **annotations)


def vgpu_node(name: str, *cards: RegisteredCard) -> Manifest:
    """Return a node with registered cards."""
    resources = {
        "volcano.sh/vgpu-number": str(sum(card.number for card in cards)),
        "volcano.sh/vgpu-memory": str(sum(card.memory for card in cards)),
        "volcano.sh/vgpu-cores": str(100 * len(cards)),
    }
    return annotated(node(name, **resources), **{"volcano.sh/node-vgpu-register": format_register(cards)})


def card(uuid: str, *, number: int = 10, memory: int = 40960, **more: Any) -> RegisteredCard:
    """Return a card for `vgpu_node`."""
    return RegisteredCard(uuid, number, memory, more.pop("type", A100), **more)


def annotated(manifest: Manifest, **annotations: str) -> Manifest:
    """Add annotations to a manifest, and return it."""
    known = manifest["metadata"].setdefault("annotations", {})
    known.update(annotations)
    return manifest


def with_limits(name: str, *containers: dict[str, str], job: str = "", **more: Any) -> Manifest:
    """Return a pod with these limits of its containers (of one cpu each), in a PodGroup of its own if none is named."""
    spec = {
        "containers": [
            {"name": f"c{at}", "resources": {"limits": {"cpu": "1", **limits}}} for at, limits in enumerate(containers)
        ]
    }
    return pod(name, job or name, spec=spec, **more)


def vgpu(number: int = 1, memory: int = 0, cores: int = 0, percentage: int = 0) -> dict[str, str]:
    """Return limits of vGPUs; zeros are left out."""
    amounts = {"number": number, "memory": memory, "cores": cores, "memory-percentage": percentage}
    return {f"volcano.sh/vgpu-{name}": str(amount) for name, amount in amounts.items() if amount}


def npu_node(*cards: dict[str, Any], chip: str = "Ascend310P") -> Manifest:
    """Return a node with NPUs that HAMi registers."""
    registered = [{"count": 7, "devmem": 21527, "devcore": 8, "type": chip, "health": True, **one} for one in cards]
    made = node("n1", **{f"huawei.com/{chip}": str(7 * len(cards))})
    return annotated(made, **{f"hami.io/node-register-{chip}": json.dumps(registered)})


def npu(count: int = 1, amount: int = 0, chip: str = "Ascend310P") -> dict[str, str]:
    """Return limits of NPUs that HAMi registers."""
    memory = {f"huawei.com/{chip}-memory": str(amount)} if amount else {}
    return {f"huawei.com/{chip}": str(count), **memory}


ATLAS = labelled(node("n1", **{NPU_CORE: "16"}), servertype="Ascend310P-8")
"""A node with two chips."""


def atlas(name: str, cores: int, on: str = "", core: str = "", real: str = "", **labels: str) -> Manifest:
    """Return a pod for MindCluster; with `core` it runs and has that virtual NPU."""
    annotations = {NPU_CORE: core, **({"huawei.com/AscendReal": real} if real else {})} if core else {}
    phase = "Running" if on else "Pending"
    made = with_limits(name, {NPU_CORE: str(cores)}, on=on, phase=phase, annotations=annotations)
    return labelled(made, **{"ring-controller.atlas": "ascend-310P", **labels})


def groups(*names: str) -> list[Manifest]:
    """Return PodGroups of one pod each."""
    return [group(name, 1, phase="Inqueue") for name in names]


def holding(name: str, on: str, ids: str, *containers: dict[str, str], **more: Any) -> Manifest:
    """Return a running pod that has vGPUs."""
    annotations = {"volcano.sh/vgpu-ids-new": ids, "volcano.sh/bind-phase": "success", **more.pop("annotations", {})}
    return with_limits(name, *(containers or (vgpu(),)), on=on, phase="Running", annotations=annotations, **more)
