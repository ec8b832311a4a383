"""`doctor` against a cluster: all is well, and what it says once things are broken."""

from __future__ import annotations

import json

from tests.commands import Ended, run_aside
from tests.scenario.cluster.harness import Cluster, cluster
from volcanoio.model import kinds
from volcanoio.model.custom import custom_kind

CONFIGURATION = "actions: allocate\ntiers:\n- plugins:\n  - name: gnag\n"
WEBHOOKS = custom_kind(
    "admissionregistration.k8s.io", "v1", "MutatingWebhookConfiguration", namespaced=False, status_subresource=False
)


async def _doctor(c: Cluster, *words: str, code: int = 0) -> Ended:
    environment = {"KUBECONFIG": str(c.local.kubeconfig), "PATH": "", "HOME": "/nonexistent"}
    done = await run_aside("doctor", *words, environment=environment)
    assert done.code == code, done.out + done.err
    return done


async def test_a_new_cluster_is_well_and_a_broken_one_gets_advice() -> None:
    async with cluster(nodes=1) as c:
        lines = (await _doctor(c)).out.splitlines()
        assert lines[-1] == "0 errors, 0 warnings"
        assert {line.split()[0] for line in lines[:-1]} == {"ok"}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"}}
        spec = {"schedulerName": "volcanoo", "containers": [{"name": "c", "image": "i"}]}
        await c.create({**pod, "spec": spec})
        metadata = {"name": "volcano-scheduler-configmap", "namespace": "volcano-system"}
        await c.create(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": metadata,
                "data": {"volcano-scheduler.conf": CONFIGURATION},
            }
        )
        rule = {"apiGroups": ["batch.volcano.sh"], "apiVersions": ["*"], "resources": ["jobs"], "operations": ["*"]}
        webhook = {
            "name": "mutatejob.volcano.sh",
            "clientConfig": {"url": "https://127.0.0.1:1/jobs"},
            "rules": [rule],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }
        await c.client.create(WEBHOOKS, {"metadata": {"name": "admission"}, "webhooks": [webhook]})
        text = (await _doctor(c, code=1)).out
        assert text.splitlines()[-1] == "3 errors, 0 warnings"
        found = {each["check"]: each for each in json.loads((await _doctor(c, "-o", "json", code=1)).out)}
        assert {name for name, each in found.items() if each["severity"] == "error"} == {
            "admission",
            "configuration",
            "schedulers",
        }
        assert 'line 4: plugin "gnag" is unknown; did you mean "gang"?' in found["configuration"]["text"]
        assert "kubectl edit configmap volcano-scheduler-configmap" in found["configuration"]["advice"]
        assert "failed calling webhook" in found["admission"]["text"]
        assert found["schedulers"]["text"].startswith('pod default/p: schedulerName "volcanoo"')
        assert f"-> {found['schedulers']['advice']}" in text
        assert (await c.client.list(kinds.JOB)) == []  # the Job of the trial is not stored
