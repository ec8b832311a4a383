"""Kinds that make pods of a template; none of them makes any here."""

from __future__ import annotations

import random

from tests.contract.differential.kind import Kind, Obj, chosen, obj, some
from tests.contract.differential.kinds.core import pod

_SURGES = ("30%", 2, 0, -1, "many", "130%")


def _template(name: str, rng: random.Random) -> Obj:
    labels = {"app": name}
    spec = pod(name, rng)["spec"] | {"restartPolicy": rng.choice(("Always",) * 6 + ("Never", "Odd"))}
    return {"metadata": {"labels": rng.choice((labels,) * 5 + ({"app": "other"},))}, "spec": spec}


def _spec(name: str, rng: random.Random) -> Obj:
    selector = rng.choice(({"matchLabels": {"app": name}},) * 8 + ({}, {"matchExpressions": [{"key": "x"}]}))
    return {"replicas": 0, "selector": selector, "template": _template(name, rng)}


def _deployment(name: str, rng: random.Random) -> Obj:
    spec = _spec(name, rng)
    rolling = {"rollingUpdate": some(rng, 0.5, maxSurge=chosen(*_SURGES), maxUnavailable=chosen(*_SURGES))}
    rolling |= some(rng, 0.3, type=chosen("Recreate", "RollingUpdate"))
    spec |= some(rng, 0.3, strategy=chosen({"type": "Recreate"}, {"type": "Odd"}, rolling), minReadySeconds=5)
    spec |= some(rng, 0.2, progressDeadlineSeconds=chosen(5, 3, 0))
    return obj("apps/v1", "Deployment", name, spec=spec)


def _replica_set(name: str, rng: random.Random) -> Obj:
    return obj("apps/v1", "ReplicaSet", name, spec=_spec(name, rng))


def _controller(name: str, rng: random.Random) -> Obj:
    spec = _spec(name, rng) | {"selector": rng.choice(({"app": name}, {"app": name}, {}))}
    return obj("v1", "ReplicationController", name, spec=spec)


def _stateful_set(name: str, rng: random.Random) -> Obj:
    spec = _spec(name, rng)
    strategy = rng.choice(
        ({"type": "OnDelete"}, {"type": "Odd"}, {"rollingUpdate": {"partition": rng.choice((2, -1))}})
    )
    claim = {"metadata": {"name": "c"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
    spec |= some(
        rng,
        0.2,
        serviceName="web",
        updateStrategy=strategy,
        podManagementPolicy=chosen("Parallel", "Odd"),
        volumeClaimTemplates=[claim],
        persistentVolumeClaimRetentionPolicy=chosen({"whenDeleted": "Delete"}, {"whenScaled": "Odd"}),
        ordinals={"start": rng.choice((1, -1))},
    )
    return obj("apps/v1", "StatefulSet", name, spec=spec)


def _daemon_set(name: str, rng: random.Random) -> Obj:
    spec = _spec(name, rng)
    del spec["replicas"]
    spec["template"]["spec"]["nodeSelector"] = {"absent": "has"}
    rolling = {"rollingUpdate": some(rng, 0.5, maxSurge=chosen(*_SURGES), maxUnavailable=chosen(*_SURGES))}
    spec |= some(rng, 0.3, updateStrategy=chosen({"type": "OnDelete"}, {"type": "Odd"}, rolling))
    return obj("apps/v1", "DaemonSet", name, spec=spec)


def _job_spec(name: str, rng: random.Random) -> Obj:
    template = _template(name, rng)
    template["spec"]["restartPolicy"] = rng.choice(("Never", "OnFailure", "Never", "OnFailure", "Always", "Odd"))
    spec: Obj = {"template": template, "suspend": True, "parallelism": rng.choice((0, 1, -1))}
    return spec | some(
        rng,
        0.15,
        completions=chosen(1, 2, -1),
        completionMode=chosen("Indexed", "Odd"),
        backoffLimit=chosen(0, -1),
        activeDeadlineSeconds=chosen(100, -1),
        ttlSecondsAfterFinished=chosen(100, -1),
        manualSelector=True,
        podReplacementPolicy=chosen("Failed", "Odd"),
        backoffLimitPerIndex=1,
        selector={"matchLabels": {"app": name}},
    )


def _job(name: str, rng: random.Random) -> Obj:
    return obj("batch/v1", "Job", name, spec=_job_spec(name, rng))


def _cron_job(name: str, rng: random.Random) -> Obj:
    schedules = ("0 0 1 1 *", "@yearly", "rubbish", "", "TZ=UTC 0 0 1 1 *", "61 * * * *")
    spec: Obj = {"schedule": rng.choice((*schedules[:2], *schedules)), "suspend": True}
    spec["jobTemplate"] = {"spec": {**_job_spec(name, rng), "suspend": False}}
    spec |= some(
        rng,
        0.15,
        concurrencyPolicy=chosen("Forbid", "Odd"),
        successfulJobsHistoryLimit=chosen(1, -1),
        startingDeadlineSeconds=chosen(10, -1),
        timeZone=chosen("Etc/UTC", "Nowhere/Land", ""),
    )
    return obj("batch/v1", "CronJob", name, spec=spec)


def _pod_template(name: str, rng: random.Random) -> Obj:
    return obj("v1", "PodTemplate", name, template=_template(name, rng))


def _change(rng: random.Random) -> Obj:
    return rng.choice(
        (
            {"spec": {"minReadySeconds": rng.choice((3, -1))}},
            {"spec": {"selector": {"matchLabels": {"app": "other"}}}},
            {"spec": {"paused": rng.choice((True, None))}},
            {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "other:3"}]}}}},
            {"spec": {"template": {"spec": {"containers": []}}}},
            {"spec": {"revisionHistoryLimit": rng.choice((2, -2))}},
            {"spec": {"serviceName": "other", "podManagementPolicy": "Parallel"}},
        )
    )


def _job_change(rng: random.Random) -> Obj:
    return rng.choice(
        (
            {"spec": {"parallelism": rng.choice((2, -1))}},
            {"spec": {"completions": 3}},
            {"spec": {"backoffLimit": 4}},
            {"spec": {"completionMode": "Indexed"}},
            {"spec": {"template": {"spec": {"nodeSelector": {"a": "b"}}}}},
            {"spec": {"template": {"spec": {"restartPolicy": "OnFailure"}}}},
        )
    )


def _cron_change(rng: random.Random) -> Obj:
    return {"spec": rng.choice(({"schedule": rng.choice(("@monthly", "x"))}, {"concurrencyPolicy": "Replace"}))}


def _template_change(rng: random.Random) -> Obj:
    return {"template": {"spec": {"schedulerName": rng.choice(("a", "b"))}}}


WORKLOADS = (
    Kind("deployments.v1.apps", _deployment, _change, shared=True),
    Kind("replicasets.v1.apps", _replica_set, _change, shared=True),
    Kind("statefulsets.v1.apps", _stateful_set, _change, shared=True),
    Kind("daemonsets.v1.apps", _daemon_set, _change, shared=True),
    Kind("replicationcontrollers", _controller, _change, shared=True),
    Kind("jobs.v1.batch", _job, _job_change, shared=True),
    Kind("cronjobs.v1.batch", _cron_job, _cron_change, shared=True),
    Kind("podtemplates", _pod_template, _template_change),
)
