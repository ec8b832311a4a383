"""Plugin deviceshare: places pods on the cards of nodes and writes which ones they get (Volcano: plugins/deviceshare).

Each mode is a kind of devices. The cards of a pod are chosen when it is placed and sent with its bind, as annotations
that the device plugin of the node reads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from volcanoio.framework.arguments import ArgumentError, convert
from volcanoio.framework.probe import Probe
from volcanoio.framework.scheduling.points import Checkpoints
from volcanoio.framework.scheduling.sessionview import SessionView
from volcanoio.framework.scheduling.verdicts import Depends, Feasibility
from volcanoio.framework.scheduling.views import Job, Nodes, Shape, Task, TaskStatus
from volcanoio.framework.scheduling_effects import PreBindStep
from volcanoio.model import kinds
from volcanoio.model.core import ConfigMap, Node, Pod
from volcanoio.model.devices import annotations as names
from volcanoio_plugins.scheduling.devices.cards import Choice, DeviceKind, Request
from volcanoio_plugins.scheduling.devices.chipreports import ChipReports
from volcanoio_plugins.scheduling.devices.deviceconfig import KEY, DeviceConfig, parse_config
from volcanoio_plugins.scheduling.devices.gpushare import GpuShare
from volcanoio_plugins.scheduling.devices.ledger import DeviceLedger, PlacementTable, group_of
from volcanoio_plugins.scheduling.devices.mindcluster import MindCluster
from volcanoio_plugins.scheduling.devices.npu import Npu
from volcanoio_plugins.scheduling.devices.vgpu import Vgpu

_CONFIG_MAPS = kinds.CONFIG_MAP.resource
MAX_TABLES = 256
"""Number of requests whose placements by row are kept."""
NODES_PER_STEP = 64
"""Nodes whose cards are read before other work may run."""
NPU_AMOUNTS = tuple(
    f"huawei.com/Ascend{chip}-{amount}"
    for chip in ("310P", "910A", "910B", "910B2", "910B3", "910B4", "910B4-1", "910C")
    for amount in ("memory", "core")
)
"""Resources of HAMi for memory and cores of an NPU, which nodes do not offer."""
CARD_GAUGES = ("shared_number", "allocated_memory", "allocated_cores", "memory_limit")
POD_GAUGES = ("memory_allocation_for_a_certain_pod", "core_allocation_for_a_certain_pod")


class DeviceshareArguments(msgspec.Struct, frozen=True):
    """Modes, all off by default; how nodes are scored; the ConfigMap that describes cards; and exclusive rules."""

    by_memory: bool = msgspec.field(default=False, name="deviceshare.GPUSharingEnable")
    by_number: bool = msgspec.field(default=False, name="deviceshare.GPUNumberEnable")
    locks: bool = msgspec.field(default=False, name="deviceshare.NodeLockEnable")
    vgpu: bool = msgspec.field(default=False, name="deviceshare.VGPUEnable")
    mindcluster: bool = msgspec.field(default=False, name="deviceshare.AscendMindClusterVNPUEnable")
    npu: bool = msgspec.field(default=False, name="deviceshare.AscendHAMiVNPUEnable")
    policy: Literal["", "binpack", "spread"] = msgspec.field(default="", name="deviceshare.SchedulePolicy")
    weight: int = msgspec.field(default=0, name="deviceshare.ScheduleWeight")
    config_map: str = msgspec.field(default="volcano-vgpu-device-config", name="deviceshare.KnownGeometriesCMName")
    config_namespace: str = msgspec.field(default="kube-system", name="deviceshare.KnownGeometriesCMNamespace")
    rules: tuple[Annotated[dict[str, str], msgspec.Meta(min_length=1)], ...] = msgspec.field(
        default=(), name="deviceshare.GPUExclusiveRules"
    )


def check_modes(given: DeviceshareArguments) -> None:
    """Raise ArgumentError for modes that exclude each other."""
    if given.by_memory and given.by_number:
        rule = (
            "deviceshare: can not define true in both gpu sharing and gpu number: GPUs are shared by memory, or given"
        )
        raise ArgumentError(f"{rule} whole by number; set one of both to false", key="deviceshare.GPUNumberEnable")
    if (given.by_memory or given.by_number) and given.vgpu:
        rule = "deviceshare: gpu-share and vgpu can't be used together: both would give away the same GPUs"
        first = "GPUSharingEnable" if given.by_memory else "GPUNumberEnable"
        raise ArgumentError(f"{rule}; set {first} or VGPUEnable to false", key="deviceshare.VGPUEnable")


class GroupNumbers:
    """Numbers of PodGroups with traits of their own; traits have the number, so that there are few of them."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._groups: dict[int, str] = {}

    def number(self, group: str) -> str:
        """Return the number of a PodGroup, the lowest free one for a new one."""
        if (number := self._numbers.get(group)) is None:
            number = next(at for at in range(len(self._groups) + 1) if at not in self._groups)
            self._numbers[group], self._groups[number] = number, group
        return str(number)

    def group(self, number: str) -> str:
        """Return the PodGroup with a number, "" for none."""
        return self._groups.get(int(number), "") if number else ""

    def keep(self, jobs: Mapping[str, Job]) -> None:
        """Forget PodGroups without waiting pods."""
        for group, number in list(self._numbers.items()):
            if (job := jobs.get(group)) is None or not job.count(TaskStatus.PENDING):
                del self._numbers[group], self._groups[number]


Labels: TypeAlias = tuple[str, tuple[tuple[str, str], ...]]
"""Name of a gauge without what all have in common, and its labels."""
_REQUESTS = msgspec.json.Decoder(tuple[Request, ...])


class Deviceshare:
    """Filters and scores nodes by their cards, and gives pods cards."""

    name = "deviceshare"

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        self._given = given = convert(arguments, DeviceshareArguments, self.name)
        check_modes(given)
        self._is_configured = given.vgpu or given.npu
        reads_maps = self._is_configured or given.mindcluster
        has_mode = reads_maps or given.by_memory or given.by_number
        # without any mode all is declared that a mode may need: rights are derived from the default arguments
        self.watches: tuple[str, ...] = (_CONFIG_MAPS,) if reads_maps or not has_mode else ()
        ignored = [names.VGPU_PERCENTAGE] if given.vgpu else []
        self.ignored_resources: tuple[str, ...] = (*ignored, *(NPU_AMOUNTS if given.npu else ()))
        of_each = [names.VGPU_MEMORY, names.VGPU_CORES] if given.vgpu else []
        self.per_device_resources: dict[str, str] = dict.fromkeys(of_each, names.VGPU_NUMBER)
        self._config_text: str | None = None
        self._config_seen = -1
        self._config = DeviceConfig()
        self._chip_reports = ChipReports()
        self._groups = GroupNumbers()
        self._tables: dict[str, PlacementTable] = {}
        """Placements by the trait of shapes."""
        self._row_of: dict[str, int] | None = None
        self._reported: dict[str, dict[Labels, float]] = {}
        """Gauges by node."""
        self._reported_version = -1
        self._use(self._config)

    def _use(self, config: DeviceConfig) -> None:
        """Build the kinds of devices from the description of cards."""
        given = self._given
        found: list[DeviceKind] = []
        if given.by_memory or given.by_number:
            found.append(GpuShare(by_number=given.by_number))
        if given.vgpu:
            found.append(Vgpu(config.nvidia, given.rules))
        if given.mindcluster:
            found.append(MindCluster(self._chip_reports))
        if given.npu:
            found += [Npu(one) for one in config.npus]
        self._config = config
        self._kinds = found
        self.has_traits = bool(found)
        self._resources = frozenset(name for kind in found for name in kind.resources)
        self._ledger = DeviceLedger(found, locks=given.locks)
        self._cards_version = -1
        self._tables.clear()

    def open(self, session: SessionView) -> Checkpoints:
        """Read the description of cards, and the cards of nodes, where they changed."""
        if self._is_configured and (seen := session.version(_CONFIG_MAPS)) != self._config_seen:
            self._config_seen = seen
            key = f"{self._given.config_namespace}/{self._given.config_map}"
            stored = session.objects(_CONFIG_MAPS).get(key)
            text = stored.data.get(KEY) if isinstance(stored, ConfigMap) else None
            if text != self._config_text:
                self._config_text = text
                self._use(DeviceConfig() if text is None else parse_config(text, f"ConfigMap {key}"))
        if self._given.mindcluster and (changed := self._chip_reports.read(session)):
            self._ledger.forget(changed)
            self._tables.clear()
        self._ledger.session = session
        self._groups.keep(session.jobs)
        return self._read_cards(session)

    def _read_cards(self, session: SessionView) -> Checkpoints:
        """Read the cards of nodes that changed, so that no placement has to; other work may run in between."""
        since, self._cards_version = self._cards_version, session.nodes_version
        objects = session.nodes.objects
        rows = {row for row in session.changed_rows(since) if row < len(objects)} if self._kinds else set()
        for number, row in enumerate(rows, 1):
            for kind in self._kinds:
                self._ledger.cards(kind, objects[row])
            if not number % NODES_PER_STEP:
                yield

    def trait(self, task: Task, job: Job) -> str:
        """Return what the pod asks for, "" for pods without devices."""
        if not self._asks(task.shape):
            return ""
        asked = self._requests_of(task.pod)
        is_gang = self._given.locks and job.min_available > 1
        if not is_gang and not any(one.spread for one in asked):
            return msgspec.json.encode(asked).decode()
        number = self._groups.number(job.key)
        return msgspec.json.encode(
            [
                msgspec.structs.replace(one, spread=number if one.spread else "", gang=number if is_gang else "")
                for one in asked
            ]
        ).decode()

    def feasible_depends(self, shape: Shape) -> Depends:
        """Depend on what other pods hold, if the shape asks for devices."""
        return Depends.PODS | Depends.NODE_SPEC if self._asks(shape) else Depends.SKIP

    def feasible(self, shape: Shape, nodes: Nodes) -> Feasibility:
        """Return the nodes whose cards suffice once terminating pods are gone, and why others do not."""
        if self._config.fault:
            nowhere = np.zeros(len(nodes), np.bool_)
            return Feasibility(nowhere, ((self._config.fault, ~nowhere),))
        table = self._table(shape)
        rows = self._rows(nodes)
        return Feasibility(table.allowed[rows], tuple((text, failed[rows]) for text, failed in table.reasons()))

    def allowed(self, shape: Shape, nodes: Nodes) -> NDArray[np.bool_]:
        """Return the nodes whose cards suffice once terminating pods are gone."""
        return np.zeros(len(nodes), np.bool_) if self._config.fault else self._table(shape).allowed

    def allowed_now(self, shape: Shape, nodes: Nodes) -> NDArray[np.bool_]:
        """Return the nodes whose cards suffice now."""
        return np.zeros(len(nodes), np.bool_) if self._config.fault else self._table(shape).allowed_now

    def score_depends(self, shape: Shape) -> Depends:
        """Depend on what other pods hold, if nodes are scored."""
        is_scored = self._given.weight and self._given.policy and self._asks(shape)
        return Depends.PODS | Depends.NODE_SPEC if is_scored else Depends.NOTHING

    def score(self, shape: Shape, nodes: Nodes, feasible: NDArray[np.bool_]) -> NDArray[np.float64]:  # noqa: ARG002 - not relative to other nodes
        """Score the cards that a pod would get."""
        return np.zeros(len(nodes)) if self._config.fault else self._table(shape).scores[self._rows(nodes)]

    def annotates(self, shape: Shape) -> bool:
        """Return whether the shape may ask for devices, also of kinds that the ConfigMap describes later."""
        return bool(self._kinds) and any("/" in name for name in shape.limits)

    def bind_annotations(self, task: Task) -> Mapping[str, str]:
        """Choose the cards of a task on its node."""
        session = self._ledger.session
        row = self._row(task.node)
        chosen: dict[str, str] = {}
        for one in self._requests_of(task.pod):
            kind = self._ledger.kinds[one.kind]
            wanted = msgspec.structs.replace(one, spread=group_of(task)) if one.spread else one
            leaving = task.status is TaskStatus.ALLOCATED
            states = self._ledger.states(kind, session.nodes.objects[row], leaving=leaving, without=task.uid)
            choice = kind.choose(wanted, states, self._given.policy) if states else ""
            if isinstance(choice, Choice):
                chosen |= kind.annotations(wanted, choice, task.node, session.now)
        return chosen

    def prebinds(self, shape: Shape) -> bool:
        """Return whether nodes are locked for the shape."""
        return self._given.locks and self.annotates(shape)

    def prebind(self, task: Task) -> Sequence[PreBindStep]:
        """Return the step that locks the node for each kind of devices, until the device plugin unlocks it.

        The lock has the time of this decision; a bind that waits for the lock of another one writes its own time.
        """
        session = self._ledger.session
        meta = session.nodes.objects[self._row(task.node)].metadata
        locks = dict.fromkeys(self._ledger.kinds[one.kind].lock for one in self._requests_of(task.pod))
        return [
            PreBindStep(
                resource=kinds.NODE.resource,
                name=task.node,
                uid=meta.uid,
                before=_annotation(lock, meta.annotations.get(lock)),
                patch=_annotation(lock, names.format_lock(lock, session.now, task.namespace, task.name)),
                undo=_annotation(lock, None),
                timeout=names.LOCK_SECONDS,
            )
            for lock in filter(None, locks)
        ]

    def report(self, probe: Probe) -> Checkpoints:
        """Report what is held of each vGPU, for nodes that changed."""
        vgpu = next((kind for kind in self._kinds if isinstance(kind, Vgpu)), None)
        session = self._ledger.session
        if vgpu is None or session.nodes_version == self._reported_version:
            return
        changed = {row for row in session.changed_rows(self._reported_version) if row < len(session.nodes)}
        self._reported_version = session.nodes_version
        present = set(session.nodes.names)
        for name in [name for name in self._reported if name not in present]:
            _replace(probe, self._reported.pop(name), {})
        for row in sorted(changed):
            if row >= len(session.nodes):  # removed since the last step
                break
            node = session.nodes.objects[row]
            gauges = self._gauges(vgpu, node)
            if gauges or node.metadata.name in self._reported:
                _replace(probe, self._reported.get(node.metadata.name, {}), gauges)
                self._reported[node.metadata.name] = gauges
                yield

    def _gauges(self, vgpu: Vgpu, node: Node) -> dict[Labels, float]:
        """Return the value of each gauge of a node by name and labels."""
        gauges: dict[Labels, float] = {}
        name = node.metadata.name
        for state in self._ledger.states(vgpu, node, leaving=True):
            values = (state.sharers, state.memory, state.cores, state.card.memory)
            for gauge, value in zip(CARD_GAUGES, values, strict=True):
                gauges[gauge, (("NodeName", name), ("devID", state.card.key))] = float(value)
        for holder in self._ledger.holders(vgpu, name, leaving=True):
            for share in holder.shares:
                labels = (("NodeName", name), ("devID", share.card), ("podName", holder.name))
                for gauge, value in zip(POD_GAUGES, (share.memory, share.cores), strict=True):
                    gauges[gauge, labels] = gauges.get((gauge, labels), 0.0) + value
        return gauges

    def _asks(self, shape: Shape) -> bool:
        return not self._resources.isdisjoint(shape.limits)

    def _requests_of(self, pod: Pod) -> list[Request]:
        return [one for kind in self._kinds if (one := kind.request(pod)) is not None]

    def _table(self, shape: Shape) -> PlacementTable:
        """Return where pods of a shape fit, up to date."""
        requests = self._asked_by(shape)
        key = shape.traits.get(self.name, "")
        table = self._tables.pop(key, None)
        if table is None or table.requests != requests:
            table = PlacementTable(self._ledger, requests, self._given.policy, self._given.weight)
        if len(self._tables) >= MAX_TABLES:
            del self._tables[next(iter(self._tables))]
        self._tables[key] = table
        return table.update()

    def _asked_by(self, shape: Shape) -> tuple[Request, ...]:
        """Return the requests in the trait of a shape."""
        group = self._groups.group
        return tuple(
            msgspec.structs.replace(one, spread=group(one.spread), gang=group(one.gang))
            for one in _REQUESTS.decode(shape.traits.get(self.name, "[]"))
        )

    def _rows(self, nodes: Nodes) -> NDArray[np.intp] | slice:
        every = self._ledger.session.nodes
        return slice(0, len(nodes)) if nodes is every else np.array([self._row(name) for name in nodes.names], np.intp)

    def _row(self, name: str) -> int:
        """Return the row of a node of the session."""
        nodes = self._ledger.session.nodes
        if self._row_of is None or len(self._row_of) != len(nodes) or nodes.names[self._row_of.get(name, 0)] != name:
            self._row_of = {each: row for row, each in enumerate(nodes.names)}
        return self._row_of[name]


def _annotation(name: str, text: str | None) -> dict[str, Any]:
    """Return an object with an annotation, as a pattern or a patch; None: without it."""
    return {"metadata": {"annotations": {name: text}}}


def _replace(probe: Probe, before: Mapping[Labels, float], after: Mapping[Labels, float]) -> None:
    """Set gauges, and forget those that are gone."""
    for gauge, labels in before.keys() - after.keys():
        probe.forget(f"volcano_vgpu_device_{gauge}", **dict(labels))
    for (gauge, labels), value in after.items():
        if before.get((gauge, labels)) != value:
            probe.gauge(f"volcano_vgpu_device_{gauge}", value, **dict(labels))
