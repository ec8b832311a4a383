"""A pod of the process runtime: its directory, addresses, tokens and running containers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from volcanoio.localcluster.processes.execution import Run
from volcanoio.localcluster.processes.hosts import Host
from volcanoio.localcluster.processes.sandbox import Sandbox, hostname_of
from volcanoio.model.base import Manifest

LOCALHOST = "127.0.0.1"


@dataclass(slots=True)
class RunningPod:
    """A pod that runs.

    `tokens` are its service account's by audience, issued at `tokens_at` (seconds of the loop's clock).
    """

    manifest: Manifest
    sandbox: Sandbox
    runs: dict[str, Run] = field(default_factory=dict)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    tokens: Mapping[str, str] | None = None
    tokens_at: float = 0.0

    @property
    def address(self) -> str:
        """Address of the pod's ports."""
        return str(self.manifest["status"]["podIP"])

    @property
    def running(self) -> bool:
        """Whether any of the pod's containers runs."""
        return any(run.running for run in self.runs.values())


def with_addresses(manifest: Manifest, pod_ip: str, host_ip: str) -> Manifest:
    """Return a pod's manifest with the addresses it will have; localhost on the host network."""
    address = LOCALHOST if manifest["spec"].get("hostNetwork") else pod_ip
    return {**manifest, "status": {**(manifest.get("status") or {}), "podIP": address, "hostIP": host_ip}}


def host_of(pod: Manifest) -> Host:
    """Return the network entry of a pod."""
    meta, spec = pod["metadata"], pod["spec"]
    return Host(
        meta["namespace"],
        meta["name"],
        pod["status"]["podIP"],
        hostname_of(pod),
        spec.get("subdomain") or "",
        meta.get("labels") or {},
        tuple((one["ip"], tuple(one.get("hostnames") or ())) for one in spec.get("hostAliases") or ()),
    )
