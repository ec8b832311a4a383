"""Device claims: the claims that tasks name, and what they ask for (dynamic resource allocation).

A pod names a claim, or a template from which a controller makes a claim for it; `status.resourceClaimStatuses` of the
pod has the name of that. For extended resources that devices back, the scheduler makes a claim. Messages: Kubernetes
k8s.io/dynamic-resource-allocation/resourceclaim.
"""

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from volcanoio.engine.scheduling.cluster.inputs import Inputs
from volcanoio.engine.scheduling.cluster.jobs import TaskInfo
from volcanoio.framework.scheduling.views import DeviceClaim, Task, TaskStatus
from volcanoio.model import kinds
from volcanoio.model.dynamic_resources.extended_resources import ExtendedRequests, claim_name, extended_requests
from volcanoio.model.dynamic_resources.objects import ClaimedDevices, ResourceClaim

DEVICE_CLAIMS = kinds.RESOURCE_CLAIM.resource
_NOT_CREATED = "ResourceClaim not created yet"
_ENCODE = msgspec.json.Encoder(order="sorted").encode


class DeviceClaims:
    """The device claims of tasks. Implements `views.DeviceClaimsView`."""

    def __init__(self, inputs: Inputs, tasks: Mapping[str, TaskInfo]) -> None:
        self._inputs = inputs
        self._tasks = tasks
        self.backing: Mapping[str, str] = {}
        """Extended resources for which devices are claimed, and the class of each."""

    def claims(self, task: Task) -> Sequence[tuple[str, DeviceClaim]]:
        """Return the claims of a task by key, in the order of its spec; without the key for one that has no name."""
        return tuple(self._claims(task))

    def status_of(self, uid: str) -> TaskStatus | None:
        """Return the status of the task of a pod, None if there is no such pod."""
        return None if (task := self._tasks.get(uid)) is None else task.status

    def _claims(self, task: Task) -> Iterator[tuple[str, DeviceClaim]]:
        pod = task.pod
        statuses = {status.get("name"): status for status in pod.status.resource_claim_statuses}
        for entry in pod.spec.resource_claims:
            is_own = not entry.get("resourceClaimName")
            if is_own:
                if (status := statuses.get(entry.get("name"))) is None:
                    yield "", DeviceClaim(error=_NOT_CREATED)
                    continue
                if not (name := status.get("resourceClaimName")):
                    continue  # no claim is needed for this entry
            else:
                name = entry["resourceClaimName"]
            yield self._claim(task, str(name), is_own=is_own)
        if self.backing and (extended := extended_requests(pod.spec, self.backing)).requests:
            yield self._extended(task, extended)

    def _extended(self, task: Task, extended: ExtendedRequests) -> tuple[str, DeviceClaim]:
        """Return the claim for the extended resources of a task: the one that exists, or the one to make."""
        status = task.pod.status.extended_resource_claim_status or {}
        name = str(status.get("resourceClaimName") or claim_name(task.pod))
        if f"{task.namespace}/{name}" in self._inputs.objects(DEVICE_CLAIMS):
            return self._claim(task, name, is_own=True)
        devices = msgspec.convert({"requests": extended.requests}, ClaimedDevices)
        return f"{task.namespace}/{name}", DeviceClaim(devices=_ENCODE(devices), is_extended=True)

    def _claim(self, task: Task, name: str, *, is_own: bool) -> tuple[str, DeviceClaim]:
        key = f"{task.namespace}/{name}"
        claim = self._inputs.objects(DEVICE_CLAIMS).get(key)
        if not isinstance(claim, ResourceClaim):
            return key, DeviceClaim(error=f'resourceclaim "{name}" not found')
        if claim.metadata.deletion_timestamp is not None:
            return key, DeviceClaim(error=f'resourceclaim "{name}" is being deleted')
        owner = claim.metadata.controller
        if is_own and (owner is None or owner.uid != task.uid):
            return key, DeviceClaim(error=f'resourceclaim "{name}" was not created for the pod: it does not own it')
        is_anonymous = is_own and claim.status.allocation is None
        devices = _ENCODE(msgspec.structs.replace(claim.spec.devices, config=()))
        return key, DeviceClaim(key="" if is_anonymous else key, devices=devices)
