"""Extended resources that device classes back: they are claimed, and not counted as resources of nodes.

A resource is backed while no node has any of it itself: kube-scheduler decides that for each node, so nodes with a
device plugin and nodes with devices of one resource can only be used together there.
"""

from collections.abc import Mapping

from volcanoio.engine.scheduling.claims.device_claims import DEVICE_CLAIMS
from volcanoio.engine.scheduling.cluster.ledger import Ledger
from volcanoio.engine.scheduling.config.profile import Profile
from volcanoio.model import kinds
from volcanoio.model.dynamic_resources.extended_resources import backing_classes
from volcanoio.model.dynamic_resources.objects import DeviceClass

DEVICE_CLASSES = kinds.DEVICE_CLASS.resource


class ExtendedResources:
    """Decides which resources of nodes are ignored, and which of these are claimed as devices."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._classes: dict[str, str] = {}
        self._seen = -1

    def update(self, profile: Profile) -> bool:
        """Follow the profile, classes and nodes before a cycle; return whether that could alter a decision."""
        ledger = self._ledger
        backing = self._backing(profile)
        ignored = profile.ignored_resources.union(backing)
        is_changed = (ignored, profile.per_device_resources) != (ledger.ignored_resources, ledger.per_device_resources)
        if not is_changed and backing == ledger.device_claims.backing:
            return False
        ledger.device_claims.backing = backing
        if is_changed:
            ledger.set_resource_rules(ignored, frozenset(backing), profile.per_device_resources)
        return True

    def _backing(self, profile: Profile) -> Mapping[str, str]:
        """Return the class of each resource that is backed."""
        if not {DEVICE_CLAIMS, DEVICE_CLASSES} <= profile.watches:
            return {}
        inputs, columns = self._ledger.inputs, self._ledger.columns
        if (version := inputs.version(DEVICE_CLASSES)) != self._seen:
            self._seen = version
            objects = inputs.objects(DEVICE_CLASSES).values()
            self._classes = backing_classes(each for each in objects if isinstance(each, DeviceClass))
        return {name: each for name, each in self._classes.items() if not columns.has_resource(name)}
