"""What scheduling reads of the volume claims of pods. A shape has them as values, alike for alike claims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec

from volcanoio.framework.scheduling.podterms import Tally
from volcanoio.model.core import NodeSelectorTerm, Requirement

if TYPE_CHECKING:
    from volcanoio.framework.scheduling.views import Task


class BoundVolume(msgspec.Struct, frozen=True, kw_only=True):
    """The volume a claim is bound to, as far as it matters for nodes.

    `reach` are the terms of its node affinity, None where every node can reach it; `zones` its labels of zone and
    region; `attached` the nodes to which it is attached, where it is not one more volume.
    """

    reach: tuple[NodeSelectorTerm, ...] | None = None
    zones: tuple[tuple[str, str], ...] = ()
    attached: tuple[str, ...] = ()


class VolumeClaim(msgspec.Struct, frozen=True, kw_only=True):
    """A claim of a pod. It names neither pod nor claim unless that matters: `key` (`namespace/name`) is "" for a claim
    of one pod alone.

    `fault` is why no node will do, whatever else is said. `volume` is None while it is not bound; then `waits` says
    that its class lets it wait for a pod, `selected` the node for which a volume is being made already, and `reserved`
    the volume that names the claim. `driver` is that of its volume, or its class's provisioner. `size` is in bytes.
    """

    fault: str = ""
    key: str = ""
    volume: BoundVolume | None = None
    waits: bool = False
    storage_class: str = ""
    access_modes: tuple[str, ...] = ()
    volume_mode: str = ""
    size: int = 0
    selector: tuple[Requirement, ...] | None = None
    selected: str = ""
    reserved: str = ""
    driver: str = ""


class VolumesView(Protocol):
    """The claims of tasks, and where volumes are in use."""

    def claims(self, task: Task) -> Sequence[tuple[str, VolumeClaim]]:
        """The claims of a task by key, in the order of its volumes."""
        ...

    def used_on(self, claim: str) -> Mapping[str, int]:
        """By node how many tasks on it use a claim."""
        ...

    def waiting(self, claim: str) -> int:
        """How many tasks that wait for a node name a claim."""
        ...

    def in_use(self, driver: str) -> Tally:
        """How many volumes of a driver are used or attached on which node; the same one for a driver always."""
        ...
