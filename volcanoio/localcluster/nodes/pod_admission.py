"""Admission of a pod by its node: accepts it, rejects it, or resumes it from its stored status."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from volcanoio.localcluster.clock import Clock
from volcanoio.localcluster.nodes.addresses import PodAddresses
from volcanoio.localcluster.nodes.container_runtime import SIMULATED, wanted_runtime
from volcanoio.localcluster.nodes.devices import Handover
from volcanoio.localcluster.nodes.executions import Executions
from volcanoio.localcluster.nodes.hollow import HollowNode, NodeShape
from volcanoio.localcluster.nodes.pod_events import PodEvent
from volcanoio.localcluster.nodes.pods import lifecycle, status
from volcanoio.localcluster.nodes.pods.behaviour import Behaviour, BehaviourError, attempt_key, behaviour_of
from volcanoio.localcluster.nodes.pods.podrun import PodRun, RunContext
from volcanoio.localcluster.nodes.pods.predicates import (
    Rejection,
    Usage,
    failed_predicate,
    host_ports,
    pod_requests,
)
from volcanoio.localcluster.nodes.pods.status import rejected_status
from volcanoio.localcluster.nodes.volumes import references
from volcanoio.model import names
from volcanoio.model.core import Pod
from volcanoio.model.quantity import QuantityError
from volcanoio.model.resources import PODS, Amounts


class StartCounts:
    """Counts starts by place (`pods.behaviour.attempt_key`).

    Memory does not outlive the process. When pods from before it may exist (`resumed`), a place not yet known is taken
    to have been started once per retry of its job, which the job controller stores on each pod.
    """

    def __init__(self) -> None:
        self._starts: dict[str, int] = {}
        self.resumed = False

    def before(self, pod: Pod) -> int:
        """Return the number of starts before this pod's first."""
        known = self._starts.get(attempt_key(pod))
        if known is not None:
            return known
        retries = pod.metadata.annotations.get(names.JOB_RETRY_COUNT, "")
        return int(retries) if self.resumed and retries.isdigit() else 0

    def note(self, run: PodRun) -> None:
        """Record the starts of this pod, if it has `fail-attempts`."""
        if run.behaviour.fail_attempts:
            own = max((0 if c.never_started else c.restarts + 1 for c in run.mains), default=0)
            self._starts[attempt_key(run.pod)] = run.earlier_starts + own


@dataclass(frozen=True, slots=True)
class Overcommit:
    """A pod bound to a node on which it does not fit, or with devices or CPUs that it cannot have: an error of a
    scheduler.
    """

    pod: str
    node: str
    rejection: Rejection


@dataclass(frozen=True, slots=True)
class KubeletSettings:
    """Settings of kubelets.

    `lag` (seconds) is the delay with which nodes observe changes of pods and stop counting ended ones.
    """

    lag: float
    seed: int
    start_latency: float


@dataclass(slots=True)
class Entry:
    """A pod on a node. `sent` is the status last written, `handover` what its device plugins have yet to write.

    `run` is None for a pod that was refused or had ended.

    `looks` counts unsuccessful lookups of its volumes.
    """

    pod: Pod
    node: HollowNode
    run: PodRun | None = None
    final: bytes = b""
    sent: bytes = b""
    timer: float | None = None
    queued: bool = False
    busy: bool = False
    deleting: bool = False
    counted: bool = True
    resumed: bool = False
    looks: int = 0
    handover: Handover | None = None


def _allocate(pod: Pod, node: HollowNode, requests: Amounts) -> Rejection | None:
    """Give a pod its resources, devices and CPUs, or return why it does not fit."""
    rejection: Rejection | None = node.ledger.admit(pod.metadata.uid, node.devices.plain(requests))
    rejection = rejection or node.devices.admit(pod)
    return rejection or (None if node.cpus is None else node.cpus.admit(pod))


class PodAdmission:
    """Admission of pods by nodes.

    `overcommitted` has the pods that did not fit; `removed` are nodes of the fleet's name that it no longer has.
    """

    def __init__(
        self,
        clock: Clock,
        executions: Executions,
        settings: KubeletSettings,
        record: Callable[[Pod, HollowNode, PodEvent], None],
    ) -> None:
        self.overcommitted: list[Overcommit] = []
        self.removed: frozenset[str] = frozenset()
        self.unknown_node: Callable[[str], None] | None = None
        """Called with the name of a pod's node, if that is none of the fleet's."""
        self.attempts = StartCounts()
        self._clock = clock
        self._executions = executions
        self._settings = settings
        self._record = record
        self._simulated = PodAddresses()

    def addresses(self, uid: str) -> PodAddresses:
        """Return the source of a pod's address."""
        return self._executions.addresses(uid) or self._simulated

    def take_in(self, pod: Pod, node: HollowNode | None) -> Entry | None:
        """Admit, refuse or resume a pod that is seen for the first time."""
        deleting = pod.metadata.deletion_timestamp is not None
        if node is None:
            if pod.spec.node_name not in self.removed:
                if self.unknown_node is not None:
                    self.unknown_node(pod.spec.node_name)
                return None
            lost = HollowNode(NodeShape(pod.spec.node_name), Usage({}), "")
            return Entry(pod, lost, counted=False, deleting=True)
        if status.is_finished(pod):
            return Entry(pod, node, counted=False) if deleting else None
        requests, behaviour, problem = self._read(pod)
        if status.was_accepted(pod):
            return self._resume(pod, node, requests, behaviour, problem)
        refusal = failed_predicate(
            pod, node.name, node.labels, node.taints, node.taken_ports() if node.ports else frozenset()
        )
        rejection = None if refusal else _allocate(pod, node, requests)
        if rejection is not None:
            self.overcommitted.append(Overcommit(pod.metadata.key, node.name, rejection))
        if refusal or rejection:
            node.release(pod.metadata.uid)
            return self._refuse(pod, node, refusal or rejection)
        external, problem = self._carried(pod, node, problem)
        run = lifecycle.accept(
            pod, behaviour, self._clock.now(),
            RunContext(node.address, self._address(pod, node), self.attempts.before(pod), external),
            has_volumes=bool(problem) or bool(references(pod)),
        )  # fmt: skip
        if ports := host_ports(pod):
            node.ports[pod.metadata.uid] = ports
        run = lifecycle.misconfigured(run, problem) if problem else run
        return Entry(pod, node, run, handover=node.devices.handover(pod))

    def _resume(self, pod: Pod, node: HollowNode, requests: Amounts, behaviour: Behaviour, problem: str) -> Entry:
        node.ledger.restore(pod.metadata.uid, node.devices.plain(requests))
        node.devices.restore(pod)
        if node.cpus is not None:
            node.cpus.restore(pod)
        if ports := host_ports(pod):
            node.ports[pod.metadata.uid] = ports
        external, problem = self._carried(pod, node, problem)
        context = RunContext(node.address, earlier_starts=self.attempts.before(pod), external=external)
        run = status.resume(pod, behaviour, self._clock.now(), context)
        self.addresses(pod.metadata.uid).keep(run.pod_ip)
        self.attempts.note(run)
        return Entry(pod, node, lifecycle.misconfigured(run, problem) if problem else run, resumed=True)

    def _carried(self, pod: Pod, node: HollowNode, problem: str) -> tuple[frozenset[str], str]:
        """Return the containers that a runtime runs, and the errors of the manifest."""
        wanted = wanted_runtime(pod, node.runtime, self._executions.default)
        if wanted == SIMULATED:
            return frozenset(), problem
        runtime = self._executions.runtimes.get(wanted)
        if runtime is None:
            known = ", ".join([SIMULATED, *self._executions.runtimes])
            return (
                frozenset(),
                problem or f"annotation {names.RUNTIME}: {wanted!r} is not here; this cluster has {known}",
            )
        external = set()
        for container in (*pod.spec.init_containers, *pod.spec.containers):
            if objection := runtime.objection(pod, container.name):
                self._record(pod, node, PodEvent("Warning", "Simulated", objection))
            else:
                external.add(container.name)
        if external:
            self._executions.take_in(pod, runtime)
        return frozenset(external), problem

    def _address(self, pod: Pod, node: HollowNode) -> str:
        if pod.spec.host_network:
            return node.address
        return self.addresses(pod.metadata.uid).take()

    def _read(self, pod: Pod) -> tuple[Amounts, Behaviour, str]:
        """Return the pod's requests and behaviour, and the errors of its manifest."""
        try:
            return pod_requests(pod), behaviour_of(pod, self._settings.seed, self._settings.start_latency), ""
        except (BehaviourError, QuantityError) as error:
            return {PODS: 1}, Behaviour(pod.metadata.uid), str(error)

    def _refuse(self, pod: Pod, node: HollowNode, refusal: Rejection | None) -> Entry:
        assert refusal is not None
        self._record(pod, node, PodEvent("Warning", refusal.reason, refusal.message))
        final = msgspec.json.encode(rejected_status(pod, refusal, self._clock.now()))
        return Entry(pod, node, final=final, counted=False)
