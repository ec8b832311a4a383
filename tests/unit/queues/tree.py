"""A world with queues, their PodGroups and Commands."""

from __future__ import annotations

from typing import Any

from tests.unit.world import World
from volcanoio.engine.hosting.controller_host import Dispatch
from volcanoio.engine.queues.controller import QueueController
from volcanoio.framework.effects import Delete, Effect, Measure, Measurement, Patch
from volcanoio.model import kinds
from volcanoio.model.scheduling import Queue
from volcanoio.model.workloads import QUEUE_PHASE, place_message


class Queues(World):
    """The queue controller's world. `held` are writes that are held back, None while none are."""

    def __init__(self) -> None:
        self.held: list[tuple[Dispatch, Effect]] | None = None
        self.gauges: dict[tuple[str, str], float] = {}
        super().__init__([lambda _: QueueController()])

    def queue(self, name: str, parent: str = "root", state: str = "Open") -> None:
        self.put(kinds.QUEUE, {"metadata": {"name": name}, "spec": {"parent": parent}, "status": {"state": state}})

    def group(self, name: str, queue: str, phase: str = "Running") -> None:
        meta = {"name": name, "namespace": "ns"}
        self.put(kinds.POD_GROUP, {"metadata": meta, "spec": {"queue": queue}, "status": {"phase": phase}})

    def native_group(self, name: str, queue: str, phase: str = "Running") -> None:
        """Put a native group as the scheduler has it in that queue; "" for one without pods of the scheduler."""
        meta = {"name": name, "namespace": "ns"}
        counted = {"type": QUEUE_PHASE, "status": "True", "reason": phase, "message": place_message(queue, "volcano")}
        self.put(kinds.NATIVE_POD_GROUP, {"metadata": meta, "status": {"conditions": [counted] if queue else []}})

    def command(self, name: str, action: str, queue: str, uid: str = "") -> None:
        target = {"apiVersion": kinds.QUEUE.api_version, "kind": "Queue", "name": queue, "uid": uid}
        meta = {"name": name, "namespace": "default", "creationTimestamp": "2023-11-14T22:13:20Z"}
        self.put(kinds.COMMAND, {"metadata": meta, "action": action, "target": target})

    def named(self, name: str) -> Queue:
        found = self.get(kinds.QUEUE, name)
        assert isinstance(found, Queue)
        return found

    def release(self) -> None:
        """Carry out what was held back."""
        held, self.held = self.held or [], None
        self.carry_out(held)

    def carry_out(self, held: list[tuple[Dispatch, Effect]]) -> None:
        """Have writes that were held back take place."""
        for dispatch, effect in held:
            self._carry_out(dispatch, effect, ())

    def _submit(self, dispatch: Dispatch) -> None:
        if self.held is None:
            super()._submit(dispatch)
            return
        for stage in dispatch.stages:
            for effect in stage:
                if isinstance(effect, Patch | Delete):
                    self.held.append((dispatch, effect))
                else:
                    self._carry_out(dispatch, effect, ())

    def _carry_out(self, dispatch: Dispatch, effect: Effect, dropped: tuple[int, ...]) -> bool:
        match effect:
            case Measure(measurement=Measurement.GAUGE, name=name, labels=labels, value=value):
                self.gauges[labels["queue_name"], name] = value
            case Measure(measurement=Measurement.FORGET, name=name, labels=labels):
                del self.gauges[labels["queue_name"], name]
            case _:
                return super()._carry_out(dispatch, effect, dropped)
        return True

    def _describe(self, patch: Any) -> str:
        return f" {_flat(patch)}"


def _flat(patch: Any) -> str:
    """`state=Open running=1`: the leaves that are not zero."""
    if not isinstance(patch, dict):
        return str(patch)
    leaves = []
    for key, value in patch.items():
        if isinstance(value, dict):
            leaves.append(_flat(value))
        elif value:
            leaves.append(f"{key.rpartition('/')[2]}={value}")
    return " ".join(leaves)
