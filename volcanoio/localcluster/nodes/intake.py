"""How a node takes a pod in: admits it, refuses it, or goes on with what is stored of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from volcanoio.localcluster.clock import Clock
from volcanoio.localcluster.nodes import lifecycle, resume
from volcanoio.localcluster.nodes.addresses import PodAddresses
from volcanoio.localcluster.nodes.admission import Ledger, Rejection, pod_requests
from volcanoio.localcluster.nodes.attempts import Attempts
from volcanoio.localcluster.nodes.behaviour import Behaviour, BehaviourError, behaviour_of
from volcanoio.localcluster.nodes.executions import Executions
from volcanoio.localcluster.nodes.happenings import Happening
from volcanoio.localcluster.nodes.hollow import HollowNode
from volcanoio.localcluster.nodes.podrun import PodRun
from volcanoio.localcluster.nodes.predicates import Refusal, host_ports, objection
from volcanoio.localcluster.nodes.runtime import SIMULATED, wanted_runtime
from volcanoio.localcluster.nodes.shapes import NodeShape
from volcanoio.localcluster.nodes.status import rejected_status
from volcanoio.localcluster.nodes.volumes import references
from volcanoio.model import names
from volcanoio.model.core import Pod
from volcanoio.model.quantity import QuantityError
from volcanoio.model.resources import PODS, Amounts


@dataclass(frozen=True, slots=True)
class Overcommit:
    """A pod that was bound to a node on which it does not fit: somebody's scheduler is wrong."""

    pod: str
    node: str
    rejection: Rejection


@dataclass(frozen=True, slots=True)
class KubeletSettings:
    """`lag` (seconds) delays what nodes see of pods, and how long they count an ended one."""

    lag: float
    seed: int
    start_latency: float


@dataclass(slots=True)
class Entry:
    """A pod on a node. `sent` is the status last written; `run` is None for a pod that was refused or had ended.

    `looks` counts vain ones for its volumes.
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


class Intake:
    """Takes pods in. `overcommitted` is the alarm; `removed` are nodes of the fleet's name that it no longer has."""

    def __init__(
        self,
        clock: Clock,
        executions: Executions,
        settings: KubeletSettings,
        tell: Callable[[Pod, HollowNode, Happening], None],
    ) -> None:
        self.overcommitted: list[Overcommit] = []
        self.removed: frozenset[str] = frozenset()
        self.attempts = Attempts()
        self._clock = clock
        self._executions = executions
        self._settings = settings
        self._tell = tell
        self._simulated = PodAddresses()

    def addresses(self, uid: str) -> PodAddresses:
        """Where a pod has its address from."""
        return self._executions.addresses(uid) or self._simulated

    def take_in(self, pod: Pod, node: HollowNode | None) -> Entry | None:
        """A pod seen for the first time: admitted, refused, or resumed from its stored status."""
        deleting = pod.metadata.deletion_timestamp is not None
        if node is None:
            if pod.spec.node_name not in self.removed:
                return None
            lost = HollowNode(NodeShape(pod.spec.node_name), Ledger({}), "")
            return Entry(pod, lost, counted=False, deleting=True)
        if resume.is_finished(pod):
            return Entry(pod, node, counted=False) if deleting else None
        requests, behaviour, problem = self._read(pod)
        if resume.was_accepted(pod):
            return self._resume(pod, node, requests, behaviour, problem)
        refusal = objection(pod, node.name, node.labels, node.taints, node.taken_ports() if node.ports else frozenset())
        rejection = None if refusal else node.ledger.admit(pod.metadata.uid, requests)
        if rejection is not None:
            self.overcommitted.append(Overcommit(pod.metadata.key, node.name, rejection))
        if refusal or rejection:
            return self._refuse(pod, node, refusal or rejection)
        external, problem = self._carried(pod, node, problem)
        run = lifecycle.accept(
            pod, behaviour, self._clock.now(), host_ip=node.address, pod_ip=self._address(pod, node),
            earlier_starts=self.attempts.before(pod), has_volumes=bool(problem) or bool(references(pod)),
            external=external,
        )  # fmt: skip
        if ports := host_ports(pod):
            node.ports[pod.metadata.uid] = ports
        return Entry(pod, node, lifecycle.misconfigured(run, problem) if problem else run)

    def _resume(self, pod: Pod, node: HollowNode, requests: Amounts, behaviour: Behaviour, problem: str) -> Entry:
        node.ledger.restore(pod.metadata.uid, requests)
        if ports := host_ports(pod):
            node.ports[pod.metadata.uid] = ports
        external, problem = self._carried(pod, node, problem)
        run = resume.resume(
            pod, behaviour, self._clock.now(), host_ip=node.address, earlier_starts=self.attempts.before(pod),
            external=external,
        )  # fmt: skip
        self.addresses(pod.metadata.uid).keep(run.pod_ip)
        self.attempts.note(run)
        return Entry(pod, node, lifecycle.misconfigured(run, problem) if problem else run, resumed=True)

    def _carried(self, pod: Pod, node: HollowNode, problem: str) -> tuple[frozenset[str], str]:
        """The containers that a runtime carries out, and what is wrong with the manifest."""
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
            if told := runtime.objection(pod, container.name):
                self._tell(pod, node, Happening("Warning", "Simulated", told))
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
        """What the pod takes and does, and what is wrong with its manifest."""
        try:
            return pod_requests(pod), behaviour_of(pod, self._settings.seed, self._settings.start_latency), ""
        except (BehaviourError, QuantityError) as error:
            return {PODS: 1}, Behaviour(pod.metadata.uid), str(error)

    def _refuse(self, pod: Pod, node: HollowNode, refusal: Refusal | None) -> Entry:
        assert refusal is not None
        self._tell(pod, node, Happening("Warning", refusal.reason, refusal.message))
        final = msgspec.json.encode(rejected_status(pod, refusal, self._clock.now()))
        return Entry(pod, node, final=final, counted=False)
