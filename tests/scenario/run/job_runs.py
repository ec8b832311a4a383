"""Jobs that run to completion as processes, and what their pods print."""

from __future__ import annotations

from tests.contract.support import Namespace, Obj
from tests.scenario.run.up_process import log, until

JOBS = "jobs.v1alpha1.batch.volcano.sh"


def completed(namespace: Namespace, job: Obj) -> None:
    """Create a job and wait until it is completed."""
    namespace.cluster.create(namespace.path(JOBS), job).ok()
    path = namespace.path(JOBS, job["metadata"]["name"])
    ended = ("Completed", "Failed", "Aborted", "Terminated")
    done = until(namespace.cluster, path, lambda one: one.get("status", {}).get("state", {}).get("phase") in ended)
    assert done["status"]["state"]["phase"] == "Completed", done["status"]


def said(namespace: Namespace, pod: str) -> list[str]:
    """The lines of a pod's log."""
    return log(namespace.cluster, namespace.path("pods", pod)).splitlines()
