"""A cluster with our components installed in it, as scenarios see it: everything together, called synchronously."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import os
import re
import signal
import ssl
import subprocess
import threading
import time
import urllib.request
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import jwt
import pytest
import yaml

from tests.contract.support import Cluster
from tests.realcluster.certificates import SERVICE_ADDRESS
from tests.realcluster.controlplane import READY_SECONDS, ControlPlane
from tests.realcluster.deployed.api import Api, Obj
from tests.realcluster.deployed.audit import AuditLog, Call, Grant, grants
from tests.realcluster.deployed.faultproxy import BINDING, Fault, FaultProxy, WatchFault
from tests.realcluster.deployed.installation import ROOT
from tests.realcluster.deployed.invariants import Invariants
from tests.realcluster.deployed.kubelet import Kubelet, Machine, Pod
from tests.realcluster.deployed.network import Forwarder, Network, ServiceProxy
from tests.realcluster.deployed.sandbox import Image
from tests.realcluster.deployed.volumes import TokenIssuer

T = TypeVar("T")
NAMESPACE = "volcano-system"
COMPONENTS = ("volcano-scheduler", "volcano-controllers", "volcano-admission")
USERS = (*(f"system:serviceaccount:{NAMESPACE}:{name}" for name in COMPONENTS), "hollow-nodes")
SCHEDULER_MAP, SCHEDULER_KEY = "volcano-scheduler-configmap", "volcano-scheduler.conf"
WAIT_SECONDS = 60.0
RELOAD_SECONDS = 2.0
"""Within which a changed file is in effect."""
_POLL_SECONDS = 0.1
TOKEN_SECONDS = 150
"""Life of the components' tokens: several of them expire during a run."""


class Background:
    """An event loop on a thread of its own."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="harness", daemon=True)
        self._thread.start()
        self._running: list[Future[None]] = []

    def call(self, work: Coroutine[Any, Any, T], seconds: float = WAIT_SECONDS) -> T:
        """Run a coroutine to its end and return its result."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(seconds)

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine until `stop`; `check` raises what ended it."""
        self._running.append(asyncio.run_coroutine_threadsafe(work, self.loop))

    def check(self) -> None:
        """Raise the error of a part that has ended."""
        for one in self._running:
            if one.done():
                one.result()

    def stop(self) -> None:
        """Cancel everything and end the thread."""
        for one in self._running:
            one.cancel()
        self.call(asyncio.sleep(0.5))
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(10)


class HollowNodes:
    """`volcanoio hollow-nodes` of an environment, as a process with a user of its own."""

    def __init__(self, image: Image, kubeconfig: Path, log: Path) -> None:
        self._program = image.environment / "bin" / "volcanoio"
        self._kubeconfig, self._log = kubeconfig, log
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, count: int, resources: str) -> None:
        """Serve so many nodes."""
        words = ["hollow-nodes", f"--kubeconfig={self._kubeconfig}", f"--count={count}", "--prefix=hollow"]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [str(self._program), *words, f"--node-resources={resources}"],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                cwd=self._log.parent,
                start_new_session=True,
            )

    def stop(self) -> None:
        """End the process; the nodes stay."""
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()


@dataclass
class World:
    """The cluster. `images` says which environment each image of a manifest stands for."""

    plane: ControlPlane
    network: Network
    directory: Path
    images: Mapping[str, Image]
    audit: AuditLog
    image: str = ""
    """The image of this tree."""
    rendered: Mapping[str, list[Path]] = field(default_factory=dict)
    """Where each form of the manifests is: `deploy` and `helm`, and `earlier`, `deploy` of the earlier version."""
    measured: dict[str, Any] = field(default_factory=dict)
    """Figures for the record, by scenario."""

    def __post_init__(self) -> None:
        self.cluster = Cluster.of(self.plane.kubeconfig)
        self.background = Background()
        trusted = ssl.create_default_context(cadata=self.plane.authority.read_text())
        serving = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        serving.load_cert_chain(self.plane.files.server_certificate, self.plane.files.server_key)
        self.api = Api(self.plane.url, trusted, self.plane.token)
        self.nodes: HollowNodes | None = None
        self.tokens = TokenIssuer(self.api, self.plane.files.signing_key.read_bytes(), TOKEN_SECONDS)
        pods = self.directory / "pods"
        pods.mkdir()
        self.kubelet = Kubelet(Machine(self.api, self.network, self.tokens, self.images, pods), NAMESPACE)
        self.services = ServiceProxy(self.api, NAMESPACE)
        self.invariants = Invariants(self.api)
        self.faults = FaultProxy(self.plane.url, trusted, serving)
        self.faults.on_fault = self._struck
        self._through_proxy = False
        self._verified = 0
        """Up to which position of the audit log calls were looked at."""
        self._front = Forwarder(self._behind)

    def start(self) -> None:
        """Start everything of the harness; nothing of ours is installed yet."""
        self.background.call(self.faults.start())
        self.background.call(self._front.listen(SERVICE_ADDRESS, 443))
        for work in (self.kubelet.run(), self.services.run(), self.invariants.run()):
            self.background.begin(work)

    def stop(self) -> None:
        """End all processes."""
        if self.nodes is not None:
            self.nodes.stop()
        self.background.stop()
        for pod in self.pods():
            for state in pod.containers.values():
                if state.sandbox is not None:
                    state.sandbox.signal(signal.SIGKILL)
        self.cluster.close()

    def _behind(self) -> tuple[str, int] | None:
        """Return where connections of the components to the API server go."""
        return "127.0.0.1", self.faults.port if self._through_proxy else self.plane.ports.apiserver

    # -- what users do

    def kubectl(self, *words: str, stdin: str = "", check: bool = True) -> str:
        """Run kubectl as the administrator; returns its output."""
        ran = subprocess.run(
            ["kubectl", *words],
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "KUBECONFIG": str(self.plane.kubeconfig)},
        )
        assert not check or ran.returncode == 0, f"kubectl {' '.join(words)}: {ran.stderr or ran.stdout}"
        return ran.stdout + ("" if check else ran.stderr)

    def apply(self, *manifests: Obj | Path, namespace: str = "default") -> None:
        """Apply objects, or files of them, as kubectl does."""
        for one in manifests:
            if isinstance(one, Path):
                self.kubectl("apply", "--server-side", "-n", namespace, "-f", str(one))
            else:
                self.kubectl("apply", "--server-side", "-n", namespace, "-f", "-", stdin=json.dumps(one))

    def get(self, kind: str, name: str = "", namespace: str = "default") -> Obj:
        """Return an object, or a list of them."""
        found: Obj = json.loads(self.kubectl("get", kind, *filter(None, [name]), "-n", namespace, "-o", "json"))
        return found

    def jobs(self, namespace: str) -> dict[str, Obj]:
        """Return the Volcano jobs of a namespace by name."""
        path = f"/apis/batch.volcano.sh/v1alpha1/namespaces/{namespace}/jobs"
        return {one["metadata"]["name"]: one for one in self.cluster.get(path).ok()["items"]}

    def phases(self, namespace: str) -> dict[str, str]:
        """Return the phase of each Volcano job of a namespace."""
        return {
            name: job.get("status", {}).get("state", {}).get("phase", "") for name, job in self.jobs(namespace).items()
        }

    def pods_of(self, namespace: str) -> dict[str, Obj]:
        """Return the pods of a namespace by name, as the server has them now."""
        listed = self.cluster.get(f"/api/v1/namespaces/{namespace}/pods").ok()
        return {one["metadata"]["name"]: one for one in listed["items"]}

    def until(self, condition: Callable[[], Any], what: str | Callable[[], str], seconds: float = WAIT_SECONDS) -> Any:
        """Return the first true result; fails after `seconds` with `what`, and when a part of the harness broke."""
        deadline = time.monotonic() + seconds
        refused: Exception | None = None
        while True:
            self.background.check()
            try:
                if found := condition():
                    return found
                refused = None
            except (OSError, http.client.HTTPException, AssertionError) as error:  # the API server may be away
                refused = error
            if time.monotonic() > deadline:
                wanted = what if isinstance(what, str) else _described(what)
                pytest.fail(f"not within {seconds:g} s: {wanted}; {refused or ''}\n{self.components()}")
            time.sleep(_POLL_SECONDS)

    # -- the components

    def install(self, form: str = "deploy") -> float:
        """Apply the rendered manifests and wait for all replicas; returns the seconds until they were ready."""
        begun = time.monotonic()
        self.invariants.disturbed()
        crds = sorted((ROOT / "config" / "crds").glob("*.yaml"))
        words = [word for path in crds for word in ("-f", str(path))]
        self.kubectl("apply", "--server-side", "--force-conflicts", *words)
        wait = ("wait", "--for=condition=Established", "--timeout=60s", "crd", "--all")
        self.until(lambda: "error" not in self.kubectl(*wait, check=False), "the definitions are established")
        for path in self.rendered[form]:
            self.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(path))
        self.rolled_out()
        return time.monotonic() - begun

    def join_nodes(self, count: int, resources: str) -> None:
        """Serve simulated nodes with the rights of config/rbac/hollow-nodes.yaml, and wait until they are ready."""
        self.apply(ROOT / "config" / "rbac" / "hollow-nodes.yaml")
        name = "hollow-nodes"
        role = "--clusterrole=volcanoio-hollow-nodes"
        self.kubectl("create", "clusterrolebinding", name, role, f"--user={name}")
        kubeconfig = self.plane.kubeconfig_for(name, (), self.directory / "hollow-nodes.kubeconfig")
        self.nodes = HollowNodes(self.images[self.image], kubeconfig, self.directory / "hollow-nodes.log")
        self.nodes.start(count, resources)
        self.kubectl("wait", "--for=create", "--timeout=60s", f"node/hollow-{count - 1}")
        self.kubectl("wait", "--for=condition=Ready", "--timeout=60s", "node", "--all")

    def rolled_out(self, seconds: int = 240) -> None:
        """Wait until each Deployment has its replicas, ready and of its newest template."""
        for name in COMPONENTS:
            said = self.kubectl(
                "rollout", "status", f"deployment/{name}", "-n", NAMESPACE, f"--timeout={seconds}s", check=False
            )
            assert "successfully rolled out" in said, f"{name}: {said}\n{self.components()}"

    def ready(self) -> None:
        """Wait until nothing of an earlier scenario occupies the nodes, and every component's replica is ready."""
        self.rolled_out()
        system = (NAMESPACE, "kube-system")
        mine = self.invariants.pods
        self.until(
            lambda: all(pod["metadata"]["namespace"] in system for pod in list(mine.values())), "no pods are left", 180
        )

    def emptied(self, namespace: str) -> None:
        """Delete the jobs and pods of a namespace and the namespace itself; `ready` waits for its pods."""
        self.kubectl("delete", "jobs.batch.volcano.sh", "--all", "-n", namespace, "--wait=false", check=False)
        self.kubectl("delete", "pods", "--all", "-n", namespace, "--wait=false", "--grace-period=1", check=False)
        self.kubectl("delete", "namespace", namespace, "--wait=false", check=False)

    @contextlib.contextmanager
    def scheduler_configuration(self, text: str) -> Iterator[None]:
        """Change the scheduler's ConfigMap and wait until every replica has the new file; afterwards change it back."""
        kept = self.get("configmap", SCHEDULER_MAP, NAMESPACE)["data"][SCHEDULER_KEY]
        self._configure(text)
        try:
            yield
        finally:
            self._configure(kept)

    def _configure(self, text: str) -> None:
        path = f"/api/v1/namespaces/{NAMESPACE}/configmaps/{SCHEDULER_MAP}"
        self.cluster.patch(path, {"data": {SCHEDULER_KEY: text}}).ok()
        files = [pod.directory / "volumes" / "scheduler-config" / SCHEDULER_KEY for pod in self.pods(COMPONENTS[0])]
        self.until(lambda: all(file.read_text() == text for file in files), "the mounted files are exchanged")
        time.sleep(RELOAD_SECONDS)

    def compact_etcd(self) -> None:
        """Discard all history of etcd before its newest revision."""
        with urllib.request.urlopen(f"{self.plane.ports.etcd_url}/v3/kv/range", data=b'{"key": "AA=="}') as answer:
            revision = json.load(answer)["header"]["revision"]
        body = json.dumps({"revision": revision, "physical": True}).encode()
        with urllib.request.urlopen(f"{self.plane.ports.etcd_url}/v3/kv/compaction", data=body) as answer:
            assert answer.status == 200

    def freeze(self, pod: Pod) -> None:
        """Stop a component's process where it is, as a machine that hangs does; SIGCONT continues it."""
        self.kill(pod, signal.SIGSTOP)

    def token_age(self, pod: Pod) -> float:
        """Return the seconds since the token was issued that a pod has mounted now."""
        tokens = list((pod.directory / "volumes").glob("kube-api-access-*/token"))
        assert len(tokens) == 1, tokens
        claims = jwt.decode(tokens[0].read_text(), options={"verify_signature": False})
        return time.time() - float(claims["iat"])

    def pods(self, component: str = "") -> list[Pod]:
        """Return the components' pods that run here, or those of one component."""
        return [pod for pod in list(self.kubelet.pods.values()) if pod.name.startswith(component)]

    def leader(self, component: str) -> Pod:
        """Wait for a component to have a leader that runs; returns its pod."""
        lease = {"volcano-scheduler": "volcano", "volcano-controllers": "vc-controller-manager"}[component]
        path = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{lease}"

        def found() -> Pod | None:
            holder = self.cluster.get(path).body.get("spec", {}).get("holderIdentity") or ""
            return next((pod for pod in self.pods(component) if holder.startswith(pod.name)), None)

        pod: Pod = self.until(found, f"a leader of {component}")
        return pod

    def kill(self, pod: Pod, number: signal.Signals = signal.SIGKILL) -> None:
        """Send a signal to the processes of a component's pod."""
        self.invariants.disturbed()
        for state in pod.containers.values():
            if state.sandbox is not None:
                state.sandbox.signal(number)

    def components(self) -> str:
        """Return the last lines of each component's log, for messages."""
        texts = []
        for pod in self.pods():
            for name in pod.containers:
                log = pod.directory / f"{name}.log"
                tail = "\n".join(log.read_text(errors="replace").splitlines()[-12:]) if log.exists() else ""
                texts.append(f"--- {pod.name} ({log})\n{tail}")
        return "\n".join(texts)

    # -- faults

    @contextlib.contextmanager
    def faulty(self, *faults: Fault, watches: Sequence[WatchFault] = ()) -> Iterator[None]:
        """Send the components' requests through the proxy, with these faults."""
        self.faults.faults[:] = faults
        self.faults.watch_faults[:] = watches
        self._route(through_proxy=True)
        try:
            yield
        finally:
            self.faults.faults.clear()
            self.faults.watch_faults.clear()
            self._route(through_proxy=False)

    def cut_connections(self) -> None:
        """Reset every connection of the components to the API server, with what is in flight."""
        self.invariants.disturbed()
        self._cut()

    def restart(self, server: str, *, kill: bool = False, away: float = 0.0) -> None:
        """Stop a server of the control plane, start it again after `away` seconds, and wait until it is ready."""
        self.invariants.disturbed(away + READY_SECONDS)
        self.plane.servers[server].stop(kill=kill)
        time.sleep(away)
        self.plane.start(server)
        self.invariants.recovering()

    def _route(self, *, through_proxy: bool) -> None:
        self._through_proxy = through_proxy
        self._cut()

    def _cut(self) -> None:
        self.background.loop.call_soon_threadsafe(self._front.cut)

    def _struck(self, path: str) -> None:
        """Note for the invariants that the bind at this path was refused."""
        if re.search(BINDING, path):
            words = path.split("/")
            self.invariants.refused(words[4], words[6])

    # -- checks

    def verify(self) -> None:
        """Fail on violations of the invariants, and on calls that RBAC forbade since the last time."""
        self.background.check()
        assert not self.invariants.violations, "\n".join(self.invariants.violations)
        since, self._verified = self._verified, self.audit.size()
        forbidden = self.forbidden(self.audit.calls(since))
        assert not forbidden, f"RBAC forbade calls of our components: {forbidden}"

    def grants(self) -> list[Grant]:
        """Return what the roles that exist now give to our components."""

        def items(kind: str) -> list[Obj]:
            listed: list[Obj] = json.loads(self.kubectl("get", kind, "-A", "-o", "json"))["items"]
            return listed

        roles, bindings = items("clusterroles") + items("roles"), items("clusterrolebindings") + items("rolebindings")
        return grants(roles, bindings, USERS)

    def forbidden(self, calls: Iterable[Call]) -> list[Call]:
        """Return the calls for objects that RBAC forbade and no grant covers; a starting API server forbids more."""
        refused = [call for call in calls if call.forbidden and call.resource]
        granted = self.grants() if refused else []
        return [call for call in refused if not any(grant.covers(call) for grant in granted)]

    def restarts(self) -> dict[str, int]:
        """Return the restarts of each component's pod that runs now."""
        return {pod.name: sum(one.restarts for one in pod.containers.values()) for pod in self.pods()}


def _described(what: Callable[[], str]) -> str:
    try:
        return what()
    except (OSError, http.client.HTTPException, AssertionError) as error:
        return f"(the API server does not answer: {error})"


WORLD = pytest.StashKey[World]()
"""Where a run of the scenarios keeps its world."""


def documents(path: Path) -> list[Obj]:
    """Return the objects of a YAML file."""
    return [one for one in yaml.safe_load_all(path.read_text()) if one]
