"""The columns of a pod, above all STATUS, which is more detailed than the phase.

Rules: Kubernetes `pkg/printers/internalversion/printers.go` (printPod).
"""

from datetime import datetime
from typing import Any, NamedTuple

from volcanoio.model.base import Manifest
from volcanoio.model.printing.ages import since

NONE = "<none>"
_ENDED = ("Succeeded", "Failed")


class PodView(NamedTuple):
    """Counts and status derived from a pod's containers."""

    ready: str
    status: str
    restarts: str


class _ContainerCounts:
    """Counts over container statuses."""

    def __init__(self) -> None:
        self.ready = 0
        self.restarts = 0
        self.last_restart = ""

    def add_restarts(self, container: Manifest) -> None:
        self.restarts += container.get("restartCount") or 0
        ended = ((container.get("lastState") or {}).get("terminated") or {}).get("finishedAt") or ""
        self.last_restart = max(self.last_restart, ended)

    def text(self, now: datetime) -> str:
        if self.restarts and self.last_restart:
            return f"{self.restarts} ({since(self.last_restart, now)} ago)"
        return str(self.restarts)


def view(pod: Manifest, now: datetime) -> PodView:
    """Return READY, STATUS and RESTARTS of a pod."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    sidecars = {one["name"] for one in spec.get("initContainers") or () if one.get("restartPolicy") == "Always"}
    total = len(spec.get("containers") or ()) + len(sidecars)
    word = status.get("reason") or status.get("phase") or ""
    if _condition(status, "PodScheduled").get("reason") == "SchedulingGated":
        word = "SchedulingGated"
    before, main, sidecar_restarts = _ContainerCounts(), _ContainerCounts(), _ContainerCounts()
    if starting := _initialisation(spec, status, sidecars, before, sidecar_restarts):
        counts, word = before, starting
    else:
        main.ready = before.ready
        main.restarts, main.last_restart = sidecar_restarts.restarts, sidecar_restarts.last_restart
        counts, word = main, _main_status(status, main, word)
    return PodView(f"{counts.ready}/{total}", _with_deletion(pod, status, word), counts.text(now))


def _initialisation(
    spec: Manifest, status: Manifest, sidecars: set[str], counts: _ContainerCounts, sidecar_restarts: _ContainerCounts
) -> str:
    """Return `Init:…` while an init container has to end (or a sidecar to start); empty afterwards."""
    count = len(spec.get("initContainers") or ())
    for index, container in enumerate(status.get("initContainerStatuses") or ()):
        counts.add_restarts(container)
        state = container.get("state") or {}
        ended = state.get("terminated")
        if container["name"] in sidecars:
            sidecar_restarts.add_restarts(container)
            if container.get("started"):
                counts.ready += bool(container.get("ready"))
                continue
        if ended and not ended.get("exitCode"):
            continue
        if _condition(status, "Initialized").get("status") == "True":
            continue
        waiting = (state.get("waiting") or {}).get("reason")
        if ended:
            return "Init:" + _ended_word(ended)
        if waiting and waiting != "PodInitializing":
            return f"Init:{waiting}"
        return f"Init:{index}/{count}"
    return ""


def _main_status(status: Manifest, counts: _ContainerCounts, word: str) -> str:
    """Return the reason of the first container that has one, else the pod's own."""
    running = False
    for container in reversed(status.get("containerStatuses") or ()):
        counts.add_restarts(container)
        state = container.get("state") or {}
        waiting, ended = (state.get("waiting") or {}).get("reason"), state.get("terminated")
        if waiting:
            word = waiting
        elif ended:
            word = _ended_word(ended)
        elif container.get("ready") and state.get("running"):
            running = True
            counts.ready += 1
    if word == "Completed" and running:
        return "Running" if _condition(status, "Ready").get("status") == "True" else "NotReady"
    return word


def _ended_word(ended: Manifest) -> str:
    if ended.get("reason"):
        return str(ended["reason"])
    return f"Signal:{ended['signal']}" if ended.get("signal") else f"ExitCode:{ended.get('exitCode', 0)}"


def _with_deletion(pod: Manifest, status: Manifest, word: str) -> str:
    if not pod["metadata"].get("deletionTimestamp"):
        return word
    if status.get("reason") == "NodeLost":
        return "Unknown"
    return word if status.get("phase") in _ENDED else "Terminating"


def _condition(status: Manifest, kind: str) -> dict[str, Any]:
    return next((one for one in status.get("conditions") or () if one.get("type") == kind), {})


def pod_ip(pod: Manifest) -> str:
    """Return the pod's address."""
    status = pod.get("status") or {}
    addresses = status.get("podIPs") or ()
    return str((addresses[0].get("ip") if addresses else status.get("podIP")) or NONE)


def readiness_gates(pod: Manifest) -> str:
    """Return how many of the pod's readiness gates are open."""
    gates = (pod.get("spec") or {}).get("readinessGates") or ()
    if not gates:
        return NONE
    status = pod.get("status") or {}
    opened = sum(_condition(status, gate["conditionType"]).get("status") == "True" for gate in gates)
    return f"{opened}/{len(gates)}"
