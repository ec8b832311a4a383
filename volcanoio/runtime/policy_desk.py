"""Which policies are asked about which job: those it names are made when it first does, off the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence

import structlog

from volcanoio.framework.arguments import suggestion
from volcanoio.framework.lifecycle import Roster, named_policies
from volcanoio.framework.probe import Probe
from volcanoio.kube.clock import Clock
from volcanoio.model import names
from volcanoio.model.batch import Job
from volcanoio.runtime.policy_sets import LIMIT, Member, PolicySet
from volcanoio.runtime.runaway import Errand
from volcanoio.runtime.timers import Timers

MOST = 1024
"""Instances that are kept for arguments of jobs; the ones made first go first."""
SLACK = 1.0
"""Seconds after the limits of import and constructor in which what is being made is waited for."""
_log = structlog.get_logger(__name__)
Wanted = tuple[str, str]
"""A policy's name, and the text of the arguments that a job gives it."""


class Desk:
    """Belongs to the loop it is used on. `made` is called when a policy that was waited for is there, `changed` when
    the roster is another one.
    """

    def __init__(
        self,
        policies: PolicySet,
        timers: Timers,
        clock: Clock,
        probe: Probe,
        *,
        made: Callable[[], None],
        changed: Callable[[], None],
    ) -> None:
        self.policies = policies
        self._timers = timers
        self._clock = clock
        self._probe = probe
        self._made = made
        self._changed = changed
        self.members: dict[Wanted, Member] = {}
        """Those that jobs named, with the arguments they gave."""
        self._errands: dict[Wanted, Errand[Member]] = {}
        self._count_faulty()

    @property
    def busy(self) -> bool:
        """Whether something is being made."""
        return bool(self._errands)

    @property
    def roster(self) -> Roster:
        """What reducers are to be told."""
        return self.policies.roster({name: member for (name, _), member in self.members.items()})

    def adopt(self, policies: PolicySet, members: Mapping[Wanted, Member]) -> None:
        """Another set; `members` were made of it beforehand."""
        self.close()
        self.policies = policies
        self.members = dict(members)
        self._count_faulty()
        self._changed()

    def close(self) -> None:
        """Give up what is being made."""
        for wanted, errand in self._errands.items():
            self._timers.stop(("policy made", wanted))
            errand.give_up()
        self._errands.clear()

    def line(self, job: Job) -> tuple[Member, ...] | None:
        """Who is asked about a job, in order; None while one of them is being made."""
        marks = job.metadata.annotations
        everywhere = self.policies.everywhere
        if names.POLICIES not in marks and not any(key.startswith(names.POLICY_ARGUMENTS) for key in marks):
            return everywhere
        theirs = {member.name: member for member in everywhere}
        line: list[Member | None] = [*_strays(marks, (*theirs, *named_policies(job)))]
        line += [
            self._member((name, marks.get(names.POLICY_ARGUMENTS + name, "")))
            for name in named_policies(job)
            if name not in theirs
        ]
        for name, member in theirs.items():
            text = marks.get(names.POLICY_ARGUMENTS + name, "")
            line.append(self._member((name, text)) if text else member)
        found = tuple(member for member in line if member is not None)
        return found if len(found) == len(line) else None

    def _member(self, wanted: Wanted) -> Member | None:
        """What a job wants, None while it is being made."""
        member = self.members.get(wanted)
        if member is None and wanted not in self._errands:
            policies, loop = self.policies, asyncio.get_running_loop()

            def done() -> None:
                try:
                    loop.call_soon_threadsafe(self._take, wanted, policies)
                except RuntimeError:  # the loop is closed: nobody is left to hear it
                    return

            self._errands[wanted] = Errand(lambda: policies.named(*wanted), f"policy {wanted[0]}", done)
            due = self._clock.now() + (2 * LIMIT + SLACK) * self._clock.rate
            self._timers.start(("policy made", wanted), due, lambda: self._give_up(wanted))
        return member

    def _take(self, wanted: Wanted, policies: PolicySet) -> None:
        if policies is not self.policies or wanted not in self._errands:
            return
        errand = self._errands.pop(wanted)
        self._timers.stop(("policy made", wanted))
        try:
            self._keep(wanted, errand.result())
        except BaseException as error:  # what the code of others raises
            self._keep(wanted, Member(wanted[0], fault=f"cannot be made: {type(error).__name__}: {error}"))

    def _give_up(self, wanted: Wanted) -> None:
        self._errands.pop(wanted).give_up()
        self._keep(wanted, Member(wanted[0], fault=f"cannot be made within {2 * LIMIT:g} s"))

    def _keep(self, wanted: Wanted, member: Member) -> None:
        while len(self.members) >= MOST:
            del self.members[next(iter(self.members))]
        self.members[wanted] = member
        if member.fault:
            self._tell(member)
        self._changed()
        self._made()

    def _count_faulty(self) -> None:
        for member in self.policies.everywhere:
            if member.fault:
                self._tell(member)

    def _tell(self, member: Member) -> None:
        self._probe.count("volcanoio_policy_load_failures_total", policy=member.name)
        _log.error("a lifecycle policy cannot be used", policy=member.name, fault=member.fault)


def _strays(marks: Mapping[str, str], asked: Sequence[str]) -> Iterator[Member]:
    """Arguments for policies that are not asked about the job, as their names are misspelt or nobody named them."""
    for key in sorted(marks):
        name = key.removeprefix(names.POLICY_ARGUMENTS)
        if name != key and name not in asked:
            told = f"{key}: the policy is not asked about this job{suggestion(name, asked)}"
            yield Member(name, fault=f"{told}; name it in {names.POLICIES} or remove its arguments")
