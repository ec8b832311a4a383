"""Hollow nodes: the simulated nodes of a local cluster, registered with any cluster of a kubeconfig.

One process and one identity serve all kubelets. Before the first write, the server is asked whether this identity has
the rights of kubelets, so that a missing permission is reported instead of nodes that stay NotReady.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

from volcanoio.compose.options import DEFAULT_RESOURCES, OptionError
from volcanoio.kube.credentials.reviews import Action, may
from volcanoio.kube.transport import Transport
from volcanoio.localcluster.clock import RunningClock
from volcanoio.localcluster.nodes.devices import NodeDevicesError, parse_node_devices
from volcanoio.localcluster.nodes.fleet import FleetOptions, NodeFleet
from volcanoio.localcluster.nodes.hollow import NodeResourcesError, NodeShape, parse_node_resources
from volcanoio.localcluster.nodes.registration import LEASE_NAMESPACE

_PREFIX = re.compile(r"[a-z0-9]([-a-z0-9]{0,48}[a-z0-9])?")


@dataclass(frozen=True, kw_only=True)
class HollowOptions:
    """Options: `count` nodes called `prefix`-0 and up, with `kubelet_lag` seconds before kubelets observe changes.

    Time is real, because the other components of the cluster do not follow a virtual clock.
    """

    count: int = 4
    prefix: str = "hollow"
    node_resources: str = DEFAULT_RESOURCES
    node_devices: str = ""
    kubelet_lag: float = 0.0

    def shapes(self) -> tuple[NodeShape, ...]:
        """Return the nodes; raises OptionError."""
        if not _PREFIX.fullmatch(self.prefix):
            raise OptionError(
                f"--prefix: {self.prefix!r} cannot begin names of nodes; "
                "use at most 50 lower-case letters, digits and '-', beginning and ending with a letter or digit"
            )
        try:
            offered = parse_node_resources(self.node_resources)
            devices = parse_node_devices(self.node_devices)
        except (NodeResourcesError, NodeDevicesError) as error:
            raise OptionError(str(error)) from None
        return tuple(NodeShape(f"{self.prefix}-{index}", offered).equipped(devices) for index in range(self.count))


class Permission(NamedTuple):
    """A right that the nodes need: verbs on a resource, `group` "" for core, in one namespace or ("") in all."""

    verbs: tuple[str, ...]
    group: str
    resource: str
    namespace: str = ""

    def action(self, verb: str) -> Action:
        """Return one of its verbs on the resource."""
        return Action(verb, self.group, self.resource, self.namespace)

    def __str__(self) -> str:
        where = f" in namespace {self.namespace}" if self.namespace else ""
        return f"{'/'.join(self.verbs)} {self.resource}{f'.{self.group}' if self.group else ''}{where}"


PERMISSIONS: tuple[Permission, ...] = (
    Permission(("create", "list", "watch", "patch", "delete"), "", "nodes"),
    Permission(("patch",), "", "nodes/status"),
    Permission(("create", "patch", "delete"), "coordination.k8s.io", "leases", LEASE_NAMESPACE),
    Permission(("get", "list", "watch", "delete"), "", "pods"),
    Permission(("patch",), "", "pods/status"),
    Permission(("create",), "", "pods/eviction"),
    Permission(("get",), "", "configmaps"),
    Permission(("get",), "", "secrets"),
    Permission(("get",), "", "persistentvolumeclaims"),
    Permission(("create", "patch"), "", "events"),
)
"""The rights of the nodes; config/rbac/hollow-nodes.yaml grants them."""


class MissingPermissionsError(Exception):
    """The identity of the kubeconfig may not do what nodes do; `rights` says what."""

    def __init__(self, rights: tuple[Permission, ...]) -> None:
        super().__init__("; ".join(map(str, rights)))
        self.rights = rights


async def check_permissions(transport: Transport) -> None:
    """Ask the server about each of PERMISSIONS. Raises MissingPermissionsError, ApiError and TransportError."""
    denied = [
        right._replace(verbs=refused)
        for right in PERMISSIONS
        if (refused := tuple([verb for verb in right.verbs if not await may(transport, right.action(verb))]))
    ]
    if denied:
        raise MissingPermissionsError(tuple(denied))


def hollow_fleet(transport: Transport, options: HollowOptions) -> NodeFleet:
    """Return the nodes as a fleet whose `run` serves until cancelled. Raises OptionError."""
    fleet = FleetOptions(kubelet_lag=options.kubelet_lag, name=f"hollow-{options.prefix}")
    return NodeFleet(transport, options.shapes(), RunningClock(), fleet)
