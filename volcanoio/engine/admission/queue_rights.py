"""Rights to queues: who may name a restricted queue in a Job, CronJob, JobTemplate, JobFlow, PodGroup or pod.

A queue with the label `volcanoio.dev/restricted: "true"` is restricted, and with it all queues below. Its users need
the RBAC verb `use` on it (resource `queues.scheduling.volcano.sh`). The right is checked where a user writes the
queue's name: what controllers create from a CronJob, JobFlow, Job or pod was checked with that object. The functions
here find the queues that a request names and the rights that they need; the caller asks the API server.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from volcanoio.engine.admission.request import (
    AdmissionLookup,
    AdmissionSettings,
    Operation,
    Read,
    ReviewRequest,
    User,
    decode_stored,
)
from volcanoio.model import kinds, names
from volcanoio.model.base import Manifest
from volcanoio.model.flow import JobFlow, JobTemplate
from volcanoio.model.scheduling import PodGroup, Queue

VERB = "use"
_SERVICE_ACCOUNTS = "system:serviceaccounts"
_JOB_OWNERS = frozenset({(kind.api_version, kind.kind) for kind in (kinds.CRON_JOB, kinds.JOB_FLOW)})

_FEW = 8
"""Templates that are read one by one; more are listed with all others of their namespace."""
_USERS_OF_QUEUES = frozenset({
    kind.resource
    for kind in (kinds.JOB, kinds.CRON_JOB, kinds.JOB_TEMPLATE, kinds.JOB_FLOW, kinds.POD_GROUP, kinds.POD)
})  # fmt: skip


class QueueUse(NamedTuple):
    """A queue that a request names, and the field that names it."""

    field: str
    queue: str


class RequiredRight(NamedTuple):
    """A restricted queue whose use needs a right: the named queue or one above it."""

    use: QueueUse
    restricted: str

    def refusal(self, user: User, reason: str) -> str:
        """Return the message for a user without the right."""
        name = self.restricted
        scope = "restricted" if name == self.use.queue else f"below queue {name}, which is restricted"
        why = f" ({reason})" if reason else ""
        return (
            f"{self.use.field}: user {user.username} may not use queue {self.use.queue}, which is {scope}{why}; "
            f"choose another queue, or ask for the RBAC verb {VERB} on queues.scheduling.volcano.sh {name}"
        )


def reads_for_rights(request: ReviewRequest) -> tuple[Read, ...]:
    """Return the objects that `used_queues` and `required_rights` look up."""
    if request.operation is Operation.DELETE or request.resource not in _USERS_OF_QUEUES:
        return ()
    found = [Read(kinds.QUEUE)]
    if request.resource == kinds.JOB_FLOW.resource and (flow := decode_stored(request.object, JobFlow)) is not None:
        wanted = dict.fromkeys(part.name for part in flow.spec.flows if part.name)
        one_by_one = [Read(kinds.JOB_TEMPLATE, name, request.namespace) for name in wanted]
        found += one_by_one if len(wanted) <= _FEW else [Read(kinds.JOB_TEMPLATE, "", request.namespace)]
    if request.resource == kinds.POD.resource and (group := _annotations(request.object).get(names.GROUP_NAME)):
        found.append(Read(kinds.POD_GROUP, str(group), request.namespace))
    return tuple(found)


def used_queues(request: ReviewRequest, lookup: AdmissionLookup) -> list[QueueUse]:
    """Return the queues that a write makes use of; of an update only those of changed parts."""
    new, old = request.object or {}, request.old or {}
    spec, before = _mapping(new.get("spec")), _mapping(old.get("spec"))
    creating = request.operation is Operation.CREATE
    if request.operation is Operation.DELETE:
        return []
    match request.resource:
        case kinds.JOB.resource if creating:
            return [_use("spec.queue", spec)]
        case kinds.CRON_JOB.resource if spec.get("jobTemplate") != before.get("jobTemplate"):
            return [_use("spec.jobTemplate.spec.queue", _mapping(_mapping(spec.get("jobTemplate")).get("spec")))]
        case kinds.JOB_TEMPLATE.resource if spec != before:
            return [_use("spec.queue", spec)]
        case kinds.JOB_FLOW.resource if spec != before:
            return list(_flow_uses(request, lookup))
        case kinds.POD_GROUP.resource if creating or spec.get("queue") != before.get("queue"):
            return [_use("spec.queue", spec)]
        case kinds.POD.resource if creating or _queue_annotations(new) != _queue_annotations(old):
            return [_pod_use(request, lookup)]
    return []


def required_rights(uses: list[QueueUse], lookup: AdmissionLookup) -> list[RequiredRight]:
    """Return the restricted queues among the used ones and those above them."""
    return [RequiredRight(use, name) for use in uses for name in _restricted_ancestry(use.queue, lookup)]


def subjects(request: ReviewRequest, user: User) -> tuple[User, ...]:
    """Return the users of whom one must have the right: the author, for a pod also its service account.

    Controllers of Kubernetes create the pods of Deployments and the like; their service accounts say who runs there.
    """
    if request.resource != kinds.POD.resource or request.object is None:
        return (user,)
    account = _mapping(request.object.get("spec")).get("serviceAccountName") or "default"
    namespace = request.namespace
    return (
        user,
        User(
            username=f"system:serviceaccount:{namespace}:{account}",
            groups=(_SERVICE_ACCOUNTS, f"{_SERVICE_ACCOUNTS}:{namespace}", "system:authenticated"),
        ),
    )


def is_reviewed_child(request: ReviewRequest, user: User, settings: AdmissionSettings) -> bool:
    """Return whether a trusted controller creates the object for an owner whose queues were reviewed.

    The controllers' account has no right of its own by this: a Job without such an owner needs one.
    """
    if user.username not in settings.trusted_users or request.object is None:
        return False
    owners = _mapping(request.object.get("metadata")).get("ownerReferences") or ()
    found = next((_mapping(owner) for owner in owners if _mapping(owner).get("controller") is True), None)
    if found is None:
        return False
    if request.resource == kinds.JOB.resource:
        return (found.get("apiVersion"), found.get("kind")) in _JOB_OWNERS
    return request.resource in (kinds.POD_GROUP.resource, kinds.POD.resource)


def _flow_uses(request: ReviewRequest, lookup: AdmissionLookup) -> Iterator[QueueUse]:
    """Iterate over the queues of a flow's jobs; a template that does not exist is reviewed when it is created."""
    if (flow := decode_stored(request.object, JobFlow)) is None:
        return
    for number, part in enumerate(flow.spec.flows):
        if part.patch is not None and "queue" in part.patch.job_spec:
            yield _use(f"spec.flows[{number}].patch.jobSpec.queue", part.patch.job_spec)
        elif isinstance(template := lookup.get(kinds.JOB_TEMPLATE, part.name, request.namespace), JobTemplate):
            yield _use(f"spec.flows[{number}].name", template.spec)


def _pod_use(request: ReviewRequest, lookup: AdmissionLookup) -> QueueUse:
    """Return the queue of a pod: that of the PodGroup it joins, or the one that its new PodGroup will have."""
    annotations = _annotations(request.object)
    group = lookup.get(kinds.POD_GROUP, str(annotations.get(names.GROUP_NAME, "")), request.namespace)
    if isinstance(group, PodGroup):
        return QueueUse(f"metadata.annotations[{names.GROUP_NAME}]", group.spec.queue or names.DEFAULT_QUEUE)
    queue = annotations.get(names.QUEUE_NAME_ANNOTATION) or names.DEFAULT_QUEUE
    return QueueUse(f"metadata.annotations[{names.QUEUE_NAME_ANNOTATION}]", str(queue))


def _restricted_ancestry(name: str, lookup: AdmissionLookup) -> Iterator[str]:
    """Iterate over the restricted queues from a queue up to the root; ends at a cycle."""
    seen: set[str] = set()
    while name and name not in seen and isinstance(queue := lookup.get(kinds.QUEUE, name), Queue):
        seen.add(name)
        if queue.metadata.labels.get(names.RESTRICTED) == "true":
            yield name
        name = "" if name == names.ROOT_QUEUE else queue.spec.parent or names.ROOT_QUEUE


def _use(field: str, spec: Mapping[str, Any]) -> QueueUse:
    return QueueUse(field, str(spec.get("queue") or names.DEFAULT_QUEUE))


def _queue_annotations(pod: Manifest) -> tuple[Any, Any]:
    annotations = _annotations(pod)
    return annotations.get(names.GROUP_NAME), annotations.get(names.QUEUE_NAME_ANNOTATION)


def _annotations(manifest: Manifest | None) -> Mapping[str, Any]:
    return _mapping(_mapping((manifest or {}).get("metadata")).get("annotations"))


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
