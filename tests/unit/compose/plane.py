"""An API server in this process, as a new cluster has it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

from volcanoio.compose.controllers import WorkloadControllers
from volcanoio.compose.local import all_controllers
from volcanoio.kube.client import Client
from volcanoio.localcluster.apiserver.apimachinery.clock import WallClock
from volcanoio.localcluster.apiserver.core import Core
from volcanoio.localcluster.apiserver.inprocess import InProcessTransport
from volcanoio.localcluster.apiserver.server import ApiServer
from volcanoio.localcluster.apiserver.server import install as install_endpoints
from volcanoio.localcluster.apiserver.storage.store import Store
from volcanoio.localcluster.clock import RunningClock


@asynccontextmanager
async def plane() -> AsyncIterator[Client]:
    """Run an API server with Kubernetes' controllers: no definitions of ours, no admission, no kubelets."""
    async with ApiServer(Core(Store(), WallClock())).running() as server:
        install_endpoints(server)
        controllers = WorkloadControllers(InProcessTransport(server), RunningClock(), all_controllers())
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(controllers.run)
            yield Client(InProcessTransport(server))
            tasks.cancel_scope.cancel()
