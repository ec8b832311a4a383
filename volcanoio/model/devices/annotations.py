"""Resources and annotations of shared devices, and the forms of their values.

Sources: Volcano (pkg/scheduler/api/devices), its device plugins, HAMi and Ascend MindCluster. A card is one device; a
scheduler writes the cards of a pod into the pod's annotations, from where the device plugin of the node takes them.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from volcanoio.model.times import epoch_or_none, rfc3339

GPU_MEMORY, GPU_NUMBER = "volcano.sh/gpu-memory", "volcano.sh/gpu-number"
"""GPU sharing: memory of one card of a pod (of all cards of a node), and whole cards."""
GPU_INDEX, PREDICATE_TIME = "volcano.sh/gpu-index", "volcano.sh/predicate-time"
"""On pods: indexes of the cards with commas, and when they were chosen (nanoseconds since 1970)."""
GPU_UNHEALTHY = "volcano.sh/gpu-unhealthy-ids"
"""On nodes: indexes of the cards that are not to be used."""

VGPU_NUMBER, VGPU_MEMORY, VGPU_PERCENTAGE, VGPU_CORES = (
    "volcano.sh/vgpu-number",
    "volcano.sh/vgpu-memory",
    "volcano.sh/vgpu-memory-percentage",
    "volcano.sh/vgpu-cores",
)
VGPU_REGISTER = "volcano.sh/node-vgpu-register"
"""On nodes: the cards, see `format_register`."""
VGPU_IDS, VGPU_TO_ALLOCATE = "volcano.sh/vgpu-ids-new", "volcano.sh/devices-to-allocate"
"""On pods: the cards by container (`format_pod_devices`); the device plugin empties the second one."""
VGPU_NODE, VGPU_TIME = "volcano.sh/vgpu-node", "volcano.sh/vgpu-time"
BIND_PHASE, BIND_TIME = "volcano.sh/bind-phase", "volcano.sh/bind-time"
ALLOCATING, ALLOCATED = "allocating", "success"
"""Values of the bind phase: chosen by the scheduler, and handed over by the device plugin."""
VGPU_MODE = "volcano.sh/vgpu-mode"
HAMI_CORE, MIG = "hami-core", "mig"
"""Modes of cards: limits enforced in the process, and instances of Multi-Instance GPU."""

HAMI_NODE, HAMI_TIME = "hami.io/vgpu-node", "hami.io/vgpu-time"
HAMI_BIND_PHASE, HAMI_BIND_TIME = "hami.io/bind-phase", "hami.io/bind-time"

NPU_MODE, NPU_NODE_MODE = "huawei.com/vnpu-mode", "hami-vnpu-core"
"""On pods: `hami-core` for limits that are enforced in the process. On nodes: "true" if their NPUs are shared so."""

NPU_CORE = "huawei.com/npu-core"
"""MindCluster: AI cores, as a resource; on pods the chip and template (`2-vir04`), or whole chips (`0,1`)."""
NPU_REAL, NPU_TIME = "huawei.com/AscendReal", "predicate-time"
"""On pods: what the device plugin has created, and when the scheduler chose (nanoseconds since 1970)."""
NPU_KIND_LABEL, NPU_KIND = "ring-controller.atlas", "ascend-310P"
NPU_SERVER_LABEL = "servertype"
"""A label of nodes: chip and AI cores of each, such as Ascend310P-8."""

GPU_LOCK, VGPU_LOCK, HAMI_LOCK = "gpu", "hamivgpu", "hami.io/mutex.lock"
"""Locks of nodes: annotations with the time (RFC 3339) at which a scheduler handed devices to the device plugin.

HAMI_LOCK also names the pod, by which HAMi's device plugins find out whose devices they are to hand over.
"""
LOCK_SECONDS = 300.0
"""Age after which a lock no longer counts."""


def format_lock(lock: str, now: float, namespace: str, name: str) -> str:
    """Return the value of a lock for a pod: the time, and for HAMI_LOCK `,namespace,name`."""
    return f"{rfc3339(now)},{namespace},{name}" if lock == HAMI_LOCK else rfc3339(now)


def lock_time(value: str) -> float | None:
    """Return when a lock was taken (epoch seconds), None if there is none or its value cannot be read."""
    return epoch_or_none(value.partition(",")[0])


class RegisteredCard(NamedTuple):
    """A card of `VGPU_REGISTER`: `number` pods may share it, `memory` is in MiB."""

    uuid: str
    number: int
    memory: int
    type: str
    healthy: bool = True
    mode: str = HAMI_CORE


def format_register(cards: Iterable[RegisteredCard]) -> str:
    """Return `uuid,number,memory,type,healthy,mode:` for each card."""
    return "".join(
        f"{card.uuid},{card.number},{card.memory},{card.type},{str(card.healthy).lower()},{card.mode}:"
        for card in cards
    )


@lru_cache(maxsize=8192)
def parse_register(text: str) -> tuple[RegisteredCard, ...]:
    """Return the cards of `VGPU_REGISTER`; () if one of them cannot be read. A mode other than mig is hami-core."""
    cards = []
    for part in filter(None, text.split(":")):
        fields = part.split(",")
        if len(fields) < 6 or not (fields[1].isdecimal() and fields[2].isdecimal()):
            return ()
        mode = MIG if fields[5] == MIG else HAMI_CORE
        healthy = fields[4].lower() in ("true", "1", "t")
        cards.append(RegisteredCard(fields[0], int(fields[1]), int(fields[2]), fields[3], healthy, mode))
    return tuple(cards)


class DeviceShare(NamedTuple):
    """What a container has of one card: memory in MiB and cores in percent.

    The uuid of a MIG instance is the card's with the geometry and the position in it: `GPU-1[group2-3]`.
    """

    uuid: str
    type: str
    memory: int
    cores: int

    @property
    def card(self) -> str:
        """The uuid of the card, without that of an instance."""
        return self.uuid.partition("[")[0]

    @property
    def instance(self) -> str:
        """The geometry and position of a MIG instance, "" for a share of the whole card."""
        return self.uuid.partition("[")[2].rstrip("]")


def format_pod_devices(containers: Iterable[Sequence[DeviceShare]], *, closed: bool = False) -> str:
    """Return `uuid,type,memory,cores:` for each share, containers separated by `;`; closed: also after the last."""
    texts = ["".join(f"{each.uuid},{each.type},{each.memory},{each.cores}:" for each in one) for one in containers]
    return ";".join(texts) + (";" if closed else "")


@lru_cache(maxsize=65_536)
def parse_pod_devices(text: str) -> tuple[tuple[DeviceShare, ...], ...]:
    """Return the shares by container; shares that cannot be read are left out."""
    return tuple(
        tuple(
            DeviceShare(fields[0], fields[1], int(fields[2]), int(fields[3]))
            for part in one.split(":")
            if len(fields := part.split(",")) >= 4 and fields[2].isdecimal() and fields[3].isdecimal()
        )
        for one in text.split(";")
        if one
    )


class NpuCard(msgspec.Struct, frozen=True):
    """A card in the annotation by which HAMi's device plugin registers the NPUs of a chip."""

    id: str = ""
    index: int = 0
    count: int = 0
    devmem: int = 0
    devcore: int = 0
    type: str = ""
    health: bool = False
    custominfo: dict[str, Any] = {}


def npu_register(chip: str) -> str:
    """Return the annotation of nodes with the cards of a chip: a JSON list of `NpuCard`."""
    return f"hami.io/node-register-{chip}"


def npu_allocated(chip: str) -> tuple[str, str, str]:
    """Return the annotations of pods for a chip: shares to allocate, shares allocated, and what its runtime reads."""
    return f"hami.io/{chip}-devices-to-allocate", f"hami.io/{chip}-devices-allocated", f"huawei.com/{chip}"


def format_npus(cards: Iterable[NpuCard]) -> str:
    """Return the JSON list of `npu_register`."""
    return msgspec.json.encode(list(cards)).decode()


@lru_cache(maxsize=8192)
def parse_npus(text: str) -> tuple[NpuCard, ...]:
    """Return the cards of `npu_register`; () if the text cannot be read."""
    try:
        return msgspec.json.decode(text, type=tuple[NpuCard, ...])
    except msgspec.DecodeError:
        return ()
