"""Runs a plugin or an action on random clusters and says what is wrong with it."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from hashlib import sha256
from random import Random
from typing import Any

import msgspec

from volcanoio.engine.scheduling.cluster import ClusterState
from volcanoio.engine.scheduling.configuration import SWITCH_DEFAULTS, PluginOption, Tier, default_text, parse
from volcanoio.engine.scheduling.offline import Offline
from volcanoio.engine.scheduling.profile import Profile
from volcanoio.framework.scheduling import points
from volcanoio.framework.scheduling.session import Action
from volcanoio.framework.scheduling.verdicts import Depends
from volcanoio.framework.scheduling_effects import BindBatch, SchedulerEffect
from volcanoio.runtime.plugincheck.clusters import START, cluster, happen
from volcanoio.runtime.plugincheck.costs import NODES, Costing
from volcanoio.runtime.plugincheck.probing import Probing
from volcanoio.runtime.plugincheck.report import Report
from volcanoio.runtime.scheduler_setup import Known

RAISES, TWICE, FRESH = "no method raises", "decisions are the same twice", "decisions are those of answers never kept"
FITS, WHOLE = "no node gets more than it offers", "no gang is bound in part"
_SEEDS, _CYCLES, _SIZE, _GANGS = range(8), 4, 5, 16


def check_plugin(
    factory: Callable[..., Any],
    known: Known,
    *,
    configuration: str | None = None,
    arguments: Mapping[str, Any] | None = None,
    seeds: Iterable[int] = _SEEDS,
    timer: Callable[[], float] | None = None,
) -> Report:
    """Check one scheduler plugin beside those of a configuration (None: the default), with its arguments.

    `known` is what else the configuration names. `timer` gives seconds; without it no cost is measured. Raises
    ConfigurationError for arguments that the plugin refuses.
    """
    report = Report(factory.name)  # type: ignore[attr-defined]  # loading has checked that it has a name
    beside = _Beside(report.name, known, configuration, arguments)
    for check in (RAISES, TWICE, FRESH):
        report.begin(check)
    first = plugin_of(beside.profile(factory), report.name)
    report.points = tuple(point.__name__ for point in points.POINTS if points.implements(first, point))
    for seed in seeds:
        profile = beside.profile(factory)
        probing = Probing(plugin_of(profile, report.name), report)
        if _run(report, _with(profile, probing), seed) is None:
            continue
        plain = _run(report, beside.profile(factory), seed)
        again = _run(report, beside.profile(factory), seed)
        if plain != again:
            report.add(TWICE, f"seed {seed}: {_difference(plain, again)}; use no randomness, clock or order of sets")
        if (unkept := _unkept(factory)) is not None:
            fresh = _run(report, beside.profile(unkept), seed)
            if _placed(plain) != _placed(fresh):
                text = "declare in feasible_depends, score_depends and keeps_job_keys no less than answers depend on"
                report.add(FRESH, f"seed {seed}: {_difference(_placed(plain), _placed(fresh))}; {text}")
    if timer is not None:
        profile = beside.profile(factory)
        costing = Costing(plugin_of(profile, report.name), report, timer)
        _run(report, replace(profile, actions=(costing,)), 0, nodes=NODES, cycles=1)
    return report


def digest(factory: Callable[..., Any], known: Known, configuration: str | None, seeds: Iterable[int] = _SEEDS) -> str:
    """A digest of all that is decided with a plugin on random clusters: processes are compared by it."""
    report = Report(factory.name)  # type: ignore[attr-defined]  # loading has checked that it has a name
    beside = _Beside(report.name, known, configuration, None)
    lives = [_run(report, beside.profile(factory), seed) for seed in seeds]
    return sha256(b"".join(b"".join(life or ()) for life in lives)).hexdigest()


def check_action(
    factory: Callable[..., Any], known: Known, *, configuration: str | None = None, seeds: Iterable[int] = _SEEDS
) -> Report:
    """Check one action in the place of allocate: what it binds fits, gangs are whole, and twice is the same."""
    report = Report(factory.name)  # type: ignore[attr-defined]  # loading has checked that it has a name
    for check in (RAISES, TWICE, FITS, WHOLE):
        report.begin(check)
    for seed in seeds:
        runs = []
        for _ in range(2):
            profile = _Beside("", known, configuration, None).profile(None)
            actions = tuple(factory({}) if action.name == "allocate" else action for action in profile.actions)
            runs.append(_run(report, replace(profile, actions=actions), seed, after=lambda at: _bounds(report, at)))
        if runs[0] != runs[1]:
            report.add(TWICE, f"seed {seed}: {_difference(*runs)}; use no randomness, clock or order of sets")
    return report


class _Beside:
    """The configuration a plugin is tried in: itself, and in the last tier the plugin if it is not there."""

    def __init__(self, name: str, known: Known, configuration: str | None, arguments: Mapping[str, Any] | None) -> None:
        self._name = name
        self._known = known
        text = default_text() if configuration is None else configuration
        plugins = {*known.plugins, *([name] if name else [])}
        self._configuration = parse(text, actions=known.actions.keys(), plugins=plugins, ignore_unavailable=True)
        tiers = [list(tier.plugins) for tier in self._configuration.tiers] or [[]]
        listed = next((option for tier in tiers for option in tier if option.name == name), None)
        if name and listed is None:
            tiers[-1].append(PluginOption(name=name, switches=SWITCH_DEFAULTS, arguments=dict(arguments or {})))
        elif listed is not None and arguments is not None:
            given = msgspec.structs.replace(listed, arguments=dict(arguments))
            tiers = [[given if option is listed else option for option in tier] for tier in tiers]
        made = tuple(Tier(plugins=tuple(tier)) for tier in tiers)
        self._configuration = msgspec.structs.replace(self._configuration, tiers=made)

    def profile(self, factory: Callable[..., Any] | None) -> Profile:
        """Everything anew."""
        plugins = {**self._known.plugins, **({self._name: factory} if factory else {})}
        return Profile.build(self._configuration, plugins, self._known.actions)


def plugin_of(profile: Profile, name: str) -> Any:
    """The plugin of that name in a profile."""
    return next(enabled.plugin for tier in profile.tiers for enabled in tier if enabled.plugin.name == name)


def _with(profile: Profile, probing: Action) -> Profile:
    """The profile with that action before those that place."""
    first = next((at for at, action in enumerate(profile.actions) if action.name != "enqueue"), len(profile.actions))
    return replace(profile, actions=(*profile.actions[:first], probing, *profile.actions[first:]))


def _unkept(factory: Callable[..., Any]) -> type | None:
    """The plugin without any claim on what its answers depend on; None where it makes none."""
    claims: dict[str, Any] = {
        name: _everything for name in ("feasible_depends", "score_depends") if hasattr(factory, name)
    }
    if getattr(factory, points.KEPT_KEYS, False):
        claims[points.KEPT_KEYS] = False
    return type(factory.__name__, (factory,), claims) if claims and isinstance(factory, type) else None


def _everything(_self: object, _shape: object) -> Depends:
    return Depends.EVERYTHING


def _run(
    report: Report,
    profile: Profile,
    seed: int,
    *,
    nodes: int = _SIZE,
    cycles: int = _CYCLES,
    after: Callable[[Offline], None] = lambda _: None,
) -> list[bytes] | None:
    """A random cluster's life; its decisions, None (and a finding) when anything raised."""
    random = Random(seed)
    offline = Offline(ClusterState(), profile, now=START + 60.0, seed=seed)
    try:
        offline.load(cluster(random, nodes, _GANGS))
        for step in range(cycles):
            offline.run(1)
            after(offline)
            happen(random, offline, step)
    except Exception as error:
        report.add(RAISES, f"seed {seed}: {type(error).__name__}: {error} ({_where(error)})")
        return None
    return [msgspec.json.encode(_plain(decision), order="deterministic") for decision in offline.decisions]


def _placed(decisions: list[bytes] | None) -> list[bytes] | None:
    """Who goes where and who is evicted: in which batches may hang on how answers are kept."""
    if decisions is None:
        return None
    told = [msgspec.json.decode(decision) for decision in decisions]
    binds = [(one["cycle"], bind["name"], bind["node"]) for one in told for bind in one.get("binds", ())]
    evictions = [(one["effect"], one["name"], one["node"]) for one in told if one["effect"] == "Evict"]
    return [msgspec.json.encode(each) for each in (*sorted(binds), *sorted(evictions))]


def _plain(decision: SchedulerEffect) -> SchedulerEffect:
    return msgspec.structs.replace(decision, id=0)


def _where(error: Exception) -> str:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{frame.filename.rpartition('/')[2]}, line {frame.lineno}, in {frame.name}"


def _difference(one: list[bytes] | None, other: list[bytes] | None) -> str:
    if one is None or other is None:
        return "one of two runs raised"
    for at, (this, that) in enumerate(zip(one, other, strict=False)):
        if this != that:
            return f"decision {at + 1} is {this.decode()[:160]} and {that.decode()[:160]}"
    return f"{len(one)} decisions and {len(other)}"


def _bounds(report: Report, offline: Offline) -> None:
    """What was bound in the last cycle fits, and no gang is less than its minimum."""
    ledger = offline.state.ledger
    columns = ledger.columns
    for decision in offline.last:
        if not isinstance(decision, BindBatch):
            continue
        job = ledger.jobs[decision.group]
        if job.ready_count < job.min_available:
            report.add(WHOLE, f"{decision.group}: {job.ready_count} of {job.min_available}; commit when job_ready")
        for bind in decision.binds:
            row = columns.rows[bind.node]
            asked = ledger.tasks[bind.uid].shape.requests
            over = [name for name in asked if columns.used(name)[row] > columns.allocatable(name)[row]]
            if over:
                report.add(FITS, f"{bind.name} on {bind.node}: {', '.join(over)}; place with Statement.place")
