"""Runs a plugin or an action on random clusters and reports its errors.

Decisions are compared between runs, with another process that has a different hash seed, and with the same plugin
without caching. Run as a program, it prints the digest of the decisions for such a comparison.
"""

import os
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import msgspec
import numpy as np

from volcanoio.engine.scheduling.cluster.rows import SingleRow
from volcanoio.engine.scheduling.cluster.state import ClusterState
from volcanoio.engine.scheduling.config.configuration import SWITCH_DEFAULTS, PluginOption, Tier, default_text, parse
from volcanoio.engine.scheduling.config.profile import Profile
from volcanoio.engine.scheduling.offline.offline import Offline
from volcanoio.framework import entrypoints
from volcanoio.framework.scheduling import points
from volcanoio.framework.scheduling.session import Action, Session
from volcanoio.framework.scheduling.verdicts import Depends
from volcanoio.framework.scheduling_effects import BindBatch, SchedulerEffect
from volcanoio.model.resources import CPU
from volcanoio.plugincheck.answers import SessionSample, parts_of
from volcanoio.plugincheck.clusters import START, change_cluster, cluster
from volcanoio.plugincheck.probing import Probing
from volcanoio.plugincheck.report import Cost, Report
from volcanoio.runtime.loading.mounted_files import classes_of
from volcanoio.runtime.loading.registry import discover
from volcanoio.runtime.scheduler.setup import PluginCatalog

RAISES, TWICE, FRESH = "no method raises", "decisions are the same twice", "decisions are those of answers never kept"
FITS, WHOLE = "no node gets more than it offers", "no gang is bound in part"
_GANGS = 16


@dataclass(frozen=True)
class Trial:
    """The surroundings of a check: other plugins, the configuration (None: the default), arguments and seeds.

    `catalog` has the other plugins and actions that the configuration names.
    """

    catalog: PluginCatalog
    configuration: str | None = None
    arguments: Mapping[str, Any] | None = None
    seeds: Iterable[int] = range(8)


class ClusterSize(NamedTuple):
    """The size of a random cluster, and for how many cycles it is scheduled."""

    nodes: int = 5
    cycles: int = 4


DEFAULT_SIZE = ClusterSize()
# The nodes have the same few names in every cluster: an order of five of them is often that of another hash seed too.
DIGEST_SIZE = ClusterSize(nodes=40)


def check_plugin(factory: Callable[..., Any], trial: Trial, *, timer: Callable[[], float] | None = None) -> Report:
    """Check one scheduler plugin together with those of the trial's configuration.

    `timer` returns seconds; without it no cost is measured. Raises ConfigurationError for invalid arguments.
    """
    report = Report(factory.name)  # type: ignore[attr-defined]  # loading has checked that it has a name
    configuration = _TrialConfiguration(report.name, trial)
    for check in (RAISES, TWICE, FRESH):
        report.begin(check)
    plugin = find_plugin(configuration.profile(factory), report.name)
    report.points = tuple(point.__name__ for point in points.POINTS if points.implements(plugin, point))
    for seed in trial.seeds:
        profile = configuration.profile(factory)
        probing = Probing(find_plugin(profile, report.name), report)
        if _run(report, _with_action(profile, probing), seed) is None:
            continue
        plain = _run(report, configuration.profile(factory), seed)
        again = _run(report, configuration.profile(factory), seed)
        if plain != again:
            report.add(TWICE, f"seed {seed}: {_difference(plain, again)}; use no randomness, clock or order of sets")
        if (uncached := _without_caching(factory)) is not None:
            fresh = _run(report, configuration.profile(uncached), seed)
            if _placements(plain) != _placements(fresh):
                text = "declare in feasible_depends, score_depends, applies_to and keeps_job_keys all they depend on"
                report.add(FRESH, f"seed {seed}: {_difference(_placements(plain), _placements(fresh))}; {text}")
    if timer is not None:
        profile = configuration.profile(factory)
        costing = Costing(find_plugin(profile, report.name), report, timer)
        _run(report, replace(profile, actions=(costing,)), 0, ClusterSize(COSTED_NODES, cycles=1))
    return report


def digest(factory: Callable[..., Any], trial: Trial) -> str:
    """Return a digest of all decisions with a plugin on random clusters, to compare processes."""
    report = Report(factory.name)  # type: ignore[attr-defined]  # loading has checked that it has a name
    configuration = _TrialConfiguration(report.name, trial)
    runs = [_run(report, configuration.profile(factory), seed, DIGEST_SIZE) for seed in trial.seeds]
    return sha256(b"".join(b"".join(run or ()) for run in runs)).hexdigest()


def check_action(factory: Callable[..., Any], trial: Trial) -> Report:
    """Check one action in place of allocate: bound pods fit, gangs are whole, and two runs decide the same."""
    report = Report(factory.name)  # type: ignore[attr-defined]  # loading has checked that it has a name
    for check in (RAISES, TWICE, FITS, WHOLE):
        report.begin(check)
    for seed in trial.seeds:
        runs = []
        for _ in range(2):
            profile = _TrialConfiguration("", trial).profile(None)
            actions = tuple(factory({}) if action.name == "allocate" else action for action in profile.actions)
            runs.append(
                _run(report, replace(profile, actions=actions), seed, after=lambda at: _check_bindings(report, at))
            )
        if runs[0] != runs[1]:
            report.add(TWICE, f"seed {seed}: {_difference(*runs)}; use no randomness, clock or order of sets")
    return report


class _TrialConfiguration:
    """The configuration of a trial, with the plugin added to the last tier unless it is configured already."""

    def __init__(self, name: str, trial: Trial) -> None:
        catalog, arguments = trial.catalog, trial.arguments
        self._name = name
        self._catalog = catalog
        text = default_text() if trial.configuration is None else trial.configuration
        plugins = {*catalog.plugins, *([name] if name else [])}
        self._configuration = parse(text, actions=catalog.actions.keys(), plugins=plugins, ignore_unavailable=True)
        tiers = [list(tier.plugins) for tier in self._configuration.tiers] or [[]]
        listed = next((option for tier in tiers for option in tier if option.name == name), None)
        if name and listed is None:
            tiers[-1].append(PluginOption(name=name, switches=SWITCH_DEFAULTS, arguments=dict(arguments or {})))
        elif listed is not None and arguments is not None:
            changed = msgspec.structs.replace(listed, arguments=dict(arguments))
            tiers = [[changed if option is listed else option for option in tier] for tier in tiers]
        self._configuration = msgspec.structs.replace(
            self._configuration, tiers=tuple(Tier(plugins=tuple(tier)) for tier in tiers)
        )

    def profile(self, factory: Callable[..., Any] | None) -> Profile:
        plugins = {**self._catalog.plugins, **({self._name: factory} if factory else {})}
        return Profile.build(self._configuration, plugins, self._catalog.actions)


def find_plugin(profile: Profile, name: str) -> Any:
    """Return the plugin of that name in a profile."""
    return next(enabled.plugin for tier in profile.tiers for enabled in tier if enabled.plugin.name == name)


def _with_action(profile: Profile, probing: Action) -> Profile:
    """Return the profile with an action inserted before those that place."""
    first = next((at for at, action in enumerate(profile.actions) if action.name != "enqueue"), len(profile.actions))
    return replace(profile, actions=(*profile.actions[:first], probing, *profile.actions[first:]))


def _without_caching(factory: Callable[..., Any]) -> type | None:
    """Return the plugin class without its declared dependencies; None if it declares none."""
    claims: dict[str, Any] = {
        name: _everything for name in ("feasible_depends", "score_depends") if hasattr(factory, name)
    }
    if hasattr(factory, points.APPLIES_TO):
        claims[points.APPLIES_TO] = None
    if getattr(factory, points.KEPT_JOB_KEYS, False):
        claims[points.KEPT_JOB_KEYS] = False
    return type(factory.__name__, (factory,), claims) if claims and isinstance(factory, type) else None


def _everything(_self: object, _shape: object) -> Depends:
    return Depends.EVERYTHING


def _run(
    report: Report,
    profile: Profile,
    seed: int,
    size: ClusterSize = DEFAULT_SIZE,
    after: Callable[[Offline], None] = lambda _: None,
) -> list[bytes] | None:
    """Run a random cluster; return its decisions, or None (and a finding) when an exception was raised."""
    random = Random(seed)
    offline = Offline(ClusterState(), profile, now=START + 60.0, seed=seed)
    try:
        offline.load(cluster(random, size.nodes, _GANGS))
        for step in range(size.cycles):
            offline.run(1)
            after(offline)
            change_cluster(random, offline, step)
    except Exception as error:
        report.add(RAISES, f"seed {seed}: {type(error).__name__}: {error} ({_error_location(error)})")
        return None
    return [msgspec.json.encode(_without_id(decision), order="deterministic") for decision in offline.decisions]


def _placements(decisions: list[bytes] | None) -> list[bytes] | None:
    """Return the sorted binds and evictions: their batches may depend on caching."""
    if decisions is None:
        return None
    decoded = [msgspec.json.decode(decision) for decision in decisions]
    binds = [(each["cycle"], bind["name"], bind["node"]) for each in decoded for bind in each.get("binds", ())]
    evictions = [(each["effect"], each["name"], each["node"]) for each in decoded if each["effect"] == "Evict"]
    return [msgspec.json.encode(each) for each in (*sorted(binds), *sorted(evictions))]


def _without_id(decision: SchedulerEffect) -> SchedulerEffect:
    return msgspec.structs.replace(decision, id=0)


def _error_location(error: Exception) -> str:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{frame.filename.rpartition('/')[2]}, line {frame.lineno}, in {frame.name}"


def _difference(one: list[bytes] | None, other: list[bytes] | None) -> str:
    if one is None or other is None:
        return "one of two runs raised"
    for at, (this, that) in enumerate(zip(one, other, strict=False)):
        if this != that:
            return f"decision {at + 1} is {this.decode()[:160]} and {that.decode()[:160]}"
    return f"{len(one)} decisions and {len(other)}"


def _check_bindings(report: Report, offline: Offline) -> None:
    """Check that the last cycle's binds fit their nodes, and that no gang is below its minimum."""
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
            if over := [name for name in asked if columns.used(name)[row] > columns.allocatable(name)[row]]:
                report.add(FITS, f"{bind.name} on {bind.node}: {', '.join(over)}; place with Statement.place")


COSTED_NODES = 1000
TIMED_SECONDS = 0.02
"""Seconds for which a call is repeated."""


class Costing:
    """An action that times the plugin's calls; `timer` returns seconds."""

    name = "costing"

    def __init__(self, plugin: Any, report: Report, timer: Callable[[], float]) -> None:
        self._plugin = plugin
        self._report = report
        self._timer = timer

    def run(self, session: Session) -> Iterator[None]:
        """Time every method of the plugin."""
        for call, over, ask in _costed_calls(self._plugin, SessionSample.of(session)):
            ask()
            start, times = self._timer(), 0
            while (spent := self._timer() - start) < TIMED_SECONDS:
                ask()
                times += 1
            self._report.costs.append(Cost(call, spent / times * 1e6, over))
            yield


def _costed_calls(plugin: Any, sample: SessionSample) -> Iterator[tuple[str, str, Callable[[], Any]]]:
    queue = next(iter(sample.session.queues.values()))
    if callable(getattr(plugin, "open", None)):
        yield "open", "a cycle", lambda: plugin.open(sample.session)
    for prefix, part in parts_of(plugin):
        yield from _costed_node_calls(prefix, part, sample)
    if callable(getattr(plugin, "fits", None)) and sample.shapes:
        yield "fits", "", lambda: plugin.fits(queue, sample.shapes[0], 8)
    for call, subjects in (
        ("queue_key", [queue]),
        ("overused", [queue]),
        ("job_key", sample.jobs[:1]),
        ("job_valid", sample.jobs[:1]),
        ("job_ready", sample.jobs[:1]),
        ("job_pipelined", sample.jobs[:1]),
        ("job_starving", sample.jobs[:1]),
        ("job_enqueueable", [job for job in sample.jobs if job.min_resources is not None][:1]),
        ("task_key", sample.waiting[:1]),
    ):
        if callable(ask := getattr(plugin, call, None)):
            for subject in subjects:
                yield call, "", lambda ask=ask, subject=subject: ask(subject)  # type: ignore[misc]  # mypy cannot infer a lambda's default
    if sample.waiting and sample.running:
        for call in ("preemptable", "reclaimable"):
            if callable(ask := getattr(plugin, call, None)):
                over = f"{len(sample.running)} candidates"
                yield call, over, lambda ask=ask: ask(sample.waiting[0], sample.running)  # type: ignore[misc]  # mypy cannot infer a lambda's default


def _costed_node_calls(prefix: str, part: Any, sample: SessionSample) -> Iterator[tuple[str, str, Callable[[], Any]]]:
    """Yield the calls of a filter or scorer, for the shape with the most requests."""
    if not sample.shapes:
        return
    columns, row = sample.columns, SingleRow(sample.columns)
    row.load(0)
    everywhere = np.ones(len(columns), np.bool_)
    shape = max(sample.shapes, key=lambda each: (CPU in each.requests, len(each.requests)))
    calls: dict[str, Callable[[], Any]] = {
        "feasible": lambda: part.feasible(shape, columns),
        "feasible_on": lambda: part.feasible_on(shape, row),
        "score": lambda: part.score(shape, columns, everywhere),
        "score_on": lambda: part.score_on(shape, row),
    }
    for call, ask in calls.items():
        if callable(getattr(part, call, None)):
            yield f"{prefix}{call}", "" if call.endswith("_on") else f"{len(columns):,} nodes", ask


SUBPROCESS_TIMEOUT = 120.0


def digest_of_file(file: Path, name: str, configuration: str | None) -> str:
    """Return a digest of the decisions with a file's plugin on random clusters."""
    found = classes_of(file, (entrypoints.SCHEDULER_PLUGINS,))
    factory = next(each.cls for each in found if each.cls.name == name)  # type: ignore[attr-defined]  # every plugin has one
    return digest(factory, Trial(PluginCatalog.of(discover()), configuration))


def digest_in_subprocess(file: Path, name: str, configuration: str | None) -> str:
    """Return the same digest, computed in a process with another hash seed; "" when that process failed."""
    order = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    done = subprocess.run(
        [sys.executable, "-m", __name__, str(file), name],
        input=configuration or "",
        env={**os.environ, "PYTHONHASHSEED": order},
        capture_output=True,
        text=True,
        timeout=SUBPROCESS_TIMEOUT,
        check=False,
    )
    return done.stdout.strip() if not done.returncode else ""


if __name__ == "__main__":
    sys.stdout.write(digest_of_file(Path(sys.argv[1]), sys.argv[2], sys.stdin.read() or None))
