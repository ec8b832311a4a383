"""One container of a pod: waiting, running or terminated, when that changes next, and whether it restarts.

Kubernetes: `pkg/kubelet/kuberuntime` (back-off of 10 s doubling to 5 min, the first restart at once, reset after 10
min without a crash; at least 2 s between SIGTERM and SIGKILL) and `pkg/api/v1/pod` (ContainerShouldRestart). Times are
epoch seconds.
"""

from __future__ import annotations

from enum import IntEnum, StrEnum

import msgspec

from volcanoio.framework.backoff import Backoff
from volcanoio.localcluster.nodes.pods.behaviour import NEVER, Plan
from volcanoio.localcluster.nodes.pods.probes import Pulse
from volcanoio.model import times
from volcanoio.model.core import Container, Pod

BACKOFF = Backoff(base=10.0, cap=300.0)
BACK_OFF_FORGET = 600.0
LEAST_GRACE = 2.0
KILLED, TERMINATED_BY_SIGNAL = 137, 143


class Role(IntEnum):
    """Role of a container in its pod."""

    INIT = 0
    SIDECAR = 1
    MAIN = 2


class State(StrEnum):
    """State of a container status."""

    WAITING = "waiting"
    RUNNING = "running"
    TERMINATED = "terminated"


class Ended(msgspec.Struct, frozen=True, gc=False):
    """End of one run of a container."""

    exit_code: int
    reason: str
    started_at: float
    finished_at: float
    message: str = ""


class Stop(msgspec.Struct, frozen=True, gc=False):
    """Requested end of a running container: SIGTERM at `term_at`, SIGKILL at `kill_at`.

    `end_at` is when a simulated one obeys, with `code`. A container of a runtime ends when the runtime reports it:
    `signalled` and `killed` record which signals were due.
    """

    term_at: float
    kill_at: float
    end_at: float | None = None
    code: int = TERMINATED_BY_SIGNAL
    signalled: bool = False
    killed: bool = False

    @property
    def due(self) -> float | None:
        """Time of the next transition."""
        if self.end_at is not None:
            return self.end_at
        if not self.signalled:
            return self.term_at
        return None if self.killed else self.kill_at


class ContainerRun(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A container now.

    `due` is when it starts, tries again or ends by itself, None when it waits for something else. `plan` is how the
    present run goes. `external` containers are carried out by a runtime: `starting` from the order to the start.
    `up` is what `started` means in a status, `ready_since` when `ready` last changed; `health` are changes of both to
    come. `ended` is set when terminated, `last` is the run before the present one. `pause` is the back-off of the
    latest crash or failed pull; `pulling` is since when the image is being pulled, 0 when it is not.
    """

    spec: Container
    role: Role
    state: State = State.WAITING
    waiting: str = "ContainerCreating"
    message: str = ""
    started_at: float = 0.0
    plan: Plan | None = None
    due: float | None = None
    external: bool = False
    starting: bool = False
    up: bool = False
    ready: bool = False
    ready_since: float = 0.0
    health: tuple[Pulse, ...] = ()
    stop: Stop | None = None
    ended: Ended | None = None
    last: Ended | None = None
    restarts: int = 0
    pause: float = 0.0
    pulling: float = 0.0

    @property
    def never_started(self) -> bool:
        """Whether no run of the container has begun yet."""
        return self.state is State.WAITING and self.last is None

    @property
    def succeeded(self) -> bool:
        """Whether the container has ended with exit code 0."""
        return self.ended is not None and self.ended.exit_code == 0

    @property
    def failed(self) -> bool:
        """Whether the container has ended with another exit code."""
        return self.ended is not None and self.ended.exit_code != 0

    @property
    def next(self) -> float | None:
        """Time of the next change that needs no event from outside."""
        moment = self.due
        if self.health and (moment is None or self.health[0].at < moment):
            moment = self.health[0].at
        if self.stop is not None and (stop := self.stop.due) is not None and (moment is None or stop < moment):
            moment = stop
        return moment


def start(run: ContainerRun, plan: Plan, at: float, health: tuple[Pulse, ...]) -> ContainerRun:
    """Start a run of the container, and apply the probe results that hold at once."""
    running = msgspec.structs.replace(
        run,
        state=State.RUNNING,
        waiting="",
        message="",
        started_at=at,
        plan=plan,
        ended=None,
        restarts=run.restarts + (run.last is not None),
        due=None if run.external or plan.duration == NEVER else at + plan.duration,
        starting=False,
        pulling=0.0,
        health=health,
    )
    if not health:
        return msgspec.structs.replace(running, up=True, ready=run.role is not Role.INIT, ready_since=at)
    return running


def end(run: ContainerRun, exit_code: int, reason: str, at: float, message: str = "") -> ContainerRun:
    """End the current run."""
    return msgspec.structs.replace(
        run,
        state=State.TERMINATED,
        ended=Ended(exit_code, reason, run.started_at, at, message),
        plan=None,
        due=None,
        health=(),
        stop=None,
        up=False,
        ready=False,
        ready_since=at if run.ready else run.ready_since,
    )


def end_as_planned(run: ContainerRun, at: float) -> ContainerRun:
    """End the current run as its plan specifies."""
    plan = run.plan or Plan(0.0)
    return end(run, plan.exit_code, plan.reason, at, plan.message)


def stopping(run: ContainerRun, at: float, hook: float, grace: float, obeys_after: float) -> ContainerRun:
    """Request the end of the container at `at`, within `grace` seconds.

    Its preStop hook takes `hook` seconds of that.

    `obeys_after` is how long a simulated one takes to end. An earlier end that was planned still comes.
    """
    term_at = at + min(hook, grace)
    return _stopped(run, Stop(term_at, term_at + max(at + grace - term_at, LEAST_GRACE)), obeys_after)


def hurried(run: ContainerRun, kill_at: float, obeys_after: float) -> ContainerRun:
    """Shorten the grace period of a stopping container to `kill_at`, if that is earlier."""
    stop = run.stop
    if stop is None or stop.kill_at <= kill_at:
        return run
    return _stopped(
        run, msgspec.structs.replace(stop, term_at=min(stop.term_at, kill_at), kill_at=kill_at), obeys_after
    )


def _stopped(run: ContainerRun, stop: Stop, obeys_after: float) -> ContainerRun:
    if not run.external:
        end_at = min(stop.term_at + obeys_after, stop.kill_at)
        code = TERMINATED_BY_SIGNAL if stop.term_at + obeys_after <= stop.kill_at else KILLED
        stop = msgspec.structs.replace(stop, end_at=end_at, code=code)
    return msgspec.structs.replace(run, stop=stop)


def back_off(run: ContainerRun, pod_name: str) -> ContainerRun:
    """Enter back-off before the next run; the delay grows with each crash."""
    ended = run.ended
    if ended is None:
        return run
    pause = 0.0 if ended.finished_at - ended.started_at > BACK_OFF_FORGET else run.pause
    return msgspec.structs.replace(
        run,
        state=State.WAITING,
        waiting="CrashLoopBackOff",
        message=f"back-off {times.go_duration(int(pause))} restarting failed container={run.spec.name} pod={pod_name}",
        ended=None,
        last=ended,
        due=ended.finished_at + pause,
        pause=BACKOFF.grow(pause),
    )


def refuse(run: ContainerRun, reason: str, message: str, due: float | None = None) -> ContainerRun:
    """Keep the container waiting for a reason that its status shows."""
    return msgspec.structs.replace(run, waiting=reason, message=message, due=due, pulling=0.0)


def restarts(pod: Pod, run: ContainerRun) -> bool:
    """Return whether the container restarts.

    Rules of the container go first, then its own policy, then the pod's; an init container is done by success.
    """
    code = run.ended.exit_code if run.ended is not None else 0
    if run.role is Role.SIDECAR:
        return True
    if run.spec.restart_policy and _by_rule(run.spec, code):
        return True
    policy = run.spec.restart_policy or pod.spec.restart_policy
    if run.role is Role.INIT:
        return code != 0 and policy != "Never"
    return policy == "Always" or (policy == "OnFailure" and code != 0)


def _by_rule(container: Container, code: int) -> bool:
    """Return whether a `restartPolicyRules` entry requests a restart after this exit code."""
    for rule in container.restart_policy_rules:
        codes = rule.get("exitCodes") or {}
        listed = code in (codes.get("values") or ())
        if listed == (codes.get("operator") == "In"):
            return rule.get("action") in ("Restart", "RestartAllContainers")
    return False
