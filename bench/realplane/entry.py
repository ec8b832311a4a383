"""One component of volcanoio as a process, for checkouts that have no command for it.

`python -P entry.py scheduler|controllers KUBECONFIG`, run by the interpreter of any checkout since ff6d65a: modules are
imported by the names that they have there. This file imports nothing of `bench`.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import anyio


def first_of(*names: str) -> Any:
    """Return the attribute that exists, of names like `package.module:attribute`."""
    for name in names:
        module, _, attribute = name.partition(":")
        try:
            return getattr(import_module(module), attribute)
        except (ImportError, AttributeError):
            continue
    raise ImportError(f"none of {', '.join(names)} exists")


async def run(component: str, kubeconfig: Path) -> None:
    """Run one component with its default settings until cancelled."""
    first_of(
        "volcanoio.runtime.garbage_collection:tune_garbage_collector",
        "volcanoio.compose.gc_tuning:tune_garbage_collector",
        "volcanoio.compose.collector:collect_rarely",
    )()
    discover = first_of("volcanoio.runtime.loading.registry:discover", "volcanoio.runtime.loading:discover")
    from_file = first_of("volcanoio.kube.kubeconfig:from_file", "volcanoio.kube.config:from_file")
    http = first_of("volcanoio.kube.http_transport:HttpTransport", "volcanoio.kube.http:HttpTransport")
    clock = first_of("volcanoio.kube.clock:WallClock")()
    process, settings = {
        "scheduler": (
            "volcanoio.compose.scheduler:SchedulerProcess",
            "volcanoio.compose.scheduler:SchedulerSettings",
        ),
        "controllers": (
            "volcanoio.compose.controllers:ControllerManager",
            "volcanoio.compose.controllers:ControllerSettings",
        ),
    }[component]
    transport = http(await from_file(kubeconfig))
    try:
        await first_of(process)(transport, clock=clock, settings=first_of(settings)(registry=discover())).run()
    finally:
        await transport.aclose()


def event_loop() -> dict[str, Any]:
    """Return the options of `anyio.run` with which the checkout's commands run components."""
    try:
        options: dict[str, Any] = first_of("volcanoio.cli.components:EVENT_LOOP")
    except ImportError:
        return {}
    return options


if __name__ == "__main__":
    anyio.run(run, sys.argv[1], Path(sys.argv[2]), backend_options=event_loop())
