"""`volcanoio simulate`: runs scheduling cycles on the state of files or of a cluster and prints the result.

The result is JSON or a table: where each pod is placed, which pods are evicted, and why the others wait. Errors are
printed as one line.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from volcanoio.cli.offline.state_source import command_errors, live_state, option_text, read_source, text_of
from volcanoio.cli.terminal import ExitCode, UsageError, fitted_columns
from volcanoio.compose.whatif import Changes, missing_pods, run_times, submit
from volcanoio.engine.scheduling.offline.offline import Offline
from volcanoio.engine.scheduling.offline.until import Goal, Progress
from volcanoio.framework.arguments import pluralize
from volcanoio.framework.scheduling_effects import BindBatch, Evict
from volcanoio.model.batch import Job
from volcanoio.model.times import positive_duration, rfc3339
from volcanoio.runtime.garbage_collection import tune_garbage_collector

T = TypeVar("T")


def table(offline: Offline) -> str:
    """Return the whole result as text."""
    snapshot = offline.snapshot
    assert snapshot is not None
    binds = Counter(
        (decision.group, bind.node)
        for decision in offline.decisions
        if isinstance(decision, BindBatch)
        for bind in decision.binds
    )
    evictions = [decision for decision in offline.decisions if isinstance(decision, Evict)]
    waiting = f"{len(snapshot.pipelined)} waiting for pods that are ending"
    counts = f"{sum(binds.values())} bound, {len(evictions)} evicted, {waiting}"
    parts = [f"{pluralize(offline.cycles, 'cycle')}: {counts}"]
    reasons = [(key, snapshot.phases.get(key, ""), text) for key, text in snapshot.reasons.items()]
    tables: dict[tuple[str, ...], Sequence[Sequence[object]]] = {
        ("PODGROUP", "NODE", "PODS"): [(*place, count) for place, count in sorted(binds.items())],
        ("EVICTED", "NODE", "ACTION"): [(f"{pod.namespace}/{pod.name}", pod.node, pod.reason) for pod in evictions],
        ("RESERVED FOR", "NODE"): list(snapshot.pipelined.items()),
        ("WAITING", "PHASE", "WHY"): reasons,
    }
    parts += [fitted_columns(header, rows, gap=2) for header, rows in tables.items() if rows]
    return "\n\n".join(parts)


def run_simulate(
    *, files: Sequence[Path], kubeconfig: Path | None, conf: Path | None, compare: Path | None, **given: Any
) -> int:
    """Simulate and print; returns the exit code. Raises CommandError."""
    tune_garbage_collector()
    output, add_nodes, set_fields = given.pop("output"), given.pop("add_nodes"), given.pop("set_fields")
    submitted, live, url = given.pop("submit"), given.pop("live"), given.pop("scheduler_url")
    seconds = _run_time(given.pop("run_time"), given["until"])
    if (live or url) and files:
        raise UsageError("--live: the state is that of a running scheduler; leave -f out")
    if given["until"] and compare is not None:
        raise UsageError("--until: it cannot be compared; run it with each --conf")
    sources = [live_state(kubeconfig, url, given["scheduler_name"][0])] if live or url else files
    jobs: dict[str, Job] = {}
    with command_errors(conf):
        changes = Changes.parse(add_nodes, set_fields)
        simulator, state = read_source(sources, kubeconfig, conf, given, compare=compare)
        state.objects = changes.apply(state.objects)
        for path in submitted:
            text = option_text("--submit", path, "a file with Jobs")
            made = submit(state.objects, text, str(path), simulator.registry, rfc3339(simulator.now))
            state.objects = made.objects
            jobs |= made.jobs
        if given["until"]:
            state.objects += missing_pods(state.objects, state.jobs, rfc3339(simulator.now))
            offline, progress = simulator.run_until(state, Goal(given["until"]), jobs, run_times(jobs, seconds))
            return _show_progress(output, offline, progress)
        offline = simulator.run(state)
    other = None
    if compare is not None:
        with command_errors(compare):
            other = simulator.with_configuration(text_of(compare)).run(state)
    if output == "json":
        outcome = offline.outcome()
        shown = outcome if other is None else {"before": outcome, "after": other.outcome()}
        print(msgspec.json.encode(shown).decode(), flush=True)
    else:
        print(table(offline) if other is None else comparison(offline, other, conf, compare), flush=True)
    return ExitCode.OK


def _run_time(text: str | None, until: str | None) -> float | None:
    """Return the value of --run-time in seconds; raises UsageError."""
    if text is None:
        return None
    if until is None:
        raise UsageError("--run-time: without --until no pod runs; give --until running or --until completed")
    if (seconds := positive_duration(text)) is None:
        raise UsageError(f'--run-time: "{text}" is not a duration above 0; write one such as 90s, 10m or 1h30m')
    return seconds


def _show_progress(output: str, offline: Offline, progress: Progress) -> int:
    """Print how far the groups got; returns the exit code."""
    if output == "json":
        shown = {"until": progress, **msgspec.to_builtins(offline.outcome())}
        print(msgspec.json.encode(shown).decode(), flush=True)
    else:
        print("\n\n".join(["\n".join(_progress_lines(progress)), table(offline)]), flush=True)
    return ExitCode.OK if progress.is_reached else ExitCode.JOB_FAILED


def _progress_lines(progress: Progress) -> Iterator[str]:
    done = "runs" if progress.goal is Goal.RUNNING else "has completed"
    if not progress.groups:
        yield "no group waits"
    for group in progress.groups:
        if group.after is not None:
            yield f"{group.target} {done} after {_spoken(group.after)} ({pluralize(group.cycles, 'cycle')})"
            continue
        verb = "never " if progress.is_stable else ""
        limit = "" if progress.is_stable else f" within {pluralize(progress.cycles, 'cycle')}"
        verbs = f"{verb}runs" if progress.goal is Goal.RUNNING else f"{verb}completes"
        reason = f": {group.code}: {group.message}" if group.code else ""
        if not group.code and progress.goal is Goal.COMPLETED:
            reason = ": its pods run and do not end; give their --run-time"
        yield f"{group.target} {verbs if progress.is_stable else f'is not {progress.goal.value}'}{limit}{reason}"


def _spoken(seconds: float) -> str:
    """Return a time as people write it; the cycles of a second each make it no more exact."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    parts = [f"{number}{unit}" for number, unit in ((hours, "h"), (minutes, "m"), (rest, "s")) if number]
    return "".join(parts) or "0s"


def comparison(before: Offline, after: Offline, conf: Path | None, compare: Path | None) -> str:
    """Return what another configuration does differently, as text."""
    names = (str(conf) if conf else "the configuration", str(compare))
    bound = [Counter(f"{bind.namespace}/{bind.name}" for bind in each.requests) for each in (before, after)]
    evicted = [
        Counter(f"{pod.namespace}/{pod.name}" for pod in each.decisions if isinstance(pod, Evict))
        for each in (before, after)
    ]
    lines = [
        f"{name}: {pluralize(each.cycles, 'cycle')}: {sum(binds.values())} bound, {sum(victims.values())} evicted"
        for name, each, binds, victims in zip(names, (before, after), bound, evicted, strict=True)
    ]
    parts = ["\n".join(lines)]
    groups = [Counter(each.state.ledger.tasks[bind.uid].job for bind in each.requests) for each in (before, after)]
    first, second = before.outcome(), after.outcome()
    phases = [{key: group.phase for key, group in each.pod_groups.items()} for each in (first, second)]
    reserved = [{place.pod: place.node for place in each.pipelined} for each in (first, second)]
    tables: dict[tuple[str, ...], Sequence[Sequence[object]]] = {
        ("PODGROUP", "BOUND BEFORE", "BOUND AFTER"): _differing(groups[0], groups[1], 0),
        ("PODGROUP", "PHASE BEFORE", "PHASE AFTER"): _differing(phases[0], phases[1], "-"),
        ("RESERVED FOR", "NODE BEFORE", "NODE AFTER"): _differing(reserved[0], reserved[1], "-"),
        ("EVICTED ONLY BEFORE",): [(pod,) for pod in sorted(evicted[0] - evicted[1])],
        ("EVICTED ONLY AFTER",): [(pod,) for pod in sorted(evicted[1] - evicted[0])],
    }
    parts += [fitted_columns(header, some, gap=2) for header, some in tables.items() if some]
    if len(parts) == 1:
        same = set(first.binds) == set(second.binds)
        parts.append("both decide the same" if same else "as many pods are bound, but other pods or on other nodes")
    return "\n\n".join(parts)


def _differing(before: Mapping[str, T], after: Mapping[str, T], default: T) -> list[tuple[str, T, T]]:
    """Return the keys whose values differ, with both values."""
    pairs = {key: (before.get(key, default), after.get(key, default)) for key in sorted({*before, *after})}
    return [(key, *pair) for key, pair in pairs.items() if pair[0] != pair[1]]
