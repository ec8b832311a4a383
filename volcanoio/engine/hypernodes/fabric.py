"""HyperNodes from the ports that UFM (NVIDIA Unified Fabric Manager) lists for an InfiniBand fabric.

A port of a host has "Computer" in its description, the host as system and the leaf switch as peer. Hosts of one leaf
switch are a HyperNode of tier 1; leaf switches with a common host (rails) count as one. All are below one spine.
"""

from collections.abc import Iterable

import msgspec

from volcanoio.engine.hypernodes.nodes_by_hyper_node import HYPER_NODE, NODE
from volcanoio.engine.hypernodes.reconciliation import Desired, exact_member

PORTS_PATH = "/ufmRest/resources/ports"
"""Path of the list of ports."""
_HOST = "Computer"
LEAF_TIER, SPINE_TIER = 1, 2
LEAF_PREFIX, SPINE_NAME = "leaf-hn-", "spine-hn"
Links = tuple[tuple[str, str], ...]
"""Pairs of node and leaf switch, sorted."""


class PortsError(ValueError):
    """The list of ports cannot be read; the message says what is wrong."""


class _Port(msgspec.Struct):
    """The fields of a port that are read."""

    description: str | None = None
    system_name: str | None = None
    peer_node_name: str | None = None


def parse_ports(body: bytes) -> Links:
    """Return the links between hosts and leaf switches in the JSON list of ports. Raises PortsError."""
    try:
        ports = msgspec.json.decode(body, type=list[_Port])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise PortsError(f"the list of ports is not as UFM writes it: {error}") from None
    links = {
        (port.system_name, port.peer_node_name)
        for port in ports
        if _HOST in (port.description or "") and port.system_name and port.peer_node_name
    }
    return tuple(sorted(links))


def discover(links: Iterable[tuple[str, str]]) -> tuple[Desired, ...]:
    """Return a HyperNode for each group of leaf switches, and the spine above them; nothing without links."""
    leafs = _groups(links)
    found = [
        Desired(
            name=f"{LEAF_PREFIX}{number}",
            tier=LEAF_TIER,
            members=tuple(exact_member(NODE, node) for node in nodes),
        )
        for number, nodes in enumerate(leafs)
    ]
    if found:
        members = tuple(exact_member(HYPER_NODE, leaf.name) for leaf in found)
        found.append(Desired(name=SPINE_NAME, tier=SPINE_TIER, members=members))
    return tuple(found)


def _groups(links: Iterable[tuple[str, str]]) -> list[list[str]]:
    """Return the nodes of each group of leaf switches, sorted, by the first node."""
    leader: dict[str, str] = {}

    def find(leaf: str) -> str:
        while (above := leader.setdefault(leaf, leaf)) != leaf:
            leader[leaf] = leader.setdefault(above, above)
            leaf = above
        return leaf

    leaf_of: dict[str, str] = {}
    for node, leaf in sorted(links):
        if node in leaf_of:
            leader[find(leaf)] = find(leaf_of[node])
        else:
            leaf_of[node] = leaf
            find(leaf)
    groups: dict[str, list[str]] = {}
    for node, leaf in leaf_of.items():
        groups.setdefault(find(leaf), []).append(node)
    return sorted(sorted(nodes) for nodes in groups.values())
