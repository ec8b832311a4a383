"""Configuration of the sharding controller: `sharding.yaml` of a ConfigMap, or the flag --scheduler-configs.

    schedulerConfigs:
    - name: volcano
      type: volcano
      policies:
      - {name: allocation-rate, arguments: {minCPUUtil: 0.0, maxCPUUtil: 0.6}}
      - {name: node-limit, arguments: {maxNodes: 100}}
    shardSyncPeriod: 60s
    enableNodeEventTrigger: true

Schedulers pick in this order. Volcano's older fields of a scheduler (cpuUtilizationMin, cpuUtilizationMax,
preferWarmupNodes, minNodes, maxNodes, arguments) become policies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import yaml

from volcanoio.engine.sharding.policies import NODE_LIMIT, POLICIES, Policy
from volcanoio.framework.arguments import ArgumentError, GoDuration, convert, suggestion
from volcanoio.framework.controller import ShardingSettings
from volcanoio.model.documents import load_yaml

FILE = "sharding.yaml"
"""Key of the ConfigMap."""


class SchedulerShard(msgspec.Struct, frozen=True):
    """A scheduler, and the policies that choose its nodes; `name` is that of its NodeShard."""

    name: str
    policies: tuple[Policy, ...]


class ShardingConfiguration(msgspec.Struct, frozen=True):
    """Schedulers in the order in which they pick; `sync_period` in seconds."""

    schedulers: tuple[SchedulerShard, ...]
    sync_period: float
    node_events: bool


class _File(msgspec.Struct, frozen=True, rename="camel"):
    scheduler_configs: list[dict[str, Any]] = []
    shard_sync_period: GoDuration | None = None
    enable_node_event_trigger: bool | None = None


class _Scheduler(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    type: str = ""
    policies: list[dict[str, Any]] = []
    cpu_utilization_min: float | None = None
    cpu_utilization_max: float | None = None
    prefer_warmup_nodes: bool = False
    min_nodes: int | None = None
    max_nodes: int | None = None
    arguments: dict[str, Any] = {}


class _PolicyEntry(msgspec.Struct, frozen=True):
    name: str = ""
    weight: int = 1
    arguments: dict[str, Any] = {}


def parse(text: str, settings: ShardingSettings) -> ShardingConfiguration:
    """Parse `sharding.yaml`; what it leaves out is that of the flags. Raises ArgumentError."""
    try:
        given = load_yaml(text)
    except (yaml.YAMLError, ValueError) as error:
        raise ArgumentError(f"{FILE}: not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(given, dict) or not all(isinstance(key, str) for key in given):
        raise ArgumentError(f"{FILE}: not a mapping; begin it with schedulerConfigs:")
    file = convert(given, _File, FILE)
    if not file.scheduler_configs:
        raise ArgumentError(f"{FILE}: schedulerConfigs is empty; name at least one scheduler", key="schedulerConfigs")
    period, events = file.shard_sync_period, file.enable_node_event_trigger
    if period is not None and period <= 0:
        raise ArgumentError(f"{FILE}: shardSyncPeriod must be longer than 0, such as 60s", key="shardSyncPeriod")
    return ShardingConfiguration(
        _distinct([_scheduler(entry, number) for number, entry in enumerate(file.scheduler_configs)]),
        settings.sync_period if period is None else float(period),
        settings.node_events if events is None else events,
    )


def _distinct(schedulers: Sequence[SchedulerShard]) -> tuple[SchedulerShard, ...]:
    names = [scheduler.name for scheduler in schedulers]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ArgumentError(f'scheduler "{twice[0]}" is given twice; a scheduler has one shard')
    return tuple(schedulers)


def _scheduler(entry: Mapping[str, Any], number: int) -> SchedulerShard:
    owner = f"{FILE}: schedulerConfigs[{number}]"
    given = convert(entry, _Scheduler, owner)
    if not given.name:
        raise ArgumentError(f"{owner}: name is missing; it is the scheduler's --scheduler-sharding-name")
    chain = [_policy(policy, f"{owner}.policies[{at}]") for at, policy in enumerate(given.policies)]
    if not chain:
        chain += _utilization(given, owner)
    if given.min_nodes is not None or given.max_nodes is not None:
        arguments = {"minNodes": given.min_nodes or 0, "maxNodes": given.max_nodes or 0}
        chain.append(Policy(POLICIES[NODE_LIMIT](arguments, owner)))
    return SchedulerShard(given.name, tuple(chain))


def _policy(entry: Mapping[str, Any], owner: str) -> Policy:
    given = convert(entry, _PolicyEntry, owner)
    if given.name not in POLICIES:
        raise ArgumentError(f'{owner}: there is no policy "{given.name}"{suggestion(given.name, sorted(POLICIES))}')
    if given.weight < 0:
        raise ArgumentError(f"{owner}: weight {given.weight} must be 0 or more", key="weight")
    return Policy(POLICIES[given.name](given.arguments, f"{owner} {given.name}"), given.weight)


def _utilization(given: _Scheduler, owner: str) -> list[Policy]:
    """Return the policies of Volcano's older fields."""
    bounds = {"minCPUUtil": given.cpu_utilization_min, "maxCPUUtil": given.cpu_utilization_max}
    arguments = {**given.arguments, **{key: value for key, value in bounds.items() if value is not None}}
    chain = [Policy(POLICIES["allocation-rate"](arguments, owner))]
    if given.prefer_warmup_nodes:
        chain.append(Policy(POLICIES["warmup"]({}, owner)))
    return chain


def of_flags(settings: ShardingSettings) -> ShardingConfiguration:
    """Return the configuration of the flags, which holds without a ConfigMap. Raises ArgumentError."""
    return ShardingConfiguration(
        _distinct([_scheduler_of_flag(text) for text in settings.scheduler_configs]),
        settings.sync_period,
        settings.node_events,
    )


_BOUNDS = {"inf": 1.0, "infinity": 1.0, "-inf": 0.0, "-infinity": 0.0}
"""Words for the largest and the smallest utilisation."""
FLAG_FORM = "NAME:TYPE:MINCPU:MAXCPU:WARMUP:MINNODES:MAXNODES, such as volcano:volcano:0.0:0.6:false:2:100"


def _scheduler_of_flag(text: str) -> SchedulerShard:
    parts = text.split(":")
    try:
        name, kind, least, most, warmup, min_nodes, max_nodes = parts
        entry = {
            "name": name,
            "type": kind,
            "cpuUtilizationMin": _BOUNDS[least] if least in _BOUNDS else float(least),
            "cpuUtilizationMax": _BOUNDS[most] if most in _BOUNDS else float(most),
            "preferWarmupNodes": {"true": True, "false": False}[warmup],
            "minNodes": int(min_nodes),
            "maxNodes": int(max_nodes),
        }
    except (ValueError, KeyError):
        raise ArgumentError(f'"{text}" is not a scheduler; write {FLAG_FORM}') from None
    try:
        return _scheduler(entry, 0)
    except ArgumentError as error:
        raise ArgumentError(str(error).replace(f"{FILE}: schedulerConfigs[0]", f'"{text}"')) from None
