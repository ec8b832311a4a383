"""Examples of old guides that cannot work, recorded with what their users see."""

from __future__ import annotations

import pytest

from tests.scenario.cluster.harness import cluster
from tests.scenario.integrations.support import create
from volcanoio.kube import requests
from volcanoio.kube.errors import NotFound
from volcanoio.model import kinds

GONE = {
    "a Spark guide of 2019: PodGroup": ("scheduling.incubator.k8s.io/v1alpha1", "PodGroup"),
    "a Spark guide of 2019: SparkApplication": ("sparkoperator.k8s.io/v1beta1", "SparkApplication"),
    "priorities of 2019": ("scheduling.k8s.io/v1beta1", "PriorityClass"),
}


async def test_versions_that_are_gone_are_not_found() -> None:
    async with cluster(nodes=1) as c:
        for version, kind in GONE.values():
            with pytest.raises(NotFound):
                await create(c, {"apiVersion": version, "kind": kind, "metadata": {"name": "old"}})


async def test_the_pod_field_of_the_elastic_job_is_dropped_with_a_warning() -> None:
    """The field of a pod is priorityClassName; `priorityClass` is in no version of Kubernetes."""
    container = {"name": "main", "image": "busybox"}
    template = {"spec": {"priorityClass": "high", "containers": [container]}}
    spec = {"minAvailable": 1, "schedulerName": "volcano", "tasks": [{"replicas": 1, "template": template}]}
    job = {"apiVersion": kinds.JOB.api_version, "kind": "Job", "metadata": {"name": "elastic"}, "spec": spec}
    async with cluster(nodes=1) as c:
        response = await requests.create(kinds.JOB, job, namespace="default").send(c.client.transport)
        assert response.status == 201
        assert response.headers["Warning"].replace("\\", "") == (
            '299 - "unknown field "spec.tasks[0].template.spec.priorityClass"; did you mean "priorityClassName"?"'
        )
        await c.job("elastic", "Running")
