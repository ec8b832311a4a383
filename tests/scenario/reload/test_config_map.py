"""`configmap:NAMESPACE/NAME/KEY` as configuration of scheduler or controllers: read at the start, and followed."""

from __future__ import annotations

from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from structlog.testing import capture_logs

from tests.commands import run_aside
from tests.scenario.cluster.harness import PATIENCE, Cluster, cluster, job_manifest
from tests.scenario.reload.mounts import BAD, PLACES, WAITS, Mount
from tests.unit.kube.scripted import Call, ScriptedTransport, answer, refusal
from volcanoio.kube.clock import WallClock
from volcanoio.kube.errors import ApiError
from volcanoio.kube.transport import Response
from volcanoio.model import kinds
from volcanoio.model.base import Manifest
from volcanoio.model.core import Pod
from volcanoio.runtime.loading.configmap_source import ConfigMapKey, ConfigMapSource
from volcanoio.runtime.scheduler.setup import VALID

KEY = ConfigMapKey("default", "batch", "scheduler.conf")
REFUSED = "the scheduler's configuration is refused; {}"
UNREADABLE = "the scheduler's configuration cannot be read; {}"
DEFAULT, LAST_GOOD = "the default is in force", "the last good one stays in force"


def config_map(text: str, key: str = KEY.key) -> Manifest:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": KEY.name}, "data": {key: text}}


def watching(transport: ScriptedTransport) -> ConfigMapSource:
    return ConfigMapSource(path=None, default="", map_key=KEY, transport=transport, clock=WallClock())


async def write(c: Cluster, text: str) -> None:
    await c.client.patch(kinds.CONFIG_MAP, KEY.name, {"data": {KEY.key: text}}, KEY.namespace)


async def reported(logs: list[MutableMapping[str, Any]], event: str) -> MutableMapping[str, Any]:
    """The log entry, once it is there; it is taken out."""
    with anyio.fail_after(PATIENCE):
        while not (found := [log for log in logs if log["event"] == event]):
            await anyio.lowlevel.checkpoint()
    logs.remove(found[0])
    return found[0]


async def test_a_config_map_is_followed_from_before_it_exists() -> None:
    with capture_logs() as logs:
        async with cluster(nodes=1, scheduler_conf=KEY) as c:
            missing = await reported(logs, UNREADABLE.format(DEFAULT))
            assert missing["file"] == "configmap:default/batch/scheduler.conf"
            assert missing["problem"] == (
                "ConfigMap default/batch does not exist; create it with: "
                "kubectl create configmap batch -n default --from-file=scheduler.conf=FILE"
            )
            assert c.local.probe.value(VALID) == 0.0
            await c.create(job_manifest("by-default", run="1h"))
            await c.job("by-default", "Running")

            await c.create(config_map(WAITS))
            await reported(logs, "the scheduler's configuration was found; it takes effect with the next cycle")
            assert c.local.probe.value(VALID) == 1.0
            await write(c, BAD)
            wrong = await reported(logs, REFUSED.format(LAST_GOOD))
            assert wrong["problem"] == 'line 1, column 20: action "alocate" is unknown; did you mean "allocate"?'
            await c.create(job_manifest("waits", run="1h"))
            await write(c, PLACES)
            await reported(logs, "the scheduler's configuration changed; it takes effect with the next cycle")
            await c.job("waits", "Running")
            await c.client.delete(kinds.CONFIG_MAP, KEY.name, KEY.namespace)
            await reported(logs, UNREADABLE.format(LAST_GOOD))


async def test_a_config_map_that_was_stored_is_in_force_from_the_start(tmp_path: Path) -> None:
    async with cluster(nodes=1, data=tmp_path / "data") as c:
        await c.create(config_map(WAITS))
    with capture_logs() as logs:
        async with cluster(nodes=1, data=tmp_path / "data", scheduler_conf=KEY) as c:
            await c.create(job_manifest("j", run="1h"))
            await c.until(kinds.POD, kinds.POD.type, lambda pods: "j-task-0" in pods, "the job was admitted")
            await c.client.patch(kinds.CONFIG_MAP, KEY.name, {"data": {KEY.key: PLACES}}, KEY.namespace)
            await c.job("j", "Running")
    assert not [log for log in logs if log["log_level"] in ("warning", "error")]


async def test_a_stored_config_map_that_is_wrong_does_not_keep_the_cluster_from_starting(tmp_path: Path) -> None:
    async with cluster(nodes=1, data=tmp_path / "data") as c:
        await c.create(config_map(BAD))
    with capture_logs() as logs:
        async with cluster(nodes=1, data=tmp_path / "data", scheduler_conf=KEY):
            await reported(logs, REFUSED.format(DEFAULT))


CONTROLLER_KEY = ConfigMapKey("default", "batch", "controller.conf")
RESTART_EVICTED = [{"event": "PodEvicted", "action": "RestartJob"}]


async def test_the_controllers_follow_a_config_map_from_before_it_exists() -> None:
    async def version_after_an_eviction(c: Cluster, name: str) -> int:
        await c.create(job_manifest(name, run="1h", policies=RESTART_EVICTED))
        await c.job(name, "Running")
        first = (await c.pods(name))[0].metadata.uid
        await c.client.delete(kinds.POD, f"{name}-task-0", "default")
        pod = f"{name}-task-0"
        await c.until(kinds.POD, Pod, lambda pods: pod in pods and pods[pod].metadata.uid != first, "a new pod")
        return (await c.job(name, "Running")).status.version

    with capture_logs() as logs:
        async with cluster(nodes=1, controller_conf=CONTROLLER_KEY) as c:
            missing = await reported(logs, "the controllers' configuration cannot be read; the default is in force")
            assert missing["problem"].startswith("ConfigMap default/batch does not exist; create it with: kubectl")
            assert await version_after_an_eviction(c, "by-default") == 1
            off = "policies: [{name: declared, enabled: false}]"
            await c.create(config_map(off, key=CONTROLLER_KEY.key))
            await reported(logs, "the controllers' configuration was found; it takes effect at once")
            assert await version_after_an_eviction(c, "not-restarted") == 0


async def test_controllers_do_not_run_without_a_config_map_that_is_named() -> None:
    """What they decide by default cannot be undone, as when a policy would have restarted a job that failed."""
    async with cluster(nodes=1) as c:
        ended = await run_aside(
            "controllers", f"--kubeconfig={c.local.kubeconfig}", "--leader-elect=false",
            "--controller-conf=configmap:default/batch/controller.conf",
        )  # fmt: skip
        assert ended.code == 2, ended.err
        assert "volcanoio: ConfigMap default/batch does not exist; create it with" in ended.err.splitlines()[-1]


async def test_a_scheduler_that_may_not_use_the_default_ends_with_the_reason(tmp_path: Path) -> None:
    """`--disable-default-scheduler-config`, for each form of a configuration: exit code 2 and the next step."""
    mounted = Mount(tmp_path, "scheduler.conf", BAD).path
    wrong = 'line 1, column 20: action "alocate" is unknown; did you mean "allocate"?'
    async with cluster(nodes=1) as c:
        await c.create(config_map(BAD))
        for flag, problem in (
            (f"--scheduler-conf={mounted}", f"{mounted}: {wrong}"),
            (f"--scheduler-conf={KEY}", f"{KEY}: {wrong}"),
            ("--scheduler-conf-configmap=default/none/a.conf", "ConfigMap default/none does not exist; create it with"),
        ):
            ended = await run_aside(
                "scheduler", f"--kubeconfig={c.local.kubeconfig}", "--leader-elect=false", flag,
                "--disable-default-scheduler-config",
            )  # fmt: skip
            assert ended.code == 2, ended.err
            assert ended.err.splitlines()[-1].startswith(f"volcanoio: {problem}")


@pytest.mark.parametrize(
    ("answered", "problem"),
    [
        (
            answer(config_map("", key="other.conf")),
            (
                'ConfigMap default/batch has no key "scheduler.conf" (its keys: other.conf); add it: '
                "kubectl edit configmap batch -n default"
            ),
        ),
        (
            refusal(403, "Forbidden", "no"),
            "ConfigMap default/batch cannot be read: no; grant get, list and watch on it",
        ),
    ],
)
async def test_an_unusable_config_map_is_reported_with_the_fix(answered: Response, problem: str) -> None:
    async def script(call: Call) -> Response:
        assert call.path == "/api/v1/namespaces/default/configmaps/batch"
        return answered

    watched = watching(ScriptedTransport(script))
    assert await watched.see() == (None, problem, ())


async def test_an_overloaded_server_is_retried() -> None:
    async def script(call: Call) -> Response:
        return refusal(503, "ServiceUnavailable")

    watched = watching(ScriptedTransport(script))
    with pytest.raises(ApiError):
        await watched.see()


async def test_without_the_right_to_watch_it_is_read_each_time() -> None:
    """As with the role of an earlier version, which grants `get` alone."""
    texts, refused = iter(("first", "second")), anyio.Event()

    async def script(call: Call) -> Response:
        if not call.path.endswith(KEY.name):
            refused.set()
            return refusal(403, "Forbidden", "no")
        return answer(config_map(next(texts)))

    watched = watching(ScriptedTransport(script))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watched.run)
        await refused.wait()
        assert [(await watched.see()).text, (await watched.see()).text] == ["first", "second"]
        tasks.cancel_scope.cancel()
