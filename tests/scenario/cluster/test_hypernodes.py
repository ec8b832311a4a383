"""HyperNodes in a local cluster: discovered from node labels and from a UFM server, counted, and checked."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
from aiohttp import web

from tests.scenario.cluster.harness import Cluster, cluster
from tests.unit.hypernodes.topology import TWO_TIERS
from tests.unit.runtime.metrics_server import server
from volcanoio.kube.errors import ApiError
from volcanoio.model import kinds
from volcanoio.model.base import Manifest
from volcanoio.model.nodes import HyperNode


async def configure(local: Cluster, text: str) -> None:
    meta = {"name": "volcano-controller-configmap", "namespace": "volcano-system"}
    data = {"volcano-controller.conf": text}
    await local.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data})


async def label(local: Cluster, node: str, **labels: str) -> None:
    named = {f"example.com/{key}": value for key, value in labels.items()}
    await local.client.patch(kinds.NODE, node, {"metadata": {"labels": named}})


async def trees(local: Cluster, expected: dict[tuple[int, str], int]) -> dict[str, HyperNode]:
    """Wait until there are HyperNodes with these tiers and label values, and these node counts."""

    def found(all_: dict[str, HyperNode]) -> bool:
        shown = {(each.spec.tier, _value(each)): each.status.node_count for each in all_.values()}
        return len(all_) == len(expected) and shown == expected

    return await local.until(kinds.HYPER_NODE, HyperNode, found, f"HyperNodes {expected}")


def _value(hyper_node: HyperNode) -> str:
    labels = hyper_node.metadata.labels
    return next((value for key, value in labels.items() if key.startswith("example.com/")), hyper_node.metadata.name)


async def test_labelled_nodes_become_hyper_nodes_that_follow_them() -> None:
    async with cluster(nodes=4) as local:
        await configure(local, TWO_TIERS)
        for number, rack in enumerate(("r0", "r0", "r1", "r1")):
            await label(local, f"node-{number}", rack=rack, spine="s0")
        await trees(local, {(1, "r0"): 2, (1, "r1"): 2, (2, "s0"): 4})
        await local.client.delete(kinds.NODE, "node-3")
        await trees(local, {(1, "r0"): 2, (1, "r1"): 1, (2, "s0"): 3})
        await label(local, "node-2", rack="r0")
        await trees(local, {(1, "r0"): 3, (2, "s0"): 3})
        await label(local, "node-2", spine="s1")
        (event, *_) = await local.events("node-2", "NetworkTopologyConflict")
        assert "give the nodes of one domain the same value" in event.message


async def test_a_fabric_is_listed_with_the_credentials_of_a_secret() -> None:
    async def ports(request: web.Request) -> web.Response:
        if request.headers.get("Authorization") != "Basic " + base64.b64encode(b"admin:secret").decode():
            return web.Response(status=401)
        hosts = {"node-0": "leaf-a", "node-1": "leaf-a", "node-2": "leaf-b", "elsewhere": "leaf-b"}
        named = [{"system_name": node, "peer_node_name": leaf} for node, leaf in hosts.items()]
        return web.json_response([{"description": "Computer IB Port", **each} for each in named])

    async with server(ports) as address, cluster(nodes=3) as local:
        plain = {"username": "admin", "password": "secret"}
        data = {key: base64.b64encode(value.encode()).decode() for key, value in plain.items()}
        meta = {"name": "ufm", "namespace": "volcano-system"}
        await local.create({"apiVersion": "v1", "kind": "Secret", "metadata": meta, "data": data})
        await configure(
            local,
            "networkTopologyDiscovery:\n- source: ufm\n  enabled: true\n"
            f"  config: {{endpoint: '{address}'}}\n  credentials: {{secretRef: {{name: ufm}}}}\n",
        )
        await trees(local, {(1, "leaf-hn-0"): 1, (1, "leaf-hn-1"): 2, (2, "spine-hn"): 3})


async def test_the_discovery_is_part_of_the_configuration_file(tmp_path: Path) -> None:
    conf = tmp_path / "volcano-controller.conf"
    conf.write_text("policies:\n- name: declared\n" + TWO_TIERS)
    async with cluster(nodes=1, controller_conf=conf) as local:
        await label(local, "node-0", rack="r0")
        await trees(local, {(1, "r0"): 1})


REFUSED: tuple[tuple[Manifest, str], ...] = (
    ({"tier": 1, "members": []}, "spec.members"),
    ({"members": [{"type": "Node", "selector": {"exactMatch": {"name": "n"}}}]}, "spec.tier"),
    ({"tier": -1, "members": [{"type": "Node", "selector": {"exactMatch": {"name": "n"}}}]}, "spec.tier"),
    ({"tier": 1, "members": [{"type": "Rack", "selector": {"exactMatch": {"name": "n"}}}]}, "spec.members[0].type"),
    ({"tier": 1, "members": [{"type": "Node", "selector": {"exactMatch": {"name": "N_"}}}]}, "exactMatch.name"),
    ({"tier": 1, "members": [{"type": "Node", "selector": {}}]}, "Either ExactMatch or RegexMatch or LabelMatch"),
    (
        {"tier": 1, "members": [{"type": "Node", "selector": {"exactMatch": {"name": "n"}, "labelMatch": {}}}]},
        "Only one of ExactMatch, RegexMatch, or LabelMatch",
    ),
    (
        {"tier": 1, "members": [{"type": "Node", "selector": {"regexMatch": {"pattern": "("}}}]},
        "spec.members[0].selector.regexMatch.pattern",
    ),
)


async def test_schema_rules_and_admission_refuse_what_no_tree_can_hold() -> None:
    async with cluster(nodes=0) as local:
        for spec, problem in REFUSED:
            meta = {"name": "h"}
            manifest = {"apiVersion": kinds.HYPER_NODE.api_version, "kind": "HyperNode", "metadata": meta, "spec": spec}
            with pytest.raises(ApiError) as refused:
                await local.create(manifest)
            assert problem in refused.value.message
