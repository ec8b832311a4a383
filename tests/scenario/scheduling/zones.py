"""Several schedulers over the node zones of one cluster, each with its own view of it.

Events reach a scheduler after its own delay, and a bind takes effect some seconds after it was sent. `SharedCluster`
has the true state: where pods are and how much of each node they use.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from random import Random

import msgspec

from tests.scenario.scheduling.harness import World, decoded, group, node, pod
from volcanoio.engine.scheduling.cluster.scope import HANDOVER_SECONDS, Scope
from volcanoio.engine.scheduling.cluster.state import ClusterState, StateOptions
from volcanoio.framework.scheduling_effects import BindBatch, BindRequest, SchedulerEffect
from volcanoio.framework.scheduling_events import BindRefused
from volcanoio.model import kinds
from volcanoio.model.core import Pod

ZONE = "zone"
LONGEST_BIND = 5.0
"""Seconds from sending a bind until it has taken effect or never does: the time limit of a request."""


class ZoneScheduler(World):
    """The scheduler of one zone; its name is the zone's. Events arrive `delay` seconds late."""

    def __init__(self, zone: str, delay: float, handover: float = HANDOVER_SECONDS, scope: Scope | None = None) -> None:
        """`scope` replaces that of the zone's label."""
        scope = scope or Scope(node_selector=((ZONE, zone),), handover_seconds=handover)
        state = ClusterState(StateOptions(scheduler_names=frozenset({zone}), scope=scope))
        super().__init__(state=state)
        self.zone = zone
        self.delay = delay
        self.decided: list[tuple[str, str]] = []
        """Pod and node of each bind."""
        self._arriving: deque[tuple[float, Callable[[], object]]] = deque()

    def later(self, now: float, effect: Callable[[], object]) -> None:
        """Have the scheduler observe something after its delay."""
        self._arriving.append((now + self.delay, effect))

    def observe(self, now: float) -> None:
        """Fold what has arrived."""
        self.now = now
        while self._arriving and self._arriving[0][0] <= now:
            self._arriving.popleft()[1]()


class SharedCluster:
    """Nodes in zones, their schedulers, and the pods that are bound; time moves by one second a step."""

    def __init__(
        self,
        zones: Mapping[str, int],
        *,
        slots: int = 4,
        delays: Mapping[str, float] | None = None,
        handover: float = HANDOVER_SECONDS,
        seed: int = 0,
    ) -> None:
        self.random = Random(f"zones {seed}")
        self.now = 1000.0
        self.slots = slots
        self.zone_of: dict[str, str] = {}
        self.on_node: defaultdict[str, set[str]] = defaultdict(set)
        self.overbooked: list[str] = []
        self.bound: dict[str, str] = {}
        self._pods: dict[str, Pod] = {}
        self._in_flight: list[tuple[float, BindRequest]] = []
        self.schedulers = {
            zone: ZoneScheduler(zone, (delays or {}).get(zone, 0.0), handover, self.scope_of(zone)) for zone in zones
        }
        for zone, count in zones.items():
            for number in range(count):
                self.place_node(f"{zone}{number}", zone)

    def scope_of(self, zone: str) -> Scope | None:
        """Return the scope of a zone's scheduler, None for the nodes with the zone's label."""

    def place_node(self, name: str, zone: str) -> None:
        """Create a node, or move it to another zone."""
        self.zone_of[name] = zone
        shown = decoded(node(name, cpu=str(self.slots), pods="1000", labels={ZONE: zone}))
        for scheduler in self.schedulers.values():
            scheduler.later(self.now, lambda scheduler=scheduler: scheduler.put(shown))  # type: ignore[misc]

    def submit(self, name: str, scheduler: str, pods: int, minimum: int | None = None) -> None:
        """Create a PodGroup with pods of one cpu each for a scheduler, which need not be one of ours."""
        shown = decoded(group(name, minimum or pods, phase="Inqueue"))
        for each in self.schedulers.values():
            each.later(self.now, lambda each=each: each.put(shown))  # type: ignore[misc]
        for number in range(pods):
            made = decoded(pod(f"{name}-{number}", name, cpu="1", spec={"schedulerName": scheduler}))
            assert isinstance(made, Pod)
            self._show(made)

    def _show(self, shown: Pod) -> None:
        self._pods[shown.metadata.name] = shown
        for scheduler in self.schedulers.values():
            scheduler.later(self.now, lambda scheduler=scheduler: scheduler.put(shown))  # type: ignore[misc]

    def finish(self, name: str) -> None:
        """Delete a pod that has ended."""
        del self._pods[name]
        self.on_node[self.bound.pop(name)].discard(name)
        key = f"ns/{name}"
        for scheduler in self.schedulers.values():
            scheduler.later(self.now, lambda scheduler=scheduler: scheduler.remove(kinds.POD, key))  # type: ignore[misc]

    def step(self, running: Iterable[str] | None = None, *, flight: float = 0.0) -> None:
        """Let the schedulers of these zones (None: all) run a cycle; binds take up to `flight` seconds."""
        self._take_effect()
        for zone in sorted(self.schedulers if running is None else running):
            scheduler = self.schedulers[zone]
            scheduler.observe(self.now)
            scheduler.cycle()
            for decision in scheduler.last:
                if isinstance(decision, BindBatch):
                    for bind in decision.binds:
                        self._send(scheduler, decision.group, bind, flight)
                else:
                    self.carry_out(scheduler, decision)
        self._take_effect()
        self.now += 1.0

    def carry_out(self, scheduler: ZoneScheduler, decision: SchedulerEffect) -> None:
        """Carry out a decision that is not a bind."""
        scheduler.carry_out(decision)

    def _send(self, scheduler: ZoneScheduler, job: str, bind: BindRequest, flight: float) -> None:
        scheduler.decided.append((bind.name, bind.node))
        if bind.node not in scheduler.state.ledger.columns.rows:  # the binder refuses it
            refused = BindRefused(
                at=self.now, group=job, uid=bind.uid, namespace="ns", name=bind.name, node=bind.node, code=0
            )
            scheduler.fold(refused)
            return
        self._in_flight.append((self.now + self.random.uniform(0.0, flight), bind))

    def _take_effect(self) -> None:
        """Carry out the binds whose time has come."""
        due = [bind for at, bind in self._in_flight if at <= self.now]
        self._in_flight = [(at, bind) for at, bind in self._in_flight if at > self.now]
        for bind in due:
            pod = self._pods[bind.name]
            assert not pod.spec.node_name, f"{bind.name} is bound twice"
            self.bound[bind.name] = bind.node
            self.on_node[bind.node].add(bind.name)
            if len(self.on_node[bind.node]) > self.slots:
                self.overbooked.append(f"{self.now}: {bind.node} by {bind.name}")
            spec = msgspec.structs.replace(pod.spec, node_name=bind.node)
            self._show(
                msgspec.structs.replace(pod, spec=spec, status=msgspec.structs.replace(pod.status, phase="Running"))
            )


def keep_moving(shared: SharedCluster, *, rounds: int, most_pods: int, move_every: int, end_share: float) -> None:
    """Keep a cluster busy in which nodes move between zones while binds are in flight.

    In each round every zone gets a job of up to `most_pods`, and `end_share` of the bound pods end; every `move_every`
    rounds a node moves.
    """
    random, zones = shared.random, list(shared.schedulers)
    for number in range(rounds):
        for zone in zones:
            shared.submit(f"{zone}-{number}", zone, pods=random.randint(1, most_pods))
        if not number % move_every:
            shared.place_node(random.choice(sorted(shared.zone_of)), random.choice(sorted(zones)))
        for name in sorted(shared.bound):
            if random.random() < end_share:
                shared.finish(name)
        shared.step(flight=LONGEST_BIND)
