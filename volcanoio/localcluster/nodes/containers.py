"""One container of a simulated pod: waiting, running or terminated, and when that changes next.

Kubernetes: `pkg/kubelet/kuberuntime` (back-off of 10 s doubling to 5 min, the first restart at once, forgotten after
10 min of running).
"""

from __future__ import annotations

from enum import IntEnum, StrEnum

import msgspec

from volcanoio.localcluster.nodes.behaviour import NEVER, Plan
from volcanoio.model.core import Container

BACK_OFF_FIRST = 10.0
BACK_OFF_LIMIT = 300.0
BACK_OFF_FORGET = 600.0
PULL_RETRY = 1.0
KILLED, TERMINATED_BY_SIGNAL = 137, 143


class Role(IntEnum):
    """How a container takes part in its pod."""

    INIT = 0
    SIDECAR = 1
    MAIN = 2


class State(StrEnum):
    """`state` of a container status."""

    WAITING = "waiting"
    RUNNING = "running"
    TERMINATED = "terminated"


class Ended(msgspec.Struct, frozen=True, gc=False):
    """How one run of a container ended; times in epoch seconds."""

    exit_code: int
    reason: str
    started_at: float
    finished_at: float


class ContainerRun(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A container now. `due` is when it changes by itself (epoch seconds), None when it waits for something else.

    `plan` is how the present run goes. `ended` is set when terminated, `last` is the run before the present one.
    """

    spec: Container
    role: Role
    state: State = State.WAITING
    waiting: str = "ContainerCreating"
    message: str = ""
    started_at: float = 0.0
    plan: Plan | None = None
    ended: Ended | None = None
    last: Ended | None = None
    restarts: int = 0
    due: float | None = None

    @property
    def never_started(self) -> bool:
        """Whether no run of it has begun yet."""
        return self.state is State.WAITING and self.last is None

    @property
    def succeeded(self) -> bool:
        """Whether it has ended with exit code 0."""
        return self.ended is not None and self.ended.exit_code == 0

    @property
    def failed(self) -> bool:
        """Whether it has ended otherwise."""
        return self.ended is not None and self.ended.exit_code != 0


def start(run: ContainerRun, plan: Plan, at: float, pace: float) -> ContainerRun:
    """The container begins a run; `pace` is in seconds per simulated second."""
    return msgspec.structs.replace(
        run,
        state=State.RUNNING,
        waiting="",
        message="",
        started_at=at,
        plan=plan,
        ended=None,
        restarts=run.restarts + (run.last is not None),
        due=None if plan.duration == NEVER else at + plan.duration * pace,
    )


def end(run: ContainerRun, exit_code: int, reason: str, at: float) -> ContainerRun:
    """The present run ends."""
    ended = Ended(exit_code, reason, run.started_at, at)
    return msgspec.structs.replace(run, state=State.TERMINATED, ended=ended, plan=None, due=None)


def end_as_planned(run: ContainerRun, at: float) -> ContainerRun:
    """The present run ends by itself."""
    plan = run.plan or Plan(0.0)
    return end(run, plan.exit_code, plan.reason, at)


def back_off(run: ContainerRun, pod_name: str, pace: float) -> ContainerRun:
    """A run has ended and another is to follow, after a pause that grows with each restart."""
    ended = run.ended
    if ended is None:
        return run
    pause = 0.0
    if run.restarts and ended.finished_at - ended.started_at < BACK_OFF_FORGET * pace:
        pause = min(BACK_OFF_LIMIT, BACK_OFF_FIRST * 2.0 ** (min(run.restarts, 10) - 1))
    return msgspec.structs.replace(
        run,
        state=State.WAITING,
        waiting="CrashLoopBackOff",
        message=f"back-off {pause:g}s restarting failed container={run.spec.name} pod={pod_name}",
        ended=None,
        last=ended,
        due=ended.finished_at + pause * pace,
    )


def refuse(run: ContainerRun, reason: str, message: str, due: float | None = None) -> ContainerRun:
    """The container cannot start for a reason that is shown."""
    return msgspec.structs.replace(run, waiting=reason, message=message, due=due)
