"""A kubelet for the components: runs pods of one namespace as processes of sandboxes, as their specs say.

The pods come from the real Deployment and Job controllers and from the ServiceAccount admission of the real API
server. This kubelet binds them to its own node, since they have no scheduler here, and does to them what a kubelet
does: volumes, environment, probes, restarts, status, termination. An exited container is restarted after half a
second, where a kubelet waits up to minutes.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import re
import signal
import socket
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.realcluster.certificates import SERVICE_ADDRESS
from tests.realcluster.deployed.api import Api, Obj, RefusedError
from tests.realcluster.deployed.network import HOST_ADDRESS, Network
from tests.realcluster.deployed.sandbox import Container, Image, Mount, Sandbox
from tests.realcluster.deployed.volumes import PodVolumes, TokenIssuer, field_of

NODE = "components"
_LEASE_SECONDS = 10
_RESTART_SECONDS = 0.5
_POLL_SECONDS = 0.05
_STATUS = "application/strategic-merge-patch+json"


@dataclass
class ContainerState:
    """One container of a pod as it is now."""

    spec: Obj
    restarts: int = 0
    ready: bool = False
    started: str = ""
    exit_code: int | None = None
    sandbox: Sandbox | None = None


@dataclass
class Machine:
    """What all pods share."""

    api: Api
    network: Network
    tokens: TokenIssuer
    images: Mapping[str, Image]
    directory: Path


@dataclass
class Pod:
    """One pod: its processes and what is reported about them."""

    machine: Machine
    object: Obj
    address: str
    directory: Path
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    containers: dict[str, ContainerState] = field(default_factory=dict)
    _reported: Obj = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The pod's name."""
        return str(self.object["metadata"]["name"])

    @property
    def path(self) -> str:
        """Where the pod is in the API."""
        return f"/api/v1/namespaces/{self.object['metadata']['namespace']}/pods/{self.name}"

    async def run(self) -> None:
        """Run the pod from its start to its deletion."""
        volumes = PodVolumes(self.machine.api, self.machine.tokens, self.object, self.directory / "volumes")
        while not await volumes.populate() and not self.stopping.is_set():  # noqa: ASYNC110 - objects of the API
            await asyncio.sleep(_RESTART_SECONDS)
        keeping = asyncio.create_task(volumes.run())
        try:
            for spec in self.object["spec"].get("initContainers") or ():
                await self._until_done(spec)
            async with asyncio.TaskGroup() as tasks:
                for spec in self.object["spec"]["containers"]:
                    state = self.containers[spec["name"]] = ContainerState(spec)
                    tasks.create_task(self._container(state))
                tasks.create_task(self._report())
        finally:
            keeping.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await keeping
            for state in self.containers.values():
                if state.sandbox is not None:
                    state.sandbox.signal(signal.SIGKILL)
        body = {"gracePeriodSeconds": 0, "preconditions": {"uid": self.object["metadata"]["uid"]}}
        if self.stopping.is_set():
            await self.machine.api.persist("DELETE", self.path, body)

    async def _until_done(self, spec: Obj) -> None:
        """Run an init container until it succeeds."""
        while not self.stopping.is_set():
            state = ContainerState(spec)
            await self._start(state)
            assert state.sandbox is not None
            while (code := state.sandbox.poll()) is None:  # noqa: ASYNC110 - a process that was not made by asyncio
                await asyncio.sleep(_POLL_SECONDS)
            if code == 0:
                return
            await asyncio.sleep(_RESTART_SECONDS)

    async def _container(self, state: ContainerState) -> None:
        policy = self.object["spec"].get("restartPolicy", "Always")
        while not self.stopping.is_set():
            await self._start(state)
            async with asyncio.TaskGroup() as tasks:
                probing = tasks.create_task(self._probe(state))
                await self._ended(state)
                probing.cancel()
            state.ready = False
            done = policy == "Never" or (policy == "OnFailure" and state.exit_code == 0)
            if done and not self.stopping.is_set():
                await self._patch_status(phase="Succeeded" if state.exit_code == 0 else "Failed")
                await self.stopping.wait()
            if not self.stopping.is_set():
                state.restarts += 1
                await asyncio.sleep(_RESTART_SECONDS)

    async def _ended(self, state: ContainerState) -> None:
        """Return once the process has ended: by itself, or because the pod is deleted and its grace has passed."""
        sandbox = state.sandbox
        assert sandbox is not None
        asked, deadline = False, float("inf")
        while (code := sandbox.poll()) is None:
            if self.stopping.is_set() and not asked:
                asked = True
                grace = self.object["metadata"].get("deletionGracePeriodSeconds", 30)
                deadline = time.monotonic() + grace
                sandbox.signal(signal.SIGTERM)
            if time.monotonic() > deadline:
                sandbox.signal(signal.SIGKILL)
            await asyncio.sleep(_POLL_SECONDS)
        state.exit_code = code

    async def _start(self, state: ContainerState) -> None:
        """Start a container on a thread: the loop also carries the components' connections."""
        state.started = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        log = self.directory / f"{state.spec['name']}.log"
        container = resolve(self.machine, self.object, self.address, state.spec, self.directory / "volumes")
        state.sandbox = await asyncio.to_thread(
            Sandbox, self.machine.network, self.address, container, self.directory, log
        )

    async def _probe(self, state: ContainerState) -> None:
        """Probe as kubelets do: until the start-up probe succeeds neither of the others counts."""
        spec = state.spec
        if "startupProbe" in spec:
            await _until(spec["startupProbe"], self.address, spec, success=True)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._liveness(state))
            tasks.create_task(self._readiness(state))

    async def _liveness(self, state: ContainerState) -> None:
        if "livenessProbe" in state.spec:
            await _until(state.spec["livenessProbe"], self.address, state.spec, success=False)
            assert state.sandbox is not None
            state.sandbox.signal(signal.SIGTERM)
            await asyncio.sleep(self.object["spec"].get("terminationGracePeriodSeconds", 30))
            state.sandbox.signal(signal.SIGKILL)

    async def _readiness(self, state: ContainerState) -> None:
        probe = state.spec.get("readinessProbe")
        if probe is None:
            state.ready = True
            return
        while True:
            await _until(probe, self.address, state.spec, success=True)
            state.ready = True
            await _until(probe, self.address, state.spec, success=False)
            state.ready = False

    async def _report(self) -> None:
        """Keep the pod's status up to date until it is to end and all its containers have ended."""
        while True:
            states = self.containers.values()
            if self.stopping.is_set() and all(one.sandbox is None or one.sandbox.poll() is not None for one in states):
                return
            if not self.stopping.is_set() and self._reported.get("phase") not in {"Succeeded", "Failed"}:
                await self._patch_status(phase="Running")
            await asyncio.sleep(_POLL_SECONDS)

    async def _patch_status(self, *, phase: str) -> None:
        ready = phase == "Running" and all(one.ready for one in self.containers.values())
        flags = {"Ready": ready, "ContainersReady": ready, "Initialized": True, "PodScheduled": True}
        status: Obj = {
            "phase": phase,
            "hostIP": HOST_ADDRESS,
            "podIP": self.address,
            "podIPs": [{"ip": self.address}],
            "conditions": [{"type": name, "status": str(value)} for name, value in flags.items()],
            "containerStatuses": [_container_status(state) for state in self.containers.values()],
        }
        if status != self._reported:
            await self.machine.api.persist("PATCH", f"{self.path}/status", {"status": status}, content_type=_STATUS)
            self._reported = status

    def observe(self, stored: Obj) -> None:
        """Take over what is stored of the pod; a readiness that somebody else wrote is reported again.

        The node controller writes Ready=False into the pods of a node whose lease was not renewed.
        """
        self.object["metadata"] = stored["metadata"]
        if _readiness(stored.get("status", {})) != _readiness(self._reported):
            self._reported = {}


def _readiness(status: Obj) -> str:
    conditions = status.get("conditions") or ()
    return next((one["status"] for one in conditions if one["type"] == "Ready"), "")


def _container_status(state: ContainerState) -> Obj:
    ended = state.sandbox is not None and state.sandbox.poll() is not None
    running = {"running": {"startedAt": state.started}}
    stopped = {
        "terminated": {"exitCode": abs(state.exit_code or 0), "reason": "Error" if state.exit_code else "Completed"}
    }
    return {
        "name": state.spec["name"],
        "image": state.spec["image"],
        "imageID": state.spec["image"],
        "ready": state.ready,
        "started": not ended,
        "restartCount": state.restarts,
        "state": stopped if ended and state.exit_code is not None else running,
    }


class Kubelet:
    """The node of the components; `run` until cancelled."""

    def __init__(self, machine: Machine, namespace: str) -> None:
        self._machine = machine
        self._namespace = namespace
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self.pods: dict[str, Pod] = {}
        """The pods that run here, by uid."""

    async def run(self) -> None:
        """Register the node, renew its lease, and run the pods of the namespace."""
        await self._register()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._renew())
            async for kind, pod in self._machine.api.follow(f"/api/v1/namespaces/{self._namespace}/pods"):
                if kind != "SYNCED":
                    await self._observe(kind, pod, tasks)

    async def _observe(self, kind: str, pod: Obj, tasks: asyncio.TaskGroup) -> None:
        uid = pod["metadata"]["uid"]
        running = self.pods.get(uid)
        if running is not None:
            running.observe(pod)
        if kind == "DELETED" or "deletionTimestamp" in pod["metadata"]:
            if running is not None:
                running.stopping.set()
            elif kind != "DELETED":
                await self._machine.api.persist("DELETE", _path(pod), {"gracePeriodSeconds": 0})
        elif not pod["spec"].get("nodeName"):
            await self._bind(pod)
        elif pod["spec"]["nodeName"] == NODE and running is None and pod["status"].get("phase") == "Pending":
            directory = self._machine.directory / pod["metadata"]["name"]
            directory.mkdir(parents=True, exist_ok=True)
            made = self.pods[uid] = Pod(self._machine, pod, self._machine.network.address(), directory)
            self._tasks[uid] = tasks.create_task(self._whole(made, uid))

    async def _whole(self, pod: Pod, uid: str) -> None:
        try:
            await pod.run()
        finally:
            self.pods.pop(uid, None)
            self._tasks.pop(uid, None)

    async def _bind(self, pod: Obj) -> None:
        target = {"apiVersion": "v1", "kind": "Node", "name": NODE}
        name = {"name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": name, "target": target}
        with contextlib.suppress(RefusedError):
            await self._machine.api.persist("POST", f"{_path(pod)}/binding", body)

    async def _register(self) -> None:
        quantities = {"cpu": "8", "memory": "32Gi", "pods": "110"}
        node = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": NODE, "labels": {"node-role.kubernetes.io/control-plane": ""}},
            "spec": {"unschedulable": True},
        }
        await self._machine.api.persist("POST", "/api/v1/nodes", node)
        await self._report({"capacity": quantities, "allocatable": quantities})

    async def _report(self, status: Obj) -> None:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": now}
        await self._machine.api.persist(
            "PATCH",
            f"/api/v1/nodes/{NODE}/status",
            {"status": {**status, "conditions": [ready]}},
            content_type=_STATUS,
        )

    async def _renew(self) -> None:
        path = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
        lease: Obj = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": NODE}}
        lease["spec"] = {"holderIdentity": NODE, "leaseDurationSeconds": 40}
        await self._machine.api.persist("POST", path, lease)
        while True:
            spec = {"renewTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")}
            await self._machine.api.persist(
                "PATCH", f"{path}/{NODE}", {"spec": spec}, content_type="application/merge-patch+json"
            )
            await self._report({})  # after an outage the node controller has made it Unknown
            await asyncio.sleep(_LEASE_SECONDS)


def _path(pod: Obj) -> str:
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"


_REFERENCE = re.compile(r"\$\$|\$\((\w+)\)")


def resolve(machine: Machine, pod: Obj, address: str, spec: Obj, volumes: Path) -> Container:
    """Return what a container of a pod runs; raises LookupError for an image that is not in `machine.images`."""
    if spec["image"] not in machine.images:
        raise LookupError(f"{pod['metadata']['name']}: image {spec['image']} is none of {sorted(machine.images)}")
    image = machine.images[spec["image"]]
    variables = {"KUBERNETES_SERVICE_HOST": SERVICE_ADDRESS, "KUBERNETES_SERVICE_PORT": "443"}
    variables["HOSTNAME"] = pod["metadata"]["name"]
    for item in spec.get("env") or ():
        variables[item["name"]] = _value(pod, address, item, variables)
    if spec.get("envFrom"):
        raise NotImplementedError("envFrom is not one of the sources that this kubelet has")

    def expand(word: str) -> str:
        return _REFERENCE.sub(lambda m: "$" if m[0] == "$$" else variables.get(m[1], m[0]), word)

    command = [*(spec.get("command") or image.entrypoint), *(spec.get("args") or ())]
    context = {**(pod["spec"].get("securityContext") or {}), **(spec.get("securityContext") or {})}
    mounts = [
        Mount(_mounted(volumes, mount), mount["mountPath"], mount.get("readOnly", False))
        for mount in spec.get("volumeMounts") or ()
    ]
    return Container(
        command=[expand(word) for word in command],
        variables=variables,
        mounts=mounts,
        image=image,
        user=context.get("runAsUser", 65532 if context.get("runAsNonRoot") else 0),
        read_only_root=context.get("readOnlyRootFilesystem", False),
        directory=spec.get("workingDir", "/"),
    )


def _mounted(volumes: Path, mount: Obj) -> Path:
    return volumes / str(mount["name"]) / str(mount.get("subPath", ""))


def _value(pod: Obj, address: str, item: Obj, variables: Mapping[str, str]) -> str:
    if "valueFrom" not in item:
        return _REFERENCE.sub(lambda m: "$" if m[0] == "$$" else variables.get(m[1], m[0]), str(item.get("value", "")))
    source = item["valueFrom"]
    if "fieldRef" not in source:
        raise NotImplementedError(f"env {item['name']}: only fieldRef is one of the sources that this kubelet has")
    path = source["fieldRef"]["fieldPath"]
    known: dict[str, Any] = {"status.podIP": address, "status.hostIP": HOST_ADDRESS, "spec.nodeName": NODE}
    return str(known.get(path) or field_of(pod, path))


async def _until(probe: Obj, address: str, container: Obj, *, success: bool) -> None:
    """Probe until as many results in a row as the threshold are as `success` says."""
    await asyncio.sleep(probe.get("initialDelaySeconds", 0))
    wanted = probe.get("successThreshold" if success else "failureThreshold", 1 if success else 3)
    in_a_row = 0
    while in_a_row < wanted:
        passed = await asyncio.to_thread(_passes, probe, address, container)
        in_a_row = in_a_row + 1 if passed == success else 0
        if in_a_row < wanted:
            # A waiting start or readiness is polled more often than its period, which shortens the tests only.
            await asyncio.sleep(min(0.5, probe.get("periodSeconds", 10)) if success else probe.get("periodSeconds", 10))


def _passes(probe: Obj, address: str, container: Obj) -> bool:
    seconds = probe.get("timeoutSeconds", 1)
    kind = next((key for key in ("httpGet", "tcpSocket", "exec") if key in probe), "none")
    if kind in {"exec", "none"}:
        raise NotImplementedError(f"probe {sorted(probe)}: only httpGet and tcpSocket are done here")
    ports = {port.get("name"): port["containerPort"] for port in container.get("ports") or ()}
    port = ports.get(probe[kind]["port"], probe[kind]["port"])
    try:
        if kind == "tcpSocket":
            socket.create_connection((address, int(port)), seconds).close()
            return True
        asked = probe["httpGet"]
        if asked.get("scheme", "HTTP") == "HTTPS":
            tls = ssl._create_unverified_context()  # kubelets do not verify either
            connection: http.client.HTTPConnection = http.client.HTTPSConnection(
                address, int(port), timeout=seconds, context=tls
            )
        else:
            connection = http.client.HTTPConnection(address, int(port), timeout=seconds)
        with contextlib.closing(connection):
            connection.request("GET", asked.get("path", "/"))
            return 200 <= connection.getresponse().status < 400
    except (OSError, http.client.HTTPException):
        return False
