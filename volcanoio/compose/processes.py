"""What `--run` adds to a local cluster: a runtime of local processes, and exec and attach into them."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path

from volcanoio.compose.options import LocalOptions
from volcanoio.kube.transport import Transport
from volcanoio.localcluster.apiserver.server import ApiServer
from volcanoio.localcluster.clock import Clock
from volcanoio.localcluster.processes.images import Images
from volcanoio.localcluster.processes.runtime import ProcessRuntime
from volcanoio.localcluster.processes.sessions import ProcessSessions
from volcanoio.localcluster.processes.upkeep import sweep


async def process_runtimes(
    stack: AsyncExitStack, options: LocalOptions, api: ApiServer, transport: Transport, clock: Clock, directory: Path
) -> dict[str, ProcessRuntime]:
    """The runtimes of the nodes by name. What was started ends with the stack."""
    if options.memory:
        stack.callback(sweep, directory, frozenset())  # no later server knows these pods
    runtime = ProcessRuntime(transport, clock, directory, Images.parse(options.run_image))
    await stack.enter_async_context(runtime.running())
    api.serve_streams(ProcessSessions(runtime))
    return {runtime.name: runtime}
