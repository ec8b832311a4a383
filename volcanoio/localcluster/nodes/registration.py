"""Nodes make themselves known and keep their Leases fresh."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import anyio
import msgspec
import structlog

import volcanoio
from volcanoio.kube.transport import ContentType, Response, Transport, TransportError
from volcanoio.localcluster.clock import Clock, rfc3339
from volcanoio.localcluster.nodes.addresses import host_address
from volcanoio.localcluster.nodes.shapes import NodeShape
from volcanoio.model.base import ApiObject, Manifest, Model
from volcanoio.model.kinds import LEASE, NODE

_log = structlog.get_logger(__name__)
LEASE_NAMESPACE = "kube-node-lease"
LEASE_SECONDS = 40
SIMULATED = "sim.volcanoio.dev/node"
"""The label of simulated nodes; its value is the name of their fleet."""
LOCAL = "true"
"""The fleet of a local cluster."""
_RENEW_EVERY = 10.0
_RENEW_LEAST = 1.0
_RETRY = 0.5
_AT_ONCE = 16
_DELETE: Manifest = {"apiVersion": "v1", "kind": "DeleteOptions"}


class _NodeList(Model):
    items: tuple[ApiObject, ...] = ()


def node_manifest(shape: NodeShape, index: int, now: float, fleet: str = LOCAL) -> Manifest:
    """The Node object of a shape, Ready. Labels and annotation are those by which kwok's nodes are known, and ours."""
    moment = rfc3339(now)
    conditions = [
        {"type": kind, "status": status, "reason": reason, "lastHeartbeatTime": moment, "lastTransitionTime": moment}
        for kind, status, reason in (
            ("Ready", "True", "KubeletReady"),
            ("MemoryPressure", "False", "KubeletHasSufficientMemory"),
            ("DiskPressure", "False", "KubeletHasNoDiskPressure"),
            ("PIDPressure", "False", "KubeletHasSufficientPID"),
        )
    ]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": shape.name,
            "labels": {
                "kubernetes.io/hostname": shape.name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                "type": "kwok",
                SIMULATED: fleet,
                **shape.labels,
            },
            "annotations": {"kwok.x-k8s.io/node": "fake"},
        },
        "status": {
            "capacity": dict(shape.resources),
            "allocatable": dict(shape.resources),
            "conditions": conditions,
            "addresses": [
                {"type": "InternalIP", "address": host_address(index)},
                {"type": "Hostname", "address": shape.name},
            ],
            "nodeInfo": {
                "architecture": "amd64",
                "operatingSystem": "linux",
                "osImage": "simulated",
                "kernelVersion": "simulated",
                "containerRuntimeVersion": "simulated://0",
                "kubeletVersion": f"v1.32.0+volcanoio-{volcanoio.__version__}",
                "kubeProxyVersion": "",
                "bootID": "",
                "machineID": "",
                "systemUUID": "",
            },
        },
    }


class Registration:
    """Registers the nodes of a fleet, removes those it no longer has, and renews Leases."""

    def __init__(self, transport: Transport, clock: Clock, shapes: Sequence[NodeShape], fleet: str = LOCAL) -> None:
        self._transport = transport
        self._clock = clock
        self._shapes = shapes
        self._fleet = fleet

    async def register(self) -> tuple[bool, frozenset[str]]:
        """Create or refresh all nodes, waiting for the server if need be.

        Returns whether any was there already, and the names of simulated nodes that were removed because this fleet
        does not have them.
        """
        existed: list[bool] = []
        limiter = anyio.CapacityLimiter(_AT_ONCE)

        async def one(shape: NodeShape, index: int) -> None:
            async with limiter:
                existed.append(await self._register(shape, index))

        async with anyio.create_task_group() as tasks:
            for index, shape in enumerate(self._shapes):
                tasks.start_soon(one, shape, index)
        return any(existed), await self._remove_others()

    async def _register(self, shape: NodeShape, index: int) -> bool:
        manifest = node_manifest(shape, index, self._clock.now(), self._fleet)
        path = NODE.path(name=shape.name)
        created = (await self._insist("POST", NODE.path(), manifest)).status == 201
        if not created:
            await self._insist("PATCH", path, {"metadata": manifest["metadata"]})
        await self._insist("PATCH", f"{path}/status", {"status": manifest["status"]})
        await self._insist("POST", LEASE.path(LEASE_NAMESPACE), self._lease(shape.name))
        return not created

    def _lease(self, name: str) -> Manifest:
        spec: dict[str, Any] = {"holderIdentity": name, "leaseDurationSeconds": LEASE_SECONDS, **self._renewal()}
        metadata = {"name": name, "namespace": LEASE_NAMESPACE}
        return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}

    def _renewal(self) -> dict[str, str]:
        moment = datetime.fromtimestamp(self._clock.now(), UTC)
        return {"renewTime": moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")}

    async def _insist(
        self, method: str, path: str, body: Manifest | None = None, query: Mapping[str, str] | None = None
    ) -> Response:
        """Send until there is a definite answer."""
        content_type = ContentType.MERGE_PATCH if method == "PATCH" else ContentType.JSON
        data = b"" if body is None else msgspec.json.encode(body)
        while True:
            try:
                response = await self._transport.request(
                    method, path, query=query, body=data, content_type=content_type
                )
            except TransportError as error:
                _log.info("waiting for the API server", error=str(error))
            else:
                if response.status < 500 and response.status != 429:
                    if not response.ok and response.status not in (404, 409):
                        _log.error("refused", method=method, path=path, code=response.status, body=response.body[:300])
                    return response
            await self._clock.sleep_until(self._clock.now() + _RETRY)

    async def _remove_others(self) -> frozenset[str]:
        ours = {shape.name for shape in self._shapes}
        response = await self._insist("GET", NODE.path(), query={"labelSelector": f"{SIMULATED}={self._fleet}"})
        if not response.ok:
            return frozenset()
        listed = msgspec.json.decode(response.body, type=_NodeList).items
        others = frozenset(node.metadata.name for node in listed) - ours
        for name in sorted(others):
            await self._insist("DELETE", NODE.path(name=name), _DELETE)
            await self._insist("DELETE", LEASE.path(LEASE_NAMESPACE, name), _DELETE)
        return others

    async def renew(self) -> None:
        """Renew all Leases for ever, spread over the interval so that no moment has all the writes."""
        interval = max(_RENEW_LEAST, _RENEW_EVERY / self._clock.speed)
        due = self._clock.now() + interval
        while True:
            for index, shape in enumerate(self._shapes):
                await self._clock.sleep_until(due + interval * index / len(self._shapes))
                await self._renew(shape.name)
            due += interval
            await self._clock.sleep_until(due)

    async def _renew(self, name: str) -> None:
        body = msgspec.json.encode({"spec": self._renewal()})
        path = LEASE.path(LEASE_NAMESPACE, name)
        try:
            response = await self._transport.request("PATCH", path, body=body, content_type=ContentType.MERGE_PATCH)
        except TransportError:
            return  # the next renewal comes soon enough
        if response.status == 404:
            await self._insist("POST", LEASE.path(LEASE_NAMESPACE), self._lease(name))
