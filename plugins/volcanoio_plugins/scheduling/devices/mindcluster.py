"""Ascend MindCluster: virtual NPUs of the Ascend 310P by templates, and whole chips.

Source: Volcano, pkg/scheduler/api/devices/ascend/mindcluster/ascend310p/vnpu, and MindCluster's documentation. A pod
asks for AI cores (`huawei.com/npu-core`): a multiple of a chip's means whole chips; 1, 2 and 4 mean a template, chosen
by the labels `vnpu-level` and `vnpu-dvpp`. Where no chip has enough AI CPUs, templates with fewer are tried. While the
device plugin creates a virtual NPU on a node, only pods of the same template go there. Virtual NPUs are in groups,
which the device plugin names once it has created them: the more groups a chip has, the smaller are those that can be
added.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from volcanoio.model.core import Node, Pod
from volcanoio.model.devices import annotations as names
from volcanoio.model.resources import stored_amounts
from volcanoio_plugins.scheduling.devices.cards import (
    Card,
    CardState,
    Choice,
    ContainerRequest,
    Request,
    Share,
    card_score,
    limit_of,
)
from volcanoio_plugins.scheduling.devices.chipreports import NOT_USED, ChipReports

LEVEL_LABEL, DVPP_LABEL = "vnpu-level", "vnpu-dvpp"
HIGH, LOW = "high", "low"
DVPP_ON, DVPP_OFF, DVPP_NULL = "yes", "no", "null"
CHIP = "Ascend310P"
CPUS_PER_CHIP = 7
"""AI CPUs of an Ascend 310P."""
MAX_SHARERS = 7
"""Virtual NPUs of an Ascend 310P."""
WRONG_CORES = "huawei.com/npu-core must be 1, 2, 4 or a multiple of a chip's AI cores"
WRONG_DVPP = "err dvpp value: the label vnpu-dvpp must be yes, no or null"
NOT_ENOUGH = "node not meet task request huawei.com/npu-core"
OTHER_TEMPLATE = "node is creating a virtual NPU of another template"
MAX_CORES = {3: 2, 4: 1}
"""Most AI cores of a further virtual NPU, by the number of groups of virtual NPUs on the chip."""
BASE_DEVICES = "baseDeviceInfos"
"""Annotation of nodes by the device plugin: a JSON object with the names of its chips as keys."""


class Template(NamedTuple):
    """AI cores and CPUs of a virtual NPU, and its use of the chip's video unit (DVPP): all of it, none, or a part."""

    name: str
    cores: int
    cpus: int
    dvpp: str = DVPP_NULL


_TEMPLATES = {
    each.name: each
    for each in (
        Template("vir01", 1, 1),
        Template("vir02", 2, 2),
        Template("vir02_1c", 2, 1),
        Template("vir04", 4, 4),
        Template("vir04_3c", 4, 3),
        Template("vir04_3c_ndvpp", 4, 3, DVPP_OFF),
        Template("vir04_4c_dvpp", 4, 4, DVPP_ON),
    )
}
_FEWER_CPUS = {"vir02": "vir02_1c", "vir04": "vir04_3c"}
"""The template with fewer AI CPUs that replaces another one."""


def template_of(cores: int, level: str, dvpp: str) -> Template | None:
    """Return the template for so many AI cores, None if there is none."""
    if cores == 1:
        return _TEMPLATES["vir01"]
    if cores == 2:
        return _TEMPLATES["vir02" if level == HIGH else "vir02_1c"]
    if cores != 4:
        return None
    if dvpp != DVPP_NULL:
        return _TEMPLATES["vir04_4c_dvpp" if dvpp == DVPP_ON else "vir04_3c_ndvpp"]
    return _TEMPLATES["vir04" if level == HIGH else "vir04_3c"]


class MindCluster:
    """Virtual NPUs of the Ascend 310P."""

    name = "ascend310p-vNPU"
    resources: tuple[str, ...] = (names.NPU_CORE,)
    lock = ""

    def __init__(self, reports: ChipReports) -> None:
        self._reports = reports

    def request(self, pod: Pod) -> Request | None:
        """Return the AI cores of the first container that has some, for pods of the kind ascend-310P."""
        labels = pod.metadata.labels
        if labels.get(names.NPU_KIND_LABEL) != names.NPU_KIND:
            return None
        asked = (limit_of(container, names.NPU_CORE) for container in pod.spec.containers)
        if not (cores := next(filter(None, asked), 0)):
            return None
        level = HIGH if labels.get(LEVEL_LABEL) == HIGH else LOW
        return Request(
            self.name,
            (ContainerRequest(1, cores=cores),),
            level=level,
            dvpp=labels.get(DVPP_LABEL, DVPP_NULL),
        )

    def cards(self, node: Node) -> tuple[Card, ...] | str:
        """Return the chips of a node: its AI cores divided by those of a chip, which its label `servertype` names.

        Of a node whose chips are reported, those without fault; of others as many as its allocatable AI cores are.
        """
        server = node.metadata.labels.get(names.NPU_SERVER_LABEL, "").split("-")
        cores = int(server[1]) if len(server) > 1 and server[1].isdecimal() else 0
        if not cores or server[0] != CHIP:
            return ()
        report = self._reports.of(node.metadata.name)
        if report.status in NOT_USED:
            return f"node is {report.status}, due to nodeD reported node status"
        offered = node.status.capacity if report.has_chips and node.status.capacity else node.status.allocatable
        count = stored_amounts(offered).get(names.NPU_CORE, 0) // 1000 // cores
        chips = [chip for chip in _numbers(node, count) if chip not in report.faulty]
        return tuple(Card(chip, MAX_SHARERS, 0, cores, CHIP, cpus=CPUS_PER_CHIP) for chip in chips)

    def shares(self, pod: Pod, annotations: Mapping[str, str]) -> tuple[Share, ...]:
        """Return the chips of a pod with its template, or the whole chips."""
        text = annotations.get(names.NPU_CORE, "")
        chips, _, name = text.partition("-")
        if not chips:
            return ()
        if (template := _TEMPLATES.get(name)) is not None:
            real = annotations.get(names.NPU_REAL, "")
            group = real.rpartition("_")[2] if "_" in real else "" if real else f"of {pod.metadata.uid}"
            return (Share(chips, 0, template.cores, template.name, template.cpus, group),)
        whole = [chip for chip in chips.split(",") if chip]
        cores = next(filter(None, (limit_of(each, names.NPU_CORE) for each in pod.spec.containers)), 0)
        return tuple(Share(chip, 0, cores // len(whole), "", CPUS_PER_CHIP) for chip in whole)

    def is_handed_over(self, annotations: Mapping[str, str]) -> bool:
        """Return whether the device plugin has created the virtual NPU."""
        return bool(annotations.get(names.NPU_REAL))

    def choose(self, request: Request, states: list[CardState], policy: str) -> Choice | str:
        """Choose the chip with least room that suffices, or unused chips."""
        cores, per_chip = request.containers[0].cores, states[0].card.cores
        if cores % per_chip == 0:
            return _whole_chips(cores // per_chip, states)
        if request.dvpp not in (DVPP_ON, DVPP_OFF, DVPP_NULL):
            return WRONG_DVPP
        if (template := template_of(cores, request.level, request.dvpp)) is None:
            return WRONG_CORES
        if (state := _chip_for(template, states)) is None:
            fewer = _TEMPLATES.get(_FEWER_CPUS.get(template.name, ""))
            if fewer is None or (state := _chip_for(fewer, states)) is None:
                return NOT_ENOUGH
            template = fewer
        if any(one.uncreated - {template.name} for one in states):
            return OTHER_TEMPLATE
        was_idle = not state.sharers
        share = Share(state.card.key, 0, template.cores, template.name, template.cpus)
        state.add(share)
        return Choice(((share,),), card_score(policy, state, was_idle=was_idle))

    def annotations(self, request: Request, choice: Choice, node: str, now: float) -> dict[str, str]:  # noqa: ARG002 - the choice contains all
        """Return the chip with its template, or the whole chips, and the time."""
        ((first, *others),) = choice.containers
        text = f"{first.card}-{first.instance}" if first.instance else ",".join(each.card for each in (first, *others))
        return {names.NPU_TIME: str(int(now * 1e9)), names.NPU_CORE: text}


def _numbers(node: Node, count: int) -> list[str]:
    """Return the numbers of a node's chips, at most so many; without the device plugin's annotation the first ones."""
    try:
        listed = msgspec.json.decode(node.metadata.annotations.get(BASE_DEVICES, ""), type=dict[str, Any])
    except msgspec.DecodeError:
        return [str(number) for number in range(count)]
    numbers = {name.removeprefix(f"{CHIP}-") for name in listed if name.count("-") == 1}
    return sorted((each for each in numbers if each.isdecimal()), key=int)[:count]


def _whole_chips(count: int, states: list[CardState]) -> Choice | str:
    unused = [state for state in states if not state.sharers][:count]
    if len(unused) < count or not count:
        return NOT_ENOUGH
    shares = tuple(Share(state.card.key, 0, state.card.cores, "", state.card.cpus) for state in unused)
    for state, share in zip(unused, shares, strict=True):
        state.add(share)
    return Choice((shares,))


def _chip_for(template: Template, states: list[CardState]) -> CardState | None:
    """Return the chip with least free cores and CPUs that has room for a template."""
    fitting = [state for state in states if _has_room(state, template)]
    return min(fitting, key=lambda state: (state.card.cores - state.cores, state.card.cpus - state.cpus), default=None)


def _has_room(state: CardState, template: Template) -> bool:
    card = state.card
    if state.sharers >= card.number:
        return False
    if template.cores > MAX_CORES.get(min(len(state.vgroups), max(MAX_CORES)), template.cores):
        return False
    if state.cores + template.cores > card.cores or state.cpus + template.cpus > card.cpus:
        return False
    used = {_TEMPLATES[name].dvpp for name in state.instances if name in _TEMPLATES}
    if template.dvpp == DVPP_ON:
        return used <= {DVPP_OFF}
    return template.dvpp == DVPP_OFF or DVPP_ON not in used
