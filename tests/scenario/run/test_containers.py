"""Containers as processes: what they see, how they end, and that nothing of them is left."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from tests.contract.support import Namespace, eventually, gone
from tests.scenario.run.up_process import Lock, ended, log, run_pod, shell, terminated, until

NOT_THERE = "/there/is/no/such/directory/on/the/host"


def test_files_variables_and_names_are_there(namespace: Namespace) -> None:
    cluster = namespace.cluster
    namespace.config_map("settings", None, **{"app.conf": "level = 3\n", "MODE": "fast"})
    secret = {"metadata": {"name": "keys"}, "data": {"id": base64.b64encode(b"private").decode()}}
    cluster.create(namespace.path("secrets"), secret).ok()
    script = f"""
        cat {NOT_THERE}/conf/app.conf; cat /etc/volcano-test/id; stat -Lc %a /etc/volcano-test/id
        echo "$MODE $NAME $EXPANDED $MEMORY"
        echo scratch > /scratch-test/file && cat /scratch-test/file
        hostname; getent hosts "$(hostname)" | cut -d' ' -f1; getent hosts me.peers | cut -d' ' -f1; echo "$IP $IP"
        touch {NOT_THERE}/conf/x 2>/dev/null || echo read-only
        pwd
    """
    path = run_pod(
        namespace,
        "sees",
        shell(
            script,
            workingDir=f"{NOT_THERE}/work",
            env=[
                {"name": "MODE", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "MODE"}}},
                {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
                {"name": "EXPANDED", "value": "<$(MODE)>"},
                {"name": "MEMORY", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}}},
            ],
            resources={"limits": {"memory": "256Mi"}},
            volumeMounts=[
                {"name": "conf", "mountPath": f"{NOT_THERE}/conf", "readOnly": True},
                {"name": "keys", "mountPath": "/etc/volcano-test"},
                {"name": "scratch", "mountPath": "/scratch-test"},
            ],
        ),
        hostname="me",
        subdomain="peers",
        volumes=[
            {"name": "conf", "configMap": {"name": "settings", "items": [{"key": "app.conf", "path": "app.conf"}]}},
            {"name": "keys", "secret": {"secretName": "keys", "defaultMode": 0o400}},
            {"name": "scratch", "emptyDir": {}},
        ],
    )
    pod = ended(cluster, path)
    address = pod["status"]["podIP"]
    assert address.startswith("127.")
    assert log(cluster, path).split("\n") == [
        "level = 3", "private400", "fast sees <fast> 256", "scratch", "me", address, address, f"{address} {address}",
        "read-only", f"{NOT_THERE}/work", "",
    ]  # fmt: skip
    assert terminated(pod)["exitCode"] == 0
    for made in ("/there", "/etc/volcano-test", "/scratch-test"):
        assert not Path(made).exists()  # nothing is made on the host


@pytest.mark.parametrize(
    ("script", "code", "reason"),
    [("exit 0", 0, "Completed"), ("exit 7", 7, "Error"), ("sh -c 'kill -9 $$$$'", 137, "Error")],
)
def test_exit_codes_are_reported(namespace: Namespace, script: str, code: int, reason: str) -> None:
    path = run_pod(namespace, "ends", shell(f"{script}; exit $?"))
    how = terminated(ended(namespace.cluster, path))
    assert (how["exitCode"], how["reason"]) == (code, reason)


def test_a_command_that_is_not_there_cannot_start(namespace: Namespace) -> None:
    path = run_pod(namespace, "missing", {"name": "main", "image": "none", "command": ["no-such-program"]})
    how = terminated(ended(namespace.cluster, path))
    assert (how["exitCode"], how["reason"]) == (128, "StartError")
    assert '"no-such-program": executable file not found in $PATH' in how["message"]


def test_a_termination_message_is_reported(namespace: Namespace) -> None:
    path = run_pod(namespace, "speaks", shell("printf 'out of paper' > /dev/termination-log; exit 1"))
    assert terminated(ended(namespace.cluster, path))["message"] == "out of paper"
    path = run_pod(
        namespace, "logs", shell("echo last words; exit 1", terminationMessagePolicy="FallbackToLogsOnError")
    )
    assert terminated(ended(namespace.cluster, path))["message"] == "last words"


def test_more_memory_than_allowed_is_the_end(namespace: Namespace) -> None:
    hungry = "exec python3 -c 'x = bytearray(400_000_000); input()'"
    path = run_pod(namespace, "hungry", shell(hungry, stdin=True, resources={"limits": {"memory": "100Mi"}}))
    how = terminated(ended(namespace.cluster, path))
    assert (how["exitCode"], how["reason"]) == (137, "OOMKilled")


def test_sigterm_reaches_the_process(namespace: Namespace, tmp_path: Path) -> None:
    lock = Lock(tmp_path)
    said = tmp_path / "said"
    path = run_pod(
        namespace,
        "polite",
        shell(f"{lock.script} trap 'echo bye > {said}; exit 0' TERM; echo ready; sleep 1000 & wait"),
        terminationGracePeriodSeconds=60,
    )
    _ready(namespace, path)
    assert lock.held
    namespace.cluster.delete(path).ok()
    gone(namespace.cluster, path)
    assert said.read_text() == "bye\n"
    assert not lock.held  # nor does what it had started live on


def test_sigkill_follows_when_sigterm_is_ignored(namespace: Namespace, tmp_path: Path) -> None:
    lock = Lock(tmp_path)
    script = f"{lock.script} trap '' TERM; setsid sleep 1000 & echo ready; while true; do sleep 1000; done"
    path = run_pod(namespace, "stubborn", shell(script), terminationGracePeriodSeconds=1)
    _ready(namespace, path)
    assert lock.held
    namespace.cluster.delete(path).ok()
    gone(namespace.cluster, path)
    assert not lock.held


def test_hooks_are_run(namespace: Namespace, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    hook = {"exec": {"command": ["sh", "-c", f"echo $PPID hook >> {seen}"]}}
    path = run_pod(
        namespace,
        "hooked",
        shell("trap 'exit 0' TERM; echo ready; sleep 1000 & wait", lifecycle={"postStart": hook, "preStop": hook}),
    )
    _ready(namespace, path)
    namespace.cluster.delete(path).ok()
    gone(namespace.cluster, path)
    assert seen.read_text().split() == ["0", "hook", "0", "hook"]  # in the container's process namespace


def test_a_container_that_fails_its_probe_is_restarted(namespace: Namespace) -> None:
    mounts = [{"name": "shared", "mountPath": "/shared-test"}]
    wait = "until [ -e started ]; do sleep 0.05; done; exec sleep 1000"
    script = f"cd /shared-test; [ -e second ] && exit 0; touch second; {wait}"
    starts = {"exec": {"command": ["touch", "/shared-test/started"]}, "periodSeconds": 1}
    lives = {"exec": {"command": ["cat", "/shared-test/healthy"]}, "periodSeconds": 1, "failureThreshold": 1}
    path = run_pod(
        namespace,
        "sick",
        shell(script, volumeMounts=mounts, startupProbe=starts, livenessProbe=lives),
        volumes=[{"name": "shared", "emptyDir": {}}],
        restartPolicy="OnFailure",
        terminationGracePeriodSeconds=1,
    )
    pod = ended(namespace.cluster, path)
    (status,) = pod["status"]["containerStatuses"]
    assert (pod["status"]["phase"], status["restartCount"]) == ("Succeeded", 1)
    assert status["lastState"]["terminated"]["exitCode"] == 137  # a first process hears no SIGTERM by itself
    reported = eventually(lambda: _message(namespace, "sick", "Unhealthy"))
    assert "Liveness probe failed" in reported


def test_init_containers_come_first_and_failures_are_repeated(namespace: Namespace) -> None:
    count = "n=$(cat /shared-test/n 2>/dev/null || echo 0); echo $((n + 1)) > /shared-test/n; echo try $n; [ $n -ge 1 ]"
    mounts = [{"name": "shared", "mountPath": "/shared-test"}]
    path = run_pod(
        namespace,
        "again",
        shell(count, volumeMounts=mounts),
        initContainers=[{**shell("echo first > /shared-test/init", volumeMounts=mounts), "name": "init"}],
        volumes=[{"name": "shared", "emptyDir": {}}],
        restartPolicy="OnFailure",
    )
    pod = ended(namespace.cluster, path)
    assert pod["status"]["phase"] == "Succeeded"
    assert pod["status"]["containerStatuses"][0]["restartCount"] == 1
    assert log(namespace.cluster, path) == "try 1\n"
    assert log(namespace.cluster, path, previous=True) == "try 0\n"


def test_logs_can_be_asked_for_in_parts(namespace: Namespace) -> None:
    path = run_pod(namespace, "writes", shell("echo one; echo two >&2; printf 'th\\rree'; sleep 0.2; echo; echo four"))
    ended(namespace.cluster, path)
    whole = log(namespace.cluster, path, follow=True)
    assert sorted(whole.split("\n")) == sorted(["one", "two", "th\rree", "four", ""])
    assert log(namespace.cluster, path, tailLines=1) == "four\n"
    assert log(namespace.cluster, path, limitBytes=6) == "one\ntw"
    stamps = [line.partition(" ")[0] for line in log(namespace.cluster, path, timestamps=True).rstrip("\n").split("\n")]
    assert stamps == sorted(stamps)
    assert log(namespace.cluster, path, sinceTime="2999-01-01T00:00:00Z") == ""


def test_a_config_map_that_changes_is_seen(namespace: Namespace) -> None:
    namespace.config_map("changing", value="old")
    path = run_pod(
        namespace,
        "watches",
        shell(
            "cd /etc/volcano-test; cat value; until grep -q new value; do sleep 0.1; done; echo; echo seen",
            volumeMounts=[{"name": "v", "mountPath": "/etc/volcano-test"}],
        ),
        volumes=[{"name": "v", "configMap": {"name": "changing"}}],
    )
    until(namespace.cluster, path, lambda pod: pod["status"].get("phase") == "Running")
    namespace.cluster.patch(namespace.path("configmaps", "changing"), {"data": {"value": "new"}}).ok()
    ended(namespace.cluster, path)
    assert log(namespace.cluster, path) == "old\nseen\n"


def test_a_variable_that_is_missing_is_waited_for(namespace: Namespace) -> None:
    source = {"configMapKeyRef": {"name": "late", "key": "value"}}
    path = run_pod(namespace, "waits", shell("echo $LATE", env=[{"name": "LATE", "valueFrom": source}]))
    reported = eventually(lambda: _message(namespace, "waits", "Failed"))
    assert reported == 'Error: configmap "late" not found'
    namespace.config_map("late", value="here")
    ended(namespace.cluster, path)
    assert log(namespace.cluster, path) == "here\n"


def test_without_a_command_there_is_nothing_to_run(namespace: Namespace) -> None:
    run_pod(namespace, "image-only", {"name": "main", "image": "nginx:1.27"})
    message = eventually(lambda: _message(namespace, "image-only", ""))
    assert "--run-image 'nginx:1.27=COMMAND'" in message


def test_a_command_can_stand_for_an_image(namespace: Namespace) -> None:
    path = run_pod(namespace, "mapped", {"name": "main", "image": "echoer:2", "args": ["with", "arguments"]})
    ended(namespace.cluster, path)
    assert log(namespace.cluster, path) == "from the image with arguments\n"


def test_a_pod_may_ask_to_be_simulated(namespace: Namespace, tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    manifest = {
        "metadata": {"name": "simulated", "annotations": {"sim.volcanoio.dev/runtime": "sim"}},
        "spec": {"restartPolicy": "Never", "containers": [shell(f"touch {marker}; sleep 0.1")]},
    }
    namespace.cluster.create(namespace.path("pods"), manifest).ok()
    path = namespace.path("pods", "simulated")
    assert ended(namespace.cluster, path)["status"]["podIP"].startswith("10.244.")
    assert not marker.exists()


def _ready(namespace: Namespace, path: str) -> None:
    """Wait until a pod runs and has said `ready`."""
    until(namespace.cluster, path, lambda pod: pod["status"].get("phase") == "Running")
    eventually(lambda: True if "ready" in log(namespace.cluster, path) else None)


def _message(namespace: Namespace, pod: str, reason: str) -> str | None:
    """The text of a Warning about a pod, once there is one (of a reason)."""
    listed = namespace.cluster.get(namespace.path("events"), fieldSelector=f"involvedObject.name={pod}").ok()
    found = [one for one in listed["items"] if one["type"] == "Warning" and reason in ("", one["reason"])]
    return str(found[0]["message"]) if found else None
