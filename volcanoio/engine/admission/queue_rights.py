"""Rights to queues: who may name a restricted queue in a Job, CronJob, JobTemplate, JobFlow, PodGroup or pod.

Native PodGroups and their Workloads (scheduling.k8s.io) name a queue in an annotation or label.

A queue with the label `volcanoio.dev/restricted: "true"` is restricted, and with it all queues below. Its users need
the RBAC verb `use` on it (resource `queues.scheduling.volcano.sh`). The right is checked where a user writes the
queue's name: what controllers create from a CronJob, JobFlow, Job or pod was checked with that object. No name means
the queue default, or the one that the namespace's annotation `scheduling.volcano.sh/queue-name` gives to new PodGroups.
A Command that opens or closes a queue needs the verb `update` on it, restricted or not: Commands are in namespaces,
and queues belong to all. The functions here find the queues that a request names and the rights that they need; the
caller asks the API server.
"""

from collections.abc import Iterable, Iterator, Mapping
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
from volcanoio.model.base import ApiObject, Manifest
from volcanoio.model.flow import JobFlow, JobTemplate
from volcanoio.model.kinds import Kind
from volcanoio.model.scheduling import PodGroup, Queue
from volcanoio.model.validation.dns_names import subdomain_rule
from volcanoio.model.workloads import NativePodGroup, named_queue

USE, UPDATE = "use", "update"
"""RBAC verbs: to name a queue in an object, and to open or close it."""
_SERVICE_ACCOUNTS = "system:serviceaccounts"
_JOB_OWNERS = tuple((kind.api_version, kind.kind) for kind in (kinds.CRON_JOB, kinds.JOB_FLOW))

_FEW = 8
"""Templates that are read one by one; more are listed with all others of their namespace."""
_NAMING = (
    kinds.JOB, kinds.CRON_JOB, kinds.JOB_TEMPLATE, kinds.JOB_FLOW, kinds.POD_GROUP, kinds.POD, kinds.COMMAND,
    *kinds.NATIVE_GROUPS,
)  # fmt: skip
_QUEUE_FIELDS = ("annotations", "labels")
"""Fields of metadata in which native PodGroups and Workloads name a queue."""
_USERS_OF_QUEUES = frozenset({kind.resource for kind in _NAMING})


class QueueUse(NamedTuple):
    """A queue that a request names, and the field that names it."""

    field: str
    queue: str


class _Nothing:
    """A lookup without objects."""

    def get(self, kind: Kind, name: str, namespace: str = "") -> None:  # noqa: ARG002 - as declared
        return None

    def all(self, kind: Kind) -> Iterable[ApiObject]:  # noqa: ARG002 - as declared
        return ()


class _Naming:
    """Makes the uses of queues by their names, of which none and `default` mean the namespace's."""

    def __init__(self, namespace: str, lookup: AdmissionLookup) -> None:
        self._namespace = namespace
        self._default = default_queue_of(namespace, lookup)

    def __call__(self, field: str, name: object) -> QueueUse:
        if name and name != names.DEFAULT_QUEUE:
            return QueueUse(field, str(name))
        if self._default != names.DEFAULT_QUEUE:
            field += f" (by annotation {names.QUEUE_NAME_ANNOTATION} of namespace {self._namespace})"
        return QueueUse(field, self._default)


class RequiredRight(NamedTuple):
    """A queue on which a request needs a right: the named queue or a restricted one above it."""

    use: QueueUse
    queue: str
    verb: str = USE

    def refusal(self, user: User, reason: str) -> str:
        """Return the message for a user without the right."""
        name, named = self.queue, self.use.queue
        why = f" ({reason})" if reason else ""
        ask = f"ask for the RBAC verb {self.verb} on queues.scheduling.volcano.sh {name}"
        if self.verb == UPDATE:
            return f"{self.use.field}: user {user.username} may not open or close queue {named}{why}; {ask}"
        scope = "restricted" if name == named else f"below queue {name}, which is restricted"
        return (
            f"{self.use.field}: user {user.username} may not use queue {named}, which is {scope}{why}; "
            f"choose another queue, or {ask}"
        )


def uses_queues(request: ReviewRequest) -> bool:
    """Return whether a write may make use of a queue."""
    return request.operation is not Operation.DELETE and request.resource in _USERS_OF_QUEUES


def has_restricted(lookup: AdmissionLookup) -> bool:
    """Return whether any queue is restricted."""
    return any(queue.metadata.labels.get(names.RESTRICTED) == "true" for queue in lookup.all(kinds.QUEUE))


def reads_for_rights(request: ReviewRequest) -> tuple[Read, ...]:
    """Return the objects that `used_queues` looks up: those whose names an object can have."""
    if not uses_queues(request):
        return ()
    is_flow = request.resource == kinds.JOB_FLOW.resource
    names_default = is_flow or any(use.queue == names.DEFAULT_QUEUE for use in used_queues(request, _Nothing()))
    found = [Read(kinds.NAMESPACE, request.namespace)] if names_default else []
    if is_flow and (flow := decode_stored(request.object, JobFlow)) is not None:
        wanted = dict.fromkeys(part.name for part in flow.spec.flows if not subdomain_rule(part.name))
        one_by_one = [Read(kinds.JOB_TEMPLATE, name, request.namespace) for name in wanted]
        found += one_by_one if len(wanted) <= _FEW else [Read(kinds.JOB_TEMPLATE, "", request.namespace)]
    if request.resource == kinds.NATIVE_POD_GROUP.resource:
        if not subdomain_rule(workload := _workload_of(request)):
            found.append(Read(kinds.WORKLOAD, workload, request.namespace))
    elif request.resource == kinds.POD.resource:
        if not subdomain_rule(native := _native_group_of(request.object)):
            found.append(Read(kinds.NATIVE_POD_GROUP, native, request.namespace))
            found.append(Read(kinds.WORKLOAD, "", request.namespace))
        elif not subdomain_rule(group := _group_of(request.object)):
            found.append(Read(kinds.POD_GROUP, group, request.namespace))
    return tuple(found)


def used_queues(request: ReviewRequest, lookup: AdmissionLookup) -> list[QueueUse]:
    """Return the queues that a write makes use of; of an update only those of changed parts."""
    if request.operation is Operation.DELETE:
        return []
    if request.resource == kinds.JOB_FLOW.resource:
        return list(_flow_uses(request, lookup))
    if request.resource == kinds.POD.resource:
        return list(_pod_uses(request, lookup))
    if request.resource in (kind.resource for kind in kinds.NATIVE_GROUPS):
        return list(_native_uses(request, lookup))
    new, old = request.object or {}, request.old or {}
    spec, before = _mapping(new.get("spec")), _mapping(old.get("spec"))
    creating = request.operation is Operation.CREATE
    use = _Naming(request.namespace, lookup)
    match request.resource:
        case kinds.JOB.resource if creating:
            return [use("spec.queue", spec.get("queue"))]
        case kinds.CRON_JOB.resource if creating or spec.get("jobTemplate") != before.get("jobTemplate"):
            template = _mapping(_mapping(spec.get("jobTemplate")).get("spec"))
            return [use("spec.jobTemplate.spec.queue", template.get("queue"))]
        case kinds.JOB_TEMPLATE.resource if creating or spec != before:
            return [use("spec.queue", spec.get("queue"))]
        case kinds.POD_GROUP.resource if creating:
            return [use("spec.queue", spec.get("queue"))]
        case kinds.POD_GROUP.resource if spec.get("queue") != before.get("queue"):
            return [QueueUse("spec.queue", str(spec.get("queue") or names.DEFAULT_QUEUE))]
    return []


def default_queue_of(namespace: str, lookup: AdmissionLookup) -> str:
    """Return the queue of new PodGroups of a namespace that name none, or the queue default."""
    home = lookup.get(kinds.NAMESPACE, namespace)
    return (home and home.metadata.annotations.get(names.QUEUE_NAME_ANNOTATION)) or names.DEFAULT_QUEUE


def command_rights(request: ReviewRequest) -> list[RequiredRight]:
    """Return the right that a Command to a queue needs."""
    if request.resource != kinds.COMMAND.resource:
        return []
    target = _mapping((request.object or {}).get("target"))
    if target.get("kind") != kinds.QUEUE.kind:
        return []
    name = str(target.get("name") or "")
    return [RequiredRight(QueueUse("target", name), name, UPDATE)]


def required_rights(uses: list[QueueUse], lookup: AdmissionLookup) -> list[RequiredRight]:
    """Return the restricted queues among the used ones and those above them, each with its first use."""
    first: dict[str, QueueUse] = {}
    for use in uses:
        first.setdefault(use.queue, use)
    found: dict[str, RequiredRight] = {}
    for use in first.values():
        for name in _restricted_ancestry(use.queue, lookup):
            found.setdefault(name, RequiredRight(use, name))
    return list(found.values())


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
    if not (found := _controller(request.object)):
        return False
    if request.resource == kinds.JOB.resource:
        return (found.get("apiVersion"), found.get("kind")) in _JOB_OWNERS
    return request.resource in (kinds.POD_GROUP.resource, kinds.POD.resource)


def _flow_uses(request: ReviewRequest, lookup: AdmissionLookup) -> Iterator[QueueUse]:
    """Iterate over the queues of a flow's jobs; a template that does not exist is reviewed when it is created."""
    new, old = request.object or {}, request.old or {}
    if new.get("spec") == old.get("spec") or (flow := decode_stored(new, JobFlow)) is None:
        return
    use = _Naming(request.namespace, lookup)
    for number, part in enumerate(flow.spec.flows):
        if part.patch is not None and "queue" in part.patch.job_spec:
            yield use(f"spec.flows[{number}].patch.jobSpec.queue", part.patch.job_spec["queue"])
        elif isinstance(template := lookup.get(kinds.JOB_TEMPLATE, part.name, request.namespace), JobTemplate):
            yield use(f"spec.flows[{number}].name", template.spec.get("queue"))


def _pod_uses(request: ReviewRequest, lookup: AdmissionLookup) -> Iterator[QueueUse]:
    """Iterate over the queues of a pod: that of the PodGroup it joins, and the one that its PodGroup will get.

    The annotation with the queue's name moves a PodGroup that the controllers made; in others it has no effect.
    """
    if request.old is not None and _queue_fields(request.old) == _queue_fields(request.object):
        return
    if native := _native_group_of(request.object):
        yield from _native_pod_uses(request, native, lookup)
        return
    annotations, group = _annotations(request.object), _group_of(request.object)
    joined = lookup.get(kinds.POD_GROUP, group, request.namespace) if group else None
    if isinstance(joined, PodGroup):
        is_named = bool(annotations.get(names.GROUP_NAME))
        field = f"metadata.annotations[{names.GROUP_NAME}]" if is_named else "metadata.ownerReferences"
        yield QueueUse(field, joined.spec.queue or names.DEFAULT_QUEUE)
    queue = annotations.get(names.QUEUE_NAME_ANNOTATION)
    if joined is None or (queue and group.startswith(names.PODGROUP_PREFIX)):
        yield _Naming(request.namespace, lookup)(f"metadata.annotations[{names.QUEUE_NAME_ANNOTATION}]", queue)


def _native_uses(request: ReviewRequest, lookup: AdmissionLookup) -> Iterator[QueueUse]:
    """Iterate over the queues that a native PodGroup or Workload names and did not name before.

    A PodGroup without a queue of its own uses that of its Workload, also for pods that were created before it.
    """
    for field in _QUEUE_FIELDS:
        new, old = (_named_queue(each, field) for each in (request.object, request.old))
        if new and new != old:
            yield QueueUse(f"metadata.{field}[{names.QUEUE_NAME_ANNOTATION}]", new)
    workload = lookup.get(kinds.WORKLOAD, name, request.namespace) if (name := _workload_of(request)) else None
    if workload is not None and (queue := named_queue((workload,))):
        yield QueueUse("spec.workloadRef", queue)


def _workload_of(request: ReviewRequest) -> str:
    """Return the Workload whose queue a native PodGroup uses by a write, "" if that does not change."""
    new, old = request.object, request.old
    had_own = old is None or any(_named_queue(old, field) for field in _QUEUE_FIELDS)
    if not had_own or any(_named_queue(new, field) for field in _QUEUE_FIELDS):
        return ""
    reference = _mapping(_mapping((new or {}).get("spec")).get("workloadRef"))
    return str(reference.get("workloadName") or "")


def _native_pod_uses(request: ReviewRequest, name: str, lookup: AdmissionLookup) -> Iterator[QueueUse]:
    """Iterate over the queues of a pod in a native PodGroup: that of the group or its Workload, and its own.

    Its own counts even if the group names one, because the group uses it once it names none.
    """
    group, queue = lookup.get(kinds.NATIVE_POD_GROUP, name, request.namespace), ""
    if isinstance(group, NativePodGroup):
        workload = lookup.get(kinds.WORKLOAD, group.workload_key)
        queue = named_queue((group, *(() if workload is None else (workload,))))
    if queue:
        yield QueueUse("spec.schedulingGroup", queue)
    own = _named_queue(request.object, "annotations")
    if own or not queue:
        yield QueueUse(f"metadata.annotations[{names.QUEUE_NAME_ANNOTATION}]", own or names.DEFAULT_QUEUE)


def _named_queue(manifest: Manifest | None, field: str) -> str:
    """Return the queue that an annotation or label of an object names."""
    named = _mapping(_mapping((manifest or {}).get("metadata")).get(field)).get(names.QUEUE_NAME_ANNOTATION)
    return str(named or "")


def _native_group_of(pod: Manifest | None) -> str:
    """Return the native PodGroup of a pod, "" for a pod that has none or is in a PodGroup of Volcano."""
    if _annotations(pod).get(names.GROUP_NAME):
        return ""
    return str(_mapping(_mapping((pod or {}).get("spec")).get("schedulingGroup")).get("podGroupName") or "")


def _group_of(pod: Manifest | None) -> str:
    """Return the PodGroup that a pod names, or that of its controller; "" for a pod that gets one of its own."""
    if named := _annotations(pod).get(names.GROUP_NAME):
        return str(named)
    uid = _controller(pod).get("uid")
    return f"{names.PODGROUP_PREFIX}{uid}" if uid else ""


def _controller(manifest: Manifest | None) -> Mapping[str, Any]:
    """Return the reference to the controller of an object, an empty one if it has none."""
    owners = _mapping((manifest or {}).get("metadata")).get("ownerReferences")
    listed = map(_mapping, owners if isinstance(owners, list) else ())
    return next((owner for owner in listed if owner.get("controller") is True), {})


def _restricted_ancestry(name: str, lookup: AdmissionLookup) -> Iterator[str]:
    """Iterate over the restricted queues from a queue up to the root; ends at a cycle."""
    seen: set[str] = set()
    while name and name not in seen and isinstance(queue := lookup.get(kinds.QUEUE, name), Queue):
        seen.add(name)
        if queue.metadata.labels.get(names.RESTRICTED) == "true":
            yield name
        name = "" if name == names.ROOT_QUEUE else queue.spec.parent or names.ROOT_QUEUE


def _queue_fields(pod: Manifest | None) -> tuple[str, Any]:
    return _group_of(pod), _annotations(pod).get(names.QUEUE_NAME_ANNOTATION)


def _annotations(manifest: Manifest | None) -> Mapping[str, Any]:
    return _mapping(_mapping((manifest or {}).get("metadata")).get("annotations"))


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
