"""`python -m tests.realcluster.leadership [--record]`: two schedulers on a real control plane, of which one leads.

The leader is stopped in mid-commit for 30 s, continued, killed with SIGKILL in mid-commit, and ended with SIGTERM. The
audit log of the API server must then show that each pod was bound by one request, and that no process wrote after
another had begun to.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from bench.machine import machine
from tests.contract.support import Cluster
from tests.realcluster.binaries import NoBinariesError, find
from tests.realcluster.controlplane import ControlPlane, control_plane
from tests.realcluster.processes import FailedStartError

RESULTS = Path(__file__).parent / "results" / "leadership.json"
ROOT = Path(__file__).parents[2]
PROGRAM = Path(sys.executable).parent / "volcanoio"
LEASE_SECONDS, RENEW_DEADLINE = 15.0, 10.0
NAMESPACE, GANG, FIRST_BINDS, STOPPED_SECONDS = "default", 400, 10, 30.0
_LEASE = "/apis/coordination.k8s.io/v1/namespaces/volcano-system/leases/volcano"
_GROUPS = f"/apis/scheduling.volcano.sh/v1beta1/namespaces/{NAMESPACE}/podgroups"
_PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
_POLL_SECONDS = 0.02
_POLICY = """apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  verbs: [create, update, patch, delete]
  userGroups: [schedulers]
- level: None
"""


class Write(NamedTuple):
    """A write in the audit log; times are seconds since the epoch."""

    user: str
    verb: str
    resource: str
    name: str
    code: int
    received: float


@dataclass
class Scheduler:
    """`volcanoio scheduler` as a process with a user of its own."""

    name: str
    kubeconfig: Path
    log: Path
    process: subprocess.Popen[bytes] = field(init=False)

    def start(self) -> Scheduler:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [str(PROGRAM), "scheduler", f"--kubeconfig={self.kubeconfig}", "--leader-elect=true"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        return self

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)


@dataclass
class Trial:
    """A control plane with nodes, and schedulers whose writes the audit log has."""

    plane: ControlPlane
    directory: Path
    figures: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.cluster = Cluster.of(self.plane.kubeconfig)
        self.number = 0

    @contextlib.contextmanager
    def scheduler(self) -> Iterator[Scheduler]:
        """Run a scheduler with a new user, and wait until it has listed everything."""
        self.number += 1
        name = f"scheduler-{self.number}"
        kubeconfig = self.plane.kubeconfig_for(name, ("system:masters", "schedulers"), self.directory / f"{name}.conf")
        scheduler = Scheduler(name, kubeconfig, self.directory / f"{name}.log").start()
        try:
            self.until(lambda: b"ready" in scheduler.log.read_bytes(), f"{name} is ready")
            yield scheduler
        finally:
            scheduler.process.kill()
            scheduler.process.wait()

    def until(self, condition: Callable[[], Any], what: str, seconds: float = 90) -> float:
        """Wait for a condition; returns the seconds that took."""
        since = time.monotonic()
        while not condition():
            if time.monotonic() - since > seconds:
                msg = f"not within {seconds:g} s: {what}"
                raise AssertionError(msg)
            time.sleep(_POLL_SECONDS)
        return time.monotonic() - since

    def holder(self) -> str:
        return str((self.cluster.get(_LEASE).body.get("spec") or {}).get("holderIdentity") or "")

    def gang(self, name: str, size: int) -> None:
        """Create the pods of a gang and then its PodGroup, so that it is decided at once."""
        for index in range(size):
            pod = {
                "metadata": {
                    "name": f"{name}-{index}",
                    "labels": {"gang": name},
                    "annotations": {"scheduling.k8s.io/group-name": name},
                },
                "spec": {
                    "schedulerName": "volcano",
                    "containers": [
                        {"name": "c", "image": "busybox", "resources": {"requests": {"cpu": "10m"}}},
                    ],
                },
            }
            self.cluster.create(_PODS, pod).ok()
        group = {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "PodGroup",
            "metadata": {"name": name},
            "spec": {"minMember": size, "queue": "default"},
        }
        self.cluster.create(_GROUPS, group).ok()

    def bound(self, name: str) -> int:
        pods = self.cluster.get(_PODS, labelSelector=f"gang={name}").ok()["items"]
        return sum(bool(pod["spec"].get("nodeName")) for pod in pods)

    def until_binding(self, name: str) -> None:
        """Return when the first binds of a gang are in the audit log: the others are being sent."""
        log, bind = self.directory / "audit.log", re.compile(rf"/pods/{name}-\d+/binding".encode())
        position = log.stat().st_size

        def is_binding() -> bool:
            with log.open("rb") as file:
                file.seek(position)
                return len(bind.findall(file.read())) >= FIRST_BINDS

        self.gang(name, GANG)
        self.until(is_binding, "the gang is being bound")

    def writes(self) -> list[Write]:
        """Return the writes of the schedulers in the audit log so far."""
        found = []
        for line in (self.directory / "audit.log").read_bytes().splitlines():
            event = json.loads(line)
            target = event.get("objectRef") or {}
            resource = "/".join(filter(None, (target.get("resource", ""), target.get("subresource", ""))))
            found.append(
                Write(
                    event["user"]["username"],
                    event["verb"],
                    resource,
                    target.get("name", ""),
                    (event.get("responseStatus") or {}).get("code", 0),
                    datetime.fromisoformat(event["requestReceivedTimestamp"]).timestamp(),
                )
            )
        return found


def stopped_in_mid_commit(trial: Trial, leader: Scheduler, standby: Scheduler) -> None:
    """Stop the leader for 30 s while it binds a gang; the standby completes it."""
    held = trial.holder()
    trial.until_binding("stopped")
    leader.send(signal.SIGSTOP)
    stopped = time.time()
    trial.figures["bound when the leader was stopped"] = trial.bound("stopped")
    trial.until(lambda: trial.holder() not in ("", held), "the standby took the lease")
    trial.figures["seconds from SIGSTOP to the new holder"] = round(time.time() - stopped, 1)
    trial.until(lambda: trial.bound("stopped") == GANG, "the standby bound the rest")
    time.sleep(max(0.0, stopped + STOPPED_SECONDS - time.time()))
    leader.send(signal.SIGCONT)
    code = leader.process.wait(20)
    trial.figures["exit code of the leader that was continued"] = code
    assert code == 1, code
    late = [
        write for write in trial.writes() if write.user == leader.name and write.received > stopped + RENEW_DEADLINE
    ]
    trial.figures["writes of the stopped leader after its lease"] = len([one for one in late if one.code < 300])
    assert [one for one in late if one.resource != "leases"] == [], late
    assert standby.process.poll() is None


def killed_in_mid_commit(trial: Trial, leader: Scheduler) -> None:
    """Kill the leader while it binds a gang; measure until the standby binds the rest."""
    trial.until_binding("killed")
    leader.send(signal.SIGKILL)
    killed = time.time()
    trial.figures["bound when the leader was killed"] = trial.bound("killed")
    trial.gang("after", 1)
    trial.until(lambda: trial.bound("after") == 1, "the standby bound a new pod")
    trial.until(lambda: trial.bound("killed") == GANG, "the standby bound the rest")
    first = min(
        write.received
        for write in trial.writes()
        if write.resource == "pods/binding" and write.user != leader.name and write.received > killed
    )
    trial.figures["seconds from SIGKILL to the first bind"] = round(first - killed, 1)
    assert first - killed <= LEASE_SECONDS + 3


def ended_gracefully(trial: Trial, leader: Scheduler) -> None:
    """End the leader; measure until a pod that is created then is bound."""
    leader.send(signal.SIGTERM)
    begun = time.monotonic()
    trial.gang("graceful", 1)
    trial.until(lambda: trial.bound("graceful") == 1, "the pod is bound")
    trial.figures["seconds from SIGTERM to the first bind"] = round(time.monotonic() - begun, 1)
    assert leader.process.wait(30) == 0


def check(trial: Trial) -> None:
    """Check in the audit log that no two decisions bound a pod, and that writers did not overlap."""
    writes = [one for one in trial.writes() if one.resource != "leases"]
    binds = Counter(one.name for one in writes if one.resource == "pods/binding" and one.code == 201)
    assert set(binds.values()) == {1}, binds.most_common(3)
    assert sum(binds.values()) == 2 * GANG + 2
    trial.figures["pods bound, each by one request"] = len(binds)
    trial.figures["binds refused as conflicts"] = sum(
        one.resource == "pods/binding" and one.code == 409 for one in writes
    )
    ended: set[str] = set()
    writer = ""
    for write in sorted(writes, key=lambda one: one.received):
        if write.user != writer:
            assert write.user not in ended, f"{write.user} wrote after another had begun: {write}"
            ended.add(writer)
            writer = write.user


def run(trial: Trial) -> None:
    """Play the trial."""
    for path in sorted((ROOT / "config" / "crds").glob("*.yaml")):
        _kubectl(trial.plane, "apply", "--server-side", "-f", str(path))
    _kubectl(trial.plane, "wait", "--for=condition=Established", "--timeout=60s", "crd", "--all")
    _kubectl(trial.plane, "create", "namespace", "volcano-system")
    hollow = subprocess.Popen(
        [str(PROGRAM), "hollow-nodes", f"--kubeconfig={trial.plane.kubeconfig}", "--count=10"],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        with trial.scheduler() as first:
            trial.until(trial.holder, "a scheduler took the lease")
            with trial.scheduler() as second:
                stopped_in_mid_commit(trial, first, second)
                with trial.scheduler() as third:
                    killed_in_mid_commit(trial, second)
                    with trial.scheduler():
                        ended_gracefully(trial, third)
        check(trial)
    finally:
        hollow.terminate()
        hollow.wait()


def _kubectl(plane: ControlPlane, *words: str) -> None:
    subprocess.run(["kubectl", f"--kubeconfig={plane.kubeconfig}", *words], check=True, stdout=subprocess.DEVNULL)


def main() -> int:
    """Run; returns 1 when there is no control plane to run it on."""
    parser = argparse.ArgumentParser(prog="python -m tests.realcluster.leadership", description=__doc__)
    parser.add_argument("--record", action="store_true", help=f"write the figures to {RESULTS}")
    arguments = parser.parse_args()
    try:
        with tempfile.TemporaryDirectory(prefix="volcanoio-lead-") as name:
            directory = Path(name)
            policy = directory / "policy.yaml"
            policy.write_text(_POLICY)
            flags = [
                f"--audit-policy-file={policy}",
                f"--audit-log-path={directory / 'audit.log'}",
                "--audit-log-maxsize=10000",
                "--audit-log-mode=blocking",
            ]
            with control_plane(find(), directory / "plane", apiserver_flags=flags) as plane:
                trial = Trial(plane, directory)
                run(trial)
                version = trial.cluster.get("/version").ok()["gitVersion"]
    except (NoBinariesError, FailedStartError) as error:
        print(error, file=sys.stderr)
        return 1
    report = {"kube-apiserver": version, "date": time.strftime("%Y-%m-%d"), "machine": machine(), **trial.figures}
    print(json.dumps(report, indent=2))
    if arguments.record:
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(json.dumps(report, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
