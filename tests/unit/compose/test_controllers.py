"""The controllers' process: when it is ready."""

from __future__ import annotations

import anyio

from tests.localcluster.apiserver.api import running
from volcanoio.compose.controllers import ControllerManager, ControllerSettings
from volcanoio.compose.local import install_crds
from volcanoio.kube.clock import WallClock
from volcanoio.runtime.loading.registry import discover


async def test_the_controllers_are_synced_once_everything_is_listed() -> None:
    async with running() as api, anyio.create_task_group() as tasks:
        await install_crds(api.transport)
        manager = ControllerManager(
            api.transport, clock=WallClock(), settings=ControllerSettings(registry=discover(), policies=())
        )
        tasks.start_soon(manager.run)
        await manager.synced()
        listed = {informer.kind.plural for informer in manager.informers if informer.is_synced}
        assert {"jobs", "pods", "podgroups", "queues"} <= listed
        tasks.cancel_scope.cancel()
