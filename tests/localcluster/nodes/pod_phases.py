"""The life of a simulated pod as a list of what its status showed."""

from __future__ import annotations

from tests.localcluster.nodes.pods import T0
from volcanoio.localcluster.nodes.pods.lifecycle import advance
from volcanoio.localcluster.nodes.pods.podrun import PodRun
from volcanoio.localcluster.nodes.pods.status import status_of


def seen(run: PodRun) -> str:
    """Phase, then each container as state:detail#restarts."""
    parts = [str(run.phase)]
    status = status_of(run)
    for container in (*status.get("initContainerStatuses", ()), *status["containerStatuses"]):
        ((kind, detail),) = container["state"].items()
        text = {"running": "", "waiting": detail.get("reason"), "terminated": detail.get("exitCode")}[kind]
        restarts = f"#{container['restartCount']}" if container["restartCount"] else ""
        parts.append(f"{kind}{'' if text == '' else f':{text}'}{restarts}")
    if run.reason:
        parts.append(run.reason)
    return " ".join(parts)


def watched(run: PodRun, *moments: float) -> list[str]:
    return [seen(run := advance(run, T0 + moment)) for moment in moments]
