"""Objects for admission tests: a good one each, changed by path."""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from typing import Any

from volcanoio_plugins.job.env import EnvPlugin
from volcanoio_plugins.job.hcclrank import HcclrankPlugin
from volcanoio_plugins.job.mpi import MpiPlugin
from volcanoio_plugins.job.pytorch import PytorchPlugin
from volcanoio_plugins.job.ray import RayPlugin
from volcanoio_plugins.job.ssh import SshPlugin
from volcanoio_plugins.job.svc import SvcPlugin
from volcanoio_plugins.job.tensorflow import TensorflowPlugin

from volcanoio.engine.admission.request import AdmissionSettings, Operation, Review, ReviewRequest
from volcanoio.engine.admission.review import review
from volcanoio.model import kinds
from volcanoio.model.base import ApiObject, Manifest, ObjectMeta
from volcanoio.model.core import Namespace
from volcanoio.model.kinds import Kind
from volcanoio.model.scheduling import Guarantee, Queue, QueueSpec, QueueStatus

TEMPLATE: Manifest = {"spec": {"containers": [{"name": "main", "image": "busybox"}], "restartPolicy": "Never"}}
SETTINGS = AdmissionSettings(
    job_plugins={
        plugin.name: plugin
        for plugin in (
            EnvPlugin,
            HcclrankPlugin,
            MpiPlugin,
            PytorchPlugin,
            RayPlugin,
            SshPlugin,
            SvcPlugin,
            TensorflowPlugin,
        )
    },
)


def task(name: str = "main", replicas: int = 1, **more: Any) -> Manifest:
    return {"name": name, "replicas": replicas, "template": deepcopy(TEMPLATE), **more}


def job(*tasks: Manifest, name: str = "j", **spec: Any) -> Manifest:
    listed = list(tasks) or [task()]
    return {"metadata": {"name": name, "namespace": "ns"}, "spec": {"queue": "default", "tasks": listed, **spec}}


def queue(name: str, parent: str = "root", state: str = "Open", **spec: Any) -> Queue:
    if "guarantee" in spec:
        spec["guarantee"] = Guarantee(resource=spec["guarantee"])
    pods = spec.pop("pods", None)
    status = QueueStatus(state=state, allocated={} if pods is None else {"pods": pods})
    annotations = spec.pop("annotations", {})
    return Queue(
        metadata=ObjectMeta(name=name, annotations=annotations),
        spec=QueueSpec(parent="" if name == "root" else parent, **spec),
        status=status,
    )


class Stored:
    """A lookup over objects."""

    def __init__(self, *objects: ApiObject) -> None:
        self._objects = {(kinds.of(obj).resource, obj.metadata.key): obj for obj in objects}

    def get(self, kind: Kind, name: str, namespace: str = "") -> ApiObject | None:
        return self._objects.get((kind.resource, f"{namespace}/{name}" if namespace else name))

    def all(self, kind: Kind) -> Iterable[ApiObject]:
        return [obj for (resource, _), obj in self._objects.items() if resource == kind.resource]


QUEUES = (
    queue("root"),
    queue("default"),
    queue("closed", state="Closed"),
    queue("closing", state="Closing"),
    queue("fresh", state=""),
    queue("parent"),
    queue("child", parent="parent"),
    Namespace(metadata=ObjectMeta(name="team", annotations={"scheduling.volcano.sh/queue-name": "child"})),
)


def create(kind: Kind, obj: Manifest, *stored: ApiObject, settings: AdmissionSettings = SETTINGS) -> Review:
    meta = obj["metadata"]
    request = ReviewRequest(
        operation=Operation.CREATE,
        resource=kind.resource,
        name=meta["name"],
        namespace=meta.get("namespace", ""),
        object=obj,
    )
    return review(request, Stored(*(stored or QUEUES)), settings)


def update(
    kind: Kind, old: Manifest, new: Manifest, *stored: ApiObject, settings: AdmissionSettings = SETTINGS
) -> Review:
    request = ReviewRequest(
        operation=Operation.UPDATE, resource=kind.resource, name=new["metadata"]["name"], object=new, old=old
    )
    return review(request, Stored(*(stored or QUEUES)), settings)


def delete(kind: Kind, name: str, *stored: ApiObject, settings: AdmissionSettings = SETTINGS) -> Review:
    request = ReviewRequest(operation=Operation.DELETE, resource=kind.resource, name=name)
    return review(request, Stored(*(stored or QUEUES)), settings)
