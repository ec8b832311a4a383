"""Domains: the HyperNodes within which a gang may be placed, in the order in which they are tried.

Plugins divide the cluster into levels (`points.HyperNodeLevels`) and score the HyperNodes of a level. A HyperNode that
certainly holds too few tasks is left out before anything is placed there. A search of nodes for a gang that failed is
repeated when room is freed or the gang changes, else after one to two minutes.

Source: Volcano, `pkg/scheduler/framework/session.go` (network topology of jobs and sub-jobs) and
`pkg/scheduler/actions/allocate`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Mapping, Sequence, Sized
from functools import partial

import numpy as np

from volcanoio.engine.scheduling.cluster.attempts import (
    INVALID_HYPER_NODES,
    RETRY_AFTER,
    FailedSearch,
    Precision,
    Reason,
)
from volcanoio.engine.scheduling.cluster.jobs import JobInfo
from volcanoio.engine.scheduling.cluster.state import ClusterState
from volcanoio.engine.scheduling.cluster.subjobs import SubJobInfo
from volcanoio.engine.scheduling.config.plugin_rules import Rules
from volcanoio.engine.scheduling.placement.placer import Domain
from volcanoio.engine.scheduling.topology.gang_search import MAX_TOTAL_STEPS, GangSearch, PendingPart
from volcanoio.engine.scheduling.topology.tree import HyperNodeTree
from volcanoio.framework.backoff import jittered
from volcanoio.framework.scheduling.hypernodes import CLUSTER
from volcanoio.framework.scheduling.session import Assignment, Run, Statement
from volcanoio.framework.scheduling.views import ALLOCATED_STATUSES, Job, SubJob, TaskStatus

SOFT = "soft"
"""Mode of a network topology that is a preference; every other mode is hard."""
RETRY_SOON = 10.0
"""Seconds until a failed search is repeated if room was reserved during it, whose release is not counted as freed."""
_PLACED = frozenset({*ALLOCATED_STATUSES, TaskStatus.PIPELINED})


class Domains:
    """Network topology in one session; implements `session.Domains`."""

    def __init__(self, state: ClusterState, rules: Rules, now: float, kept: Sized) -> None:
        """Begin a session; `kept` are the statements that keep room until its close."""
        self._state = state
        self._now = now
        self._kept = kept
        self._rules = rules
        self.tree: HyperNodeTree = state.ledger.hyper_nodes.tree()
        self._domains: dict[str, Domain] = {}
        self._placed_in: dict[tuple[str, bool], str] = {}
        """The result of `placed_in`, by the gang's key and whether it is a sub-job."""
        self._dry_run_steps = Counter[str]()
        """Placements undone in searches of dry runs, by the key of the job."""
        self._found_in_dry_run: dict[tuple[str, ...], Assignment] = {}
        """The last result of these searches, by the key of the job and the HyperNodes."""

    def are_known(self, job: JobInfo) -> bool:
        """Return whether the HyperNodes form a tree; if not, this is recorded as the reason why the job waits.

        The topology constraint of a native group must also name a tier, and a plugin must keep it, because Kubernetes
        never ignores it.
        """
        problem, topology = self.tree.problem, job.network_topology
        if job.native is not None and topology is not None and not problem:
            constraint = f'its topology constraint is the node label "{topology.highest_tier_name}", but no '
            if not self._rules.divides_cluster:
                problem = f"{constraint}plugin divides the cluster into HyperNodes; configure network-topology-aware"
            elif topology.highest_tier_name not in self.tree.tier_names:
                problem = (
                    f"{constraint}HyperNode has this tierName; create HyperNodes of such a tier for the values of the "
                    "label"
                )
        if problem:
            job.attempts.explain(Reason(INVALID_HYPER_NODES, problem, Precision.WAITING))
        return not problem

    def highest_tier(self, gang: Job | SubJob) -> int | None:
        """Return the highest tier across which a gang's tasks may be spread; None without a network topology.

        A soft topology allows every tier; that of a sub-job, every tier that its job's hard topology allows. A hard
        topology without a known tier restricts nothing, as in Volcano.
        """
        if (topology := gang.network_topology) is None:
            return None
        if topology.mode != SOFT:
            if topology.highest_tier_allowed is not None:
                return topology.highest_tier_allowed
            return self.tree.tier_names.get(topology.highest_tier_name)
        job = self._state.ledger.jobs.get(gang.job) if isinstance(gang, SubJobInfo) else None
        limit = None if job is None else self.highest_tier(job)
        return self.tree.tier(CLUSTER) if limit is None else limit

    def placed_in(self, gang: Job | SubJob) -> str:
        """Return the lowest HyperNode that contains the gang's placed tasks, "" if there are none.

        It is as of the start of the last attempt: the tasks that the attempt has placed so far do not count.
        """
        key = gang.key, isinstance(gang, SubJobInfo)
        if (found := self._placed_in.get(key)) is None:
            found = self._placed_in[key] = self._find_placed(gang)
        return found

    def levels(self, gang: JobInfo | SubJobInfo, within: str = CLUSTER, *, evicting: bool) -> Sequence[Sequence[str]]:
        """Return the HyperNodes to try for a gang inside one, in levels: the first level with a solution is used.

        The same HyperNode alone if the gang has no network topology, or if no plugin divides the cluster.
        """
        if gang.network_topology is None:
            return [[within]]
        self._placed_in[gang.key, isinstance(gang, SubJobInfo)] = self._find_placed(gang)
        levels = self._rules.hyper_node_levels(gang, within, evicting=evicting)
        if not evicting and levels and (nominated := self._nominated(gang, within)):
            return [[nominated], *levels]
        return levels

    def promising(self, gang: JobInfo | SubJobInfo, names: Sequence[str], runs: Sequence[Run]) -> list[str]:
        """Return those of these HyperNodes whose free or soon free room may be enough for the gang, best first.

        Room is enough for as many tasks as the gang still needs, at least one; filters that depend on other pods are
        ignored. Those with room for all tasks come first, also for those beyond the gang's minimum (unlike in Volcano:
        there a fuller one is taken, in which a hard topology then keeps the others waiting). Of equal scores the one
        with room for more tasks comes first, then by name.
        """
        room = dict(zip(names, self._room(names, runs), strict=True))
        needed = self._needed(gang, runs)
        chosen = [name for name in names if room[name] >= needed]
        if len(chosen) < 2:
            return chosen
        scores = dict(zip(chosen, self._rules.hyper_node_scores(gang, chosen).tolist(), strict=True))
        everything = sum(len(run.tasks) for run in runs)
        return sorted(chosen, key=lambda name: (room[name] < everything, -scores[name], -room[name], name))

    def roomiest(self, names: Sequence[str], runs: Sequence[Run]) -> str:
        """Return the HyperNode with room for most tasks of these runs."""
        room = self._room(names, runs)
        return names[int(np.argmax(room))]

    def search(
        self,
        job: JobInfo,
        statement: Statement,
        levels: Sequence[Sequence[str]],
        runs_by_sub_job: Mapping[str, Sequence[Run]],
    ) -> Generator[None, None, Assignment | None]:
        """Search nodes for what a job still needs in the HyperNodes of these levels."""
        attempts, runs = job.attempts, [run for some in runs_by_sub_job.values() for run in some]
        search = self._gang_search(job, runs_by_sub_job)
        if search is None or search.is_one_by_one_exact:
            if not statement.evicted:
                attempts.failed_search = None
            return None
        if statement.evicted:  # a dry run: what was found, or not, is not what allocate finds
            names = [name for level in levels for name in level]
            return (yield from self._search_in_dry_run(job, search, statement, names))
        if attempts.is_quota_limited and not attempts.fit_errors:  # other nodes do not change that
            return None
        last = attempts.failed_search if self.is_search_failed(job) else None
        if last is None or last.signature != search.signature:
            names = _largest(self.tree, [name for level in levels for name in self.promising(job, level, runs)])
            if (found := (yield from search.run(statement, names))) is not None:
                return found
            last = self._record_failure(job, search.signature, is_incomplete=search.is_incomplete)
        attempts.is_search_incomplete = last.is_incomplete
        return None

    def _search_in_dry_run(
        self, job: JobInfo, search: GangSearch, statement: Statement, names: Sequence[str]
    ) -> Generator[None, None, Assignment | None]:
        """Search within the steps that the job has left; without any, return what was found in these HyperNodes before.

        That is what a proven dry run needs when it is carried out; the caller tries it in any case.
        """
        if (left := MAX_TOTAL_STEPS - self._dry_run_steps[job.key]) <= 0:
            found = self._found_in_dry_run.get((job.key, *names))
            return found if found is not None and found.signature == search.signature else None
        found = yield from search.run(statement, names, left)
        self._dry_run_steps[job.key] += search.steps
        if found is not None:
            self._found_in_dry_run[job.key, *names] = found
        return found

    def refuse_found(self, job: JobInfo, found: Assignment) -> None:
        """Record that the nodes that `search` found cannot be used."""
        self._record_failure(job, found.signature, is_incomplete=True)
        job.attempts.is_search_incomplete = True

    def _record_failure(self, job: JobInfo, signature: tuple[object, ...], *, is_incomplete: bool) -> FailedSearch:
        is_kept = bool(len(self._kept) or self._state.reservations.by_job)
        until = self._now + (RETRY_SOON if is_kept else jittered(RETRY_AFTER, job.uid or job.key))
        freed_count = self._state.ledger.columns.freed_count
        job.attempts.failed_search = FailedSearch(signature, freed_count, until, is_incomplete)
        return job.attempts.failed_search

    def is_search_failed(self, job: JobInfo) -> bool:
        """Return whether a search for the job found nothing, and no room was freed since then."""
        last = job.attempts.failed_search
        return last is not None and last.since == self._state.ledger.columns.freed_count and self._now < last.until

    def _gang_search(self, job: JobInfo, runs_by_sub_job: Mapping[str, Sequence[Run]]) -> GangSearch | None:
        """Return a search for a job that must stay within less than the cluster, or has such sub-jobs, else None."""
        if not self._rules.divides_cluster or self._rules.job_ready(job):
            return None
        everywhere = self.tree.tier(CLUSTER)
        gangs: list[JobInfo | SubJobInfo] = [job, *job.sub_jobs]
        limits = [self.highest_tier(gang) for gang in gangs]
        if not any(limit is not None and limit < everywhere for limit in limits):
            return None
        sub_jobs = {sub_job.key: sub_job for sub_job in job.sub_jobs}

        def largest(sub_job: SubJobInfo | None, within: str) -> Sequence[str]:
            if sub_job is None:
                return [within]
            levels = self.levels(sub_job, within, evicting=False)
            return _largest(self.tree, [name for level in levels for name in level])

        parts = [
            PendingPart(sub_jobs.get(key), runs, partial(largest, sub_jobs.get(key)))
            for key, runs in runs_by_sub_job.items()
        ]
        return GangSearch(self._state, self._rules, self.tree, job, parts)

    def score(self, gang: JobInfo | SubJobInfo, name: str) -> float:
        """Return the sum of the plugins' scores of one HyperNode for a gang."""
        return self._rules.hyper_node_scores(gang, [name]).item(0)

    def domain(self, name: str) -> Domain | None:
        """Return which rows are in a HyperNode; None for all of them."""
        if name == CLUSTER:
            return None
        if (found := self._domains.get(name)) is None:
            rows = np.zeros(len(self._state.ledger.columns), np.bool_)
            rows[self.tree.rows(name)] = True
            found = self._domains[name] = Domain(name, rows)
        return found

    def nodes(self, name: str) -> frozenset[str]:
        """Return the names of the nodes in a HyperNode."""
        names = self._state.ledger.columns.names
        return frozenset([names[row] for row in self.tree.rows(name).tolist()])

    def _needed(self, gang: JobInfo | SubJobInfo, runs: Sequence[Run]) -> int:
        """Return how many of the tasks must fit: 0 for a job whose sub-jobs are placed in HyperNodes of their own."""
        if isinstance(gang, SubJobInfo):
            missing = self._rules.sub_job_missing(gang)
        elif gang.sub_job_table is not None:
            return 0
        else:
            missing = self._rules.job_missing(gang)
        return min(max(missing, 1), sum(len(run.tasks) for run in runs))

    def _room(self, names: Sequence[str], runs: Sequence[Run]) -> list[int]:
        """Return an upper bound for how many tasks of these runs each HyperNode can hold now."""
        wanted: dict[int, int] = {}
        for run in runs:
            wanted[run.shape.id] = wanted.get(run.shape.id, 0) + len(run.tasks)
        shapes = {run.shape.id: run.shape for run in runs}
        total = np.zeros(len(self.tree.names), np.int64)
        for key, number in wanted.items():
            total += np.minimum(self.tree.sums(self._state.placer.fitting_counts(shapes[key])), number)
        return [total.item(self.tree.positions[name]) for name in names]

    def _find_placed(self, gang: Job | SubJob) -> str:
        return self.tree.enclosing(task.node for task in gang.tasks if task.status in _PLACED)

    def _nominated(self, gang: JobInfo | SubJobInfo, within: str) -> str:
        """Return the HyperNode inside `within` where room was made for all pending tasks of a gang; "" for none."""
        nominations = self._state.nominations
        if not nominations.by_task:
            return ""
        pending = [task for task in gang.tasks if task.status is TaskStatus.PENDING]
        if not pending or any(task.uid not in nominations.by_task for task in pending):
            return ""
        nodes = self.tree.enclosing(nominations.by_task[task.uid].node for task in pending)
        limit, common = self.highest_tier(gang), self.tree.lowest_common(self.placed_in(gang), nodes)
        is_allowed = limit is None or self.tree.tier(common) <= limit
        return nodes if is_allowed and self.tree.is_within(nodes, within) else ""


def _largest(tree: HyperNodeTree, names: Sequence[str]) -> list[str]:
    """Return those of these HyperNodes that are inside no other one of them, in the same order."""
    chosen = dict.fromkeys(names)
    found = []
    for name in chosen:
        around = tree.parent(name)
        while around and around not in chosen:
            around = tree.parent(around)
        if not around:
            found.append(name)
    return found
