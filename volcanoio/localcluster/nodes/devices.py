"""Devices of simulated nodes that pods share: what a node registers, and the part of its device plugin.

A device plugin reads from a pod's annotations which devices a scheduler chose, and hands them over when the kubelet
admits the pod. This one checks the choice with its own sums: a pod that names no device, an unknown one, or more than
is left of one is refused as `UnexpectedAdmissionError`, as a kubelet does when a device plugin fails.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from volcanoio.localcluster.nodes.pods.predicates import PredicateFailure
from volcanoio.model.core import Pod
from volcanoio.model.devices import annotations as names
from volcanoio.model.devices.annotations import NpuCard, RegisteredCard, format_npus, format_register, parse_pod_devices
from volcanoio.model.resources import Amounts, pod_amounts, stored_amounts

_TYPE = re.compile(r"[-\w. ]+")
_MODES = (names.HAMI_CORE, names.MIG)
_EXAMPLE = "vgpu=2,memory=40960,type=NVIDIA-A100-SXM4-40GB,split=10"
_VIRTUAL_CPUS = {
    "vir01": 1,
    "vir02": 2,
    "vir02_1c": 1,
    "vir04": 4,
    "vir04_3c": 3,
    "vir04_3c_ndvpp": 3,
    "vir04_4c_dvpp": 4,
}
_VIRTUAL_CORES = {name: int(name[4]) for name in _VIRTUAL_CPUS}
"""AI CPUs and AI cores of MindCluster's virtual NPUs."""
_CHIP_CPUS = 7


class NodeDevicesError(ValueError):
    """The text of `--node-devices` does not describe devices."""


@dataclass(frozen=True, slots=True)
class DeviceSpec:
    """Equal devices of a node: `split` pods may share one; memory in MiB, `cores` of a chip."""

    kind: str
    count: int
    memory: int = 40960
    split: int = 10
    type: str = "NVIDIA-A100-SXM4-40GB"
    mode: str = names.HAMI_CORE
    cores: int = 100


DEFAULTS: Mapping[str, DeviceSpec] = {
    "gpu": DeviceSpec("gpu", 1, memory=16384),
    "vgpu": DeviceSpec("vgpu", 1),
    "npu": DeviceSpec("npu", 1, memory=21527, split=7, type="Ascend310P", mode="", cores=8),
    "mindcluster": DeviceSpec("mindcluster", 1, cores=8),
}
"""Kinds of `--node-devices`: GPU sharing, vGPU, and NPUs of HAMi and of MindCluster."""


def parse_node_devices(text: str) -> tuple[DeviceSpec, ...]:
    """Parse `KIND=COUNT[,FIELD=VALUE...]`, several kinds separated by `;`; raises NodeDevicesError."""
    specs = tuple(_parse_kind(part.strip()) for part in text.split(";") if part.strip())
    for kind, number in Counter(spec.kind for spec in specs).items():
        if number > 1:
            raise _error(text, f"{kind} is given {number} times; give each kind once, all its devices are alike")
    return specs


def _parse_kind(text: str) -> DeviceSpec:
    entries = [tuple(word.strip() for word in entry.partition("=")) for entry in text.split(",")]
    kind, _, count = entries[0]
    if (spec := DEFAULTS.get(kind)) is None:
        raise _error(text, f"{kind!r} is no kind of devices; valid values: {', '.join(DEFAULTS)}")
    given: dict[str, int | str] = {"count": _number(text, "count", count)}
    for name, _, value in entries[1:]:
        if name in ("memory", "split", "cores"):
            given[name] = _number(text, name, value)
        elif (name == "type" and _TYPE.fullmatch(value)) or (name == "mode" and value in _MODES):
            given[name] = value
        else:
            raise _error(text, f"{name}={value} is no field; give memory, split, cores, type, or mode=hami-core|mig")
    return replace(spec, **given)  # type: ignore[arg-type]  # fields by name


def _number(text: str, name: str, value: str) -> int:
    if not value.isdecimal() or not 0 < int(value) < 1 << 31:
        raise _error(text, f"{name} must be a whole number greater than 0, not {value!r}")
    return int(value)


def _error(entry: str, rule: str) -> NodeDevicesError:
    return NodeDevicesError(f"--node-devices: {entry!r}: {rule}; write for example {_EXAMPLE}")


class Registered(NamedTuple):
    """What a node shows of its devices."""

    resources: dict[str, str]
    annotations: dict[str, str]
    labels: dict[str, str]


def register(specs: Sequence[DeviceSpec], node: str) -> Registered:
    """Return what device plugins register for a node."""
    shown = Registered({}, {}, {})
    for spec in specs:
        _REGISTER[spec.kind](spec, node, shown)
    return shown


def card_ids(spec: DeviceSpec, node: str) -> list[str]:
    """Return the names of the devices: indexes, or unique ones."""
    if spec.kind in ("gpu", "mindcluster"):
        return [str(index) for index in range(spec.count)]
    prefix = "GPU" if spec.kind == "vgpu" else spec.type
    return [f"{prefix}-{node}-{index}" for index in range(spec.count)]


def _register_gpu(spec: DeviceSpec, _node: str, shown: Registered) -> None:
    shown.resources[names.GPU_NUMBER] = str(spec.count)
    shown.resources[names.GPU_MEMORY] = str(spec.count * spec.memory)


def _register_vgpu(spec: DeviceSpec, node: str, shown: Registered) -> None:
    cards = [
        RegisteredCard(uuid, spec.split, spec.memory, spec.type, healthy=True, mode=spec.mode)
        for uuid in card_ids(spec, node)
    ]
    shown.resources[names.VGPU_NUMBER] = str(spec.count * spec.split)
    shown.resources[names.VGPU_MEMORY] = str(spec.count * spec.memory)
    shown.resources[names.VGPU_CORES] = str(spec.count * spec.cores)
    shown.annotations[names.VGPU_REGISTER] = format_register(cards)


def _register_npu(spec: DeviceSpec, node: str, shown: Registered) -> None:
    cards = [
        NpuCard(uuid, index, spec.split, spec.memory, spec.cores, spec.type, health=True)
        for index, uuid in enumerate(card_ids(spec, node))
    ]
    shown.resources[f"huawei.com/{spec.type}"] = str(spec.count * spec.split)
    shown.annotations[names.npu_register(spec.type)] = format_npus(cards)
    shown.annotations[names.NPU_NODE_MODE] = str(spec.mode == names.HAMI_CORE).lower()


def _register_mindcluster(spec: DeviceSpec, _node: str, shown: Registered) -> None:
    shown.resources[names.NPU_CORE] = str(spec.count * spec.cores)
    shown.labels[names.NPU_SERVER_LABEL] = f"Ascend310P-{spec.cores}"


_REGISTER: Mapping[str, Callable[[DeviceSpec, str, Registered], None]] = {
    "gpu": _register_gpu,
    "vgpu": _register_vgpu,
    "npu": _register_npu,
    "mindcluster": _register_mindcluster,
}


class Taken(NamedTuple):
    """What a pod takes of one device; a part that only one pod may have is named by `instance`."""

    device: str
    memory: int = 0
    cores: int = 0
    cpus: int = 0
    instance: str = ""
    whole: bool = False


class Handover(NamedTuple):
    """What the device plugin writes once it has handed the devices over; None removes an annotation."""

    pod: dict[str, str | None]
    node: dict[str, str | None]


@dataclass(slots=True)
class DeviceManager:
    """The devices of one node and the pods that have them."""

    node: str = ""
    specs: tuple[DeviceSpec, ...] = ()
    _pods: dict[str, dict[str, list[Taken]]] = field(default_factory=dict)
    """What each pod (by uid) has, by kind."""

    def plain(self, requests: Amounts) -> Amounts:
        """Return the requests that are plain amounts of the node; those that only device plugins read are left out."""
        if not self.specs:
            return requests
        of_npus = (f"huawei.com/{spec.type}-{amount}" for spec in self.specs for amount in ("memory", "core"))
        hidden = {names.VGPU_PERCENTAGE, *of_npus}
        return {name: amount for name, amount in requests.items() if name not in hidden}

    def admit(self, pod: Pod) -> PredicateFailure | None:
        """Give a pod the devices that its annotations name; return why that fails."""
        if not self.specs or pod.metadata.uid in self._pods:
            return None
        found: dict[str, list[Taken]] = {}
        for spec in self.specs:
            if number := _number_asked(spec, pod):
                taken = list(_TAKEN[spec.kind](spec, pod))
                if fault := self._fault(spec, taken, number):
                    return PredicateFailure(
                        "UnexpectedAdmissionError",
                        f"Allocate failed due to rpc error: code = Unknown desc = {fault}, which is unexpected",
                    )
                found[spec.kind] = taken
        if found:
            self._pods[pod.metadata.uid] = found
        return None

    def restore(self, pod: Pod) -> None:
        """Count a pod that was admitted before this process started."""
        if self.specs:
            self._pods[pod.metadata.uid] = {spec.kind: list(_TAKEN[spec.kind](spec, pod)) for spec in self.specs}

    def release(self, uid: str) -> None:
        """Stop counting the devices of a pod; an unknown one is no error."""
        self._pods.pop(uid, None)

    def handover(self, pod: Pod) -> Handover | None:
        """Return what is written for an admitted pod, None for a pod without devices."""
        if (kinds := self._pods.get(pod.metadata.uid)) is None:
            return None
        done = Handover({}, {})
        for spec in self.specs:
            if spec.kind in kinds:
                _HANDOVER[spec.kind](spec, kinds[spec.kind], done)
        return done

    def _fault(self, spec: DeviceSpec, taken: Sequence[Taken], number: int) -> str:
        """Return why devices cannot be handed over to a pod that asks for so many, "" if they can."""
        if not taken:
            return f"no {spec.kind} is named by the pod's annotations"
        if len(taken) != number:
            return f"device number not matched: {number} asked for, {len(taken)} named by the pod's annotations"
        known = set(card_ids(spec, self.node))
        by_device: defaultdict[str, list[Taken]] = defaultdict(list)
        for kinds in self._pods.values():
            for one in kinds.get(spec.kind, ()):
                by_device[one.device].append(one)
        for one in taken:
            if one.device not in known:
                return f"{one.device} is no {spec.kind} of this node"
            others = by_device[one.device]
            if fault := _conflict(spec, one, others):
                return f"{one.device} {fault}"
            others.append(one)
        return ""


def _conflict(spec: DeviceSpec, one: Taken, others: Sequence[Taken]) -> str:
    """Return why a device cannot be shared with those who have it already, "" if it can."""
    if others and (one.whole or any(other.whole for other in others)):
        return "is used by another pod"
    if any(one.instance and one.instance == other.instance for other in others) and spec.kind == "vgpu":
        return f"has its instance {one.instance} in use"
    groups = {each.instance.rpartition("-")[0] for each in (one, *others) if spec.kind == "vgpu"}
    if len(groups) > 1:
        return f"cannot be divided by several geometries: {', '.join(sorted(groups))}"
    most = spec.split if spec.kind != "gpu" else len(others) + 1
    if len(others) + 1 > most:
        return f"is shared by {most} pods already"
    limits = {"memory": spec.memory, "cores": spec.cores, "cpus": _CHIP_CPUS}
    for what, limit in limits.items():
        used = sum(getattr(other, what) for other in others)
        if getattr(one, what) and used + getattr(one, what) > limit:
            return f"has {what} {limit}, used {used}, and {getattr(one, what)} more are asked for"
    return ""


def _taken_gpus(_spec: DeviceSpec, pod: Pod) -> Iterator[Taken]:
    memory = pod_amounts(pod.spec, "limits").get(names.GPU_MEMORY, 0) // 1000
    for index in filter(None, pod.metadata.annotations.get(names.GPU_INDEX, "").split(",")):
        yield Taken(index, memory, whole=not memory)


def _taken_vgpus(_spec: DeviceSpec, pod: Pod) -> Iterator[Taken]:
    for container in parse_pod_devices(pod.metadata.annotations.get(names.VGPU_IDS, "")):
        for share in container:
            yield Taken(share.card, share.memory, share.cores, instance=share.instance)


def _taken_npus(spec: DeviceSpec, pod: Pod) -> Iterator[Taken]:
    for container in parse_pod_devices(pod.metadata.annotations.get(names.npu_allocated(spec.type)[1], "")):
        for share in container:
            yield Taken(share.uuid, share.memory, share.cores)


def _taken_chips(spec: DeviceSpec, pod: Pod) -> Iterator[Taken]:
    chips, _, template = pod.metadata.annotations.get(names.NPU_CORE, "").partition("-")
    for chip in filter(None, chips.split(",")):
        if template:
            yield Taken(chip, 0, _VIRTUAL_CORES.get(template, spec.cores + 1), _VIRTUAL_CPUS.get(template, 0))
        else:
            yield Taken(chip, 0, spec.cores, whole=True)


_TAKEN: Mapping[str, Callable[[DeviceSpec, Pod], Iterator[Taken]]] = {
    "gpu": _taken_gpus,
    "vgpu": _taken_vgpus,
    "npu": _taken_npus,
    "mindcluster": _taken_chips,
}
_COUNTED: Mapping[str, Callable[[DeviceSpec], tuple[str, str]]] = {
    "gpu": lambda _spec: (names.GPU_NUMBER, names.GPU_MEMORY),
    "vgpu": lambda _spec: (names.VGPU_NUMBER, names.VGPU_MEMORY),
    "npu": lambda spec: (f"huawei.com/{spec.type}", f"huawei.com/{spec.type}-memory"),
}
"""The resources for the number of devices, and for the memory of each: memory alone means one device."""


def _number_asked(spec: DeviceSpec, pod: Pod) -> int:
    """Return how many devices of a kind the limits of a pod ask for."""
    if spec.kind == "mindcluster":
        cores = pod_amounts(pod.spec, "limits").get(names.NPU_CORE, 0) // 1000
        return cores // spec.cores if cores % spec.cores == 0 else 1
    number, memory = _COUNTED[spec.kind](spec)
    if spec.kind == "gpu":  # the containers of a pod share the devices
        amounts = pod_amounts(pod.spec, "limits")
        return 1 if amounts.get(memory) else amounts.get(number, 0) // 1000
    limits = (stored_amounts(container.resources.limits) for container in pod.spec.containers)
    return sum(one.get(number, int(one.get(memory, 0) > 0) * 1000) // 1000 for one in limits)


def _hand_over_gpu(_spec: DeviceSpec, _taken: Sequence[Taken], done: Handover) -> None:
    done.node[names.GPU_LOCK] = None


def _hand_over_vgpu(_spec: DeviceSpec, _taken: Sequence[Taken], done: Handover) -> None:
    done.pod.update({names.BIND_PHASE: names.ALLOCATED, names.VGPU_TO_ALLOCATE: ""})
    done.node[names.VGPU_LOCK] = None


def _hand_over_npu(spec: DeviceSpec, _taken: Sequence[Taken], done: Handover) -> None:
    done.pod.update({names.HAMI_BIND_PHASE: names.ALLOCATED, names.npu_allocated(spec.type)[0]: ""})
    done.node[names.HAMI_LOCK] = None


def _hand_over_chip(_spec: DeviceSpec, taken: Sequence[Taken], done: Handover) -> None:
    real = (f"Ascend310P-{one.cores}c-{100 + int(one.device)}-{one.device}" for one in taken)
    done.pod[names.NPU_REAL] = ",".join(real)


_HANDOVER: Mapping[str, Callable[[DeviceSpec, Sequence[Taken], Handover], None]] = {
    "gpu": _hand_over_gpu,
    "vgpu": _hand_over_vgpu,
    "npu": _hand_over_npu,
    "mindcluster": _hand_over_chip,
}
