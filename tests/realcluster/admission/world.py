"""A real control plane with our kinds, whose API server calls a webhook manager on loopback."""

from __future__ import annotations

import contextlib
import json
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.realcluster.controlplane import ControlPlane
from tests.realcluster.processes import free_ports
from volcanoio.compose.webhooks import WebhookManager, WebhookSettings
from volcanoio.engine.admission.request import AdmissionSettings
from volcanoio.framework import entrypoints
from volcanoio.kube.http_transport import HttpTransport
from volcanoio.kube.kubeconfig import load
from volcanoio.model.packaged import config_path
from volcanoio.runtime.loading.registry import discover
from volcanoio.runtime.webhooks.paths import Target

Obj = dict[str, Any]
CONTROLLERS = "system:serviceaccount:volcano-system:volcano-controllers"
"""User that creates what is made of Jobs and pods."""
CONF = "resourceGroups: [{resourceGroup: gpu, object: {key: namespace, value: [grouped]}, labels: {type: gpu}}]\n"
_SECONDS = 30.0


@dataclass
class World:
    """The control plane, and kubectl."""

    plane: ControlPlane
    directory: Path

    def kubectl(self, *arguments: str, given: Obj | None = None, user: str = "") -> subprocess.CompletedProcess[str]:
        """Run kubectl, as a user if one is given; an object is its input."""
        command = ["kubectl", f"--kubeconfig={self.plane.kubeconfig}", *([f"--as={user}"] if user else []), *arguments]
        text = None if given is None else json.dumps(given)
        return subprocess.run(command, input=text, capture_output=True, text=True, check=False)

    def do(self, *arguments: str, given: Obj | None = None) -> str:
        """Run kubectl, which must succeed; returns its output."""
        done = self.kubectl(*arguments, given=given)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def create(self, obj: Obj, user: str = "") -> Obj:
        """Create an object, which must be admitted; returns the stored one."""
        done = self.kubectl("create", "-f", "-", "-o", "json", given=obj, user=user)
        assert done.returncode == 0, done.stderr
        stored: Obj = json.loads(done.stdout)
        return stored

    def refusal(self, obj: Obj, user: str = "") -> str:
        """Return why the API server refuses to create an object."""
        done = self.kubectl("create", "--dry-run=server", "-f", "-", given=obj, user=user)
        assert done.returncode != 0, f"admitted: {obj}"
        return done.stderr

    def update(self, changes: list[Obj]) -> str:
        """Try to patch the Job `STORED`; returns why the API server refuses, "" if it does not."""
        patch = ("--type=json", "--dry-run=server", "-p", json.dumps(changes))
        return self.kubectl("patch", "vcjob", "stored", *patch).stderr

    def until(self, holds: Callable[[], bool]) -> None:
        """Return once a condition holds, which must be soon."""
        deadline = time.monotonic() + _SECONDS
        while not holds():
            assert time.monotonic() < deadline, "not within half a minute"
            time.sleep(0.2)


WORLD = pytest.StashKey[World]()


def prepare(world: World) -> None:
    """Install the CRDs, the namespaces, and users who may write our kinds in them."""
    world.do("apply", "--server-side", "-f", str(config_path("crds")))
    for name in ("volcano-system", "grouped"):
        world.do("create", "namespace", name)
    groups = ["bus.volcano.sh", "batch.volcano.sh", "flow.volcano.sh", "scheduling.volcano.sh", ""]
    rule = {"apiGroups": groups, "resources": ["*"], "verbs": ["get", "list", "create", "update", "patch", "delete"]}
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "submitter"}}
    world.do("create", "-f", "-", given={**role, "rules": [rule]})
    for user in ("alice", "bob", CONTROLLERS):
        world.do("create", "clusterrolebinding", f"submitter-{user}", "--clusterrole=submitter", f"--user={user}")


@contextlib.contextmanager
def webhooks(world: World) -> Iterator[None]:
    """Run a webhook manager until the block ends, whose rights are those that we declare."""
    (port,) = free_ports(1)
    conf = world.directory / "volcano-admission.conf"
    conf.write_text(CONF)
    account = "system:serviceaccount:volcano-system:volcano-admission"
    world.do("apply", "-f", str(config_path("rbac") / "admission.yaml"))
    subject = "--serviceaccount=volcano-system:volcano-admission"
    world.do("create", "clusterrolebinding", "volcano-admission", "--clusterrole=volcano-admission", subject)
    arguments = ("create", "rolebinding", "volcano-admission", "--role=volcano-admission", "-n", "volcano-system")
    world.do(*arguments, subject)
    # --create-webhooks, the default outside a release, needs one right more.
    kinds = "mutatingwebhookconfigurations,validatingwebhookconfigurations"
    world.do("create", "clusterrole", "webhook-creator", "--verb=create", f"--resource={kinds}")
    world.do("create", "clusterrolebinding", "webhook-creator", "--clusterrole=webhook-creator", subject)
    kubeconfig = world.plane.kubeconfig_for(account, (), world.directory / "admission.kubeconfig")
    settings = WebhookSettings(
        admission=AdmissionSettings(
            job_plugins=discover().factories(entrypoints.JOB_PLUGINS), gated_schedulers=("volcano",)
        ),
        target=Target(url=f"https://127.0.0.1:{port}"),
        listen_address="127.0.0.1",
        port=port,
        admission_conf=conf,
    )
    ready, stop = threading.Event(), threading.Event()
    thread = threading.Thread(target=partial(anyio.run, _serve, kubeconfig, settings, ready, stop))
    thread.start()
    try:
        assert ready.wait(_SECONDS), "the webhook manager is not ready"
        yield
    finally:
        stop.set()
        thread.join()


async def _serve(kubeconfig: Path, settings: WebhookSettings, ready: threading.Event, stop: threading.Event) -> None:
    transport = HttpTransport(await load(kubeconfig))
    manager = WebhookManager(transport, settings=settings)
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(manager.run)
            tasks.start_soon(_announce, manager, ready)
            await anyio.to_thread.run_sync(stop.wait)
            tasks.cancel_scope.cancel()
    finally:
        await transport.aclose()


async def _announce(manager: WebhookManager, ready: threading.Event) -> None:
    await manager.ready()
    ready.set()
