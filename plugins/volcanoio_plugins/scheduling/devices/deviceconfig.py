"""The ConfigMap that describes cards: names of resources, MIG geometries, and templates of NPUs.

Source: Volcano, pkg/scheduler/api/devices/config. Its key `device-config.yaml` has the part `nvidia` and the
list `vnpus` (or `vnpus.configs`). Without the ConfigMap Volcano's defaults are used.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import msgspec
import yaml

from volcanoio.model.devices.annotations import VGPU_CORES, VGPU_MEMORY, VGPU_NUMBER, VGPU_PERCENTAGE
from volcanoio.model.documents import load_yaml
from volcanoio_plugins.scheduling.devices.mig import Geometry, Profile

KEY = "device-config.yaml"


class _Profile(msgspec.Struct, frozen=True):
    name: str
    memory: int
    count: int = 1


class _Group(msgspec.Struct, frozen=True):
    group: str = ""
    geometries: tuple[_Profile, ...] = ()


class _Models(msgspec.Struct, frozen=True, rename="camel"):
    models: tuple[str, ...] = ()
    allowed_geometries: tuple[_Group | tuple[_Profile, ...], ...] = ()


class NvidiaConfig(msgspec.Struct, frozen=True, rename="camel"):
    """The part `nvidia`: names of resources, MIG geometries by model, and MiB in a unit of memory (0 and 1: one)."""

    number: str = msgspec.field(default=VGPU_NUMBER, name="resourceCountName")
    memory: str = msgspec.field(default=VGPU_MEMORY, name="resourceMemoryName")
    percentage: str = msgspec.field(default=VGPU_PERCENTAGE, name="resourceMemoryPercentageName")
    cores: str = msgspec.field(default=VGPU_CORES, name="resourceCoreName")
    known_mig_geometries: tuple[_Models, ...] = ()
    gpu_memory_factor: int = msgspec.field(default=1, name="gpuMemoryFactor")

    def geometries_of(self, model: str) -> tuple[Geometry, ...]:
        """Return the geometries of the first entry with a part of the card's type, memory in the unit of requests."""
        for entry in self.known_mig_geometries:
            if any(part in model for part in entry.models):
                return _geometries(entry, max(self.gpu_memory_factor, 1))
        return ()


@lru_cache(maxsize=256)
def _geometries(entry: _Models, factor: int) -> tuple[Geometry, ...]:
    """Return the geometries of an entry; a list of profiles without a group is named after its place."""
    found = []
    for at, each in enumerate(entry.allowed_geometries, 1):
        group, profiles = (each.group, each.geometries) if isinstance(each, _Group) else ("", each)
        sizes = tuple(Profile(one.name, one.memory // factor, one.count) for one in profiles)
        found.append(Geometry(group or f"group{at}", sizes))
    return tuple(found)


class NpuTemplate(msgspec.Struct, frozen=True, rename="camel"):
    """One way to take a part of an NPU; memory in MiB."""

    name: str
    memory: int
    ai_core: int = 0
    ai_cpu: int = msgspec.field(default=0, name="aiCPU")


class NpuConfig(msgspec.Struct, frozen=True, rename="camel"):
    """One chip of `vnpus`; memory in MiB."""

    common_word: str
    resource_name: str
    resource_memory_name: str = ""
    resource_core_name: str = ""
    chip_name: str = ""
    memory_allocatable: int = 0
    memory_capacity: int = 0
    ai_core: int = 0
    ai_cpu: int = msgspec.field(default=0, name="aiCPU")
    templates: tuple[NpuTemplate, ...] = ()

    def template_for(self, memory: int) -> tuple[int, str] | None:
        """Return memory and name of the smallest template with that much memory; of a whole card the name is ""."""
        for template in sorted(self.templates, key=lambda each: each.memory):
            if memory <= template.memory:
                return template.memory, template.name
        return (self.memory_allocatable, "") if memory <= self.memory_capacity else None


DEFAULT_NPUS = (
    NpuConfig(
        common_word="Ascend310P",
        chip_name="310P3",
        resource_name="huawei.com/Ascend310P",
        resource_memory_name="huawei.com/Ascend310P-memory",
        resource_core_name="huawei.com/Ascend310P-core",
        memory_allocatable=21527,
        memory_capacity=24576,
        ai_core=8,
        ai_cpu=7,
        templates=(
            NpuTemplate("vir01", 3072, 1, 1),
            NpuTemplate("vir02", 6144, 2, 2),
            NpuTemplate("vir04", 12288, 4, 4),
        ),
    ),
)
"""Volcano's default (GetDefaultDevicesConfig)."""


class DeviceConfig(NamedTuple):
    """The description of cards; `fault` is why the ConfigMap cannot be used."""

    nvidia: NvidiaConfig = NvidiaConfig()
    npus: tuple[NpuConfig, ...] = DEFAULT_NPUS
    fault: str = ""


class _WrappedNpus(msgspec.Struct, frozen=True):
    configs: tuple[NpuConfig, ...] = ()


class _Document(msgspec.Struct, frozen=True):
    nvidia: NvidiaConfig = NvidiaConfig()
    vnpus: Any = ()


def parse_config(text: str, owner: str) -> DeviceConfig:
    """Parse the text of the ConfigMap's key; with `fault` set if it cannot be used."""
    try:
        document = msgspec.convert(load_yaml(text) or {}, _Document)
        wrapped = isinstance(document.vnpus, dict)
        npus = (
            msgspec.convert(document.vnpus, _WrappedNpus).configs
            if wrapped
            else msgspec.convert(document.vnpus or (), tuple[NpuConfig, ...])
        )
    except (msgspec.ValidationError, yaml.YAMLError) as error:
        first = str(error).splitlines()[0]
        return DeviceConfig(fault=f"{owner}, key {KEY}: {first}; fix it, or delete the ConfigMap for the defaults")
    return DeviceConfig(document.nvidia, npus)
