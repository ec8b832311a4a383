"""exec by an unmodified kubernetes-asyncio."""

from __future__ import annotations

from typing import Any

from kubernetes_asyncio import client, config
from kubernetes_asyncio.stream import WsApiClient

from tests.contract.support import Namespace, connections_closed
from tests.scenario.run.up_process import UpProcess, run_pod, shell, until


async def test_a_command_is_run(running: UpProcess, namespace: Namespace) -> None:
    path = run_pod(namespace, "box", shell("sleep 1000"))
    until(running.cluster, path, lambda pod: pod["status"].get("phase") == "Running")
    configuration = client.Configuration()
    await config.load_kube_config(str(running.kubeconfig), client_configuration=configuration)
    async with WsApiClient(configuration) as api:
        core = client.CoreV1Api(api)
        exec_: Any = core.connect_get_namespaced_pod_exec  # its stub knows neither lists nor sockets
        both = ["sh", "-c", "echo one; echo two >&2"]
        said = await exec_("box", namespace.name, command=both, stdout=True, stderr=True)
        assert sorted(said.split()) == ["one", "two"]
        fails = ["sh", "-c", "exit 4"]
        socket = await exec_("box", namespace.name, command=fails, stdout=True, _preload_content=False)
        async with socket as messages:
            errors = [message.data[1:] async for message in messages if message.data[0] == 3]
        assert WsApiClient.parse_error_data(errors[0].decode()) == 4
    await connections_closed()
