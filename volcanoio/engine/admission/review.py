"""`review(request, lookup, settings)`: the object to store, or every problem with it.

Pure and synchronous: the embedded API server calls it in-process, a webhook server calls the same functions. Resources
without a row in `TABLE` are allowed unchanged.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias

import msgspec

from volcanoio.engine.admission.cronjobs import check_cron_job
from volcanoio.engine.admission.jobflows import check_job_flow
from volcanoio.engine.admission.jobs import check_creator, check_job, check_update, default_job, set_creator
from volcanoio.engine.admission.podgroups import check_pod_group, default_pod_group
from volcanoio.engine.admission.pods import REVIEWED_ANNOTATIONS, check_pod, default_pod
from volcanoio.engine.admission.queues import (
    QueueTree,
    check_deletion,
    check_hierarchy_amounts,
    check_parent,
    check_queue,
    check_root,
    default_queue,
)
from volcanoio.engine.admission.request import (
    AdmissionLookup,
    AdmissionSettings,
    Findings,
    Operation,
    Read,
    Review,
    ReviewRequest,
    decode,
    decode_stored,
)
from volcanoio.engine.admission.topology import check_hyper_node, warn_about_numa_policies
from volcanoio.model import kinds
from volcanoio.model.base import ApiObject, Manifest
from volcanoio.model.batch import CronJob, Job
from volcanoio.model.core import Pod
from volcanoio.model.flow import JobFlow, JobTemplate
from volcanoio.model.names import DEFAULT_QUEUE
from volcanoio.model.nodes import HyperNode
from volcanoio.model.scheduling import PodGroup, Queue

_LONGEST_NAME = 253
"""Characters of a name that API servers accept."""
Default: TypeAlias = Callable[[Manifest, ReviewRequest, AdmissionLookup, AdmissionSettings], None]
"""Sets defaults of a manifest in place."""
Validate: TypeAlias = Callable[[ReviewRequest, AdmissionLookup, AdmissionSettings, Findings], None]
"""Finds problems; the request's object has its defaults."""


class Row(NamedTuple):
    """Defaulting and validation of one resource and operation; an object that cannot be decoded gets no defaults."""

    type: type[ApiObject]
    default: Default | None
    validate: Validate


def review(request: ReviewRequest, lookup: AdmissionLookup, settings: AdmissionSettings) -> Review:
    """Default, then validate. The request's object is not changed in place."""
    if (row := TABLE.get((request.resource, request.operation))) is None:
        return Review(allowed=True, object=request.object)
    findings = Findings(strict=settings.strict)
    metadata = (request.object or {}).get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if isinstance(name, str) and len(name) > _LONGEST_NAME:  # rules of the parts repeat the name
        findings.refuse("metadata.name", f"must be no more than {_LONGEST_NAME} characters", "choose a shorter name")
        return Review(allowed=False, object=request.object, messages=tuple(findings.messages))
    defaulted = with_defaults(request, lookup, settings)
    row.validate(defaulted, lookup, settings, findings)
    return Review(
        allowed=not findings.messages,
        object=defaulted.object,
        messages=tuple(findings.messages),
        left_out=findings.left_out,
        warnings=tuple(findings.warnings),
    )


def with_defaults(request: ReviewRequest, lookup: AdmissionLookup, settings: AdmissionSettings) -> ReviewRequest:
    """Return the request with a copy of its object that has the defaults: the mutating half of a review."""
    row = TABLE.get((request.resource, request.operation))
    if row is None or row.default is None or request.object is None or decode_stored(request.object, row.type) is None:
        return request
    copy: Manifest = msgspec.json.decode(msgspec.json.encode(request.object))  # a tenth of what deepcopy takes
    row.default(copy, request, lookup, settings)
    return msgspec.structs.replace(request, object=copy)


def reads_for_defaults(request: ReviewRequest) -> tuple[Read, ...]:
    """Return the objects that `with_defaults` looks up."""
    if (request.resource, request.operation) != (kinds.POD_GROUP.resource, Operation.CREATE):
        return ()
    spec = (request.object or {}).get("spec")
    is_default = isinstance(spec, dict) and spec.get("queue") == DEFAULT_QUEUE
    return (Read(kinds.NAMESPACE, request.namespace),) if is_default and request.namespace else ()


def reads_for_review(request: ReviewRequest) -> tuple[Read, ...]:
    """Return the objects that the validation looks up."""
    return _READS.get((request.resource, request.operation), ())


def _default_job(job: Manifest, request: ReviewRequest, _: AdmissionLookup, settings: AdmissionSettings) -> None:
    default_job(job, settings)
    set_creator(job, request.username, settings)


def _default_pod(pod: Manifest, request: ReviewRequest, _: AdmissionLookup, settings: AdmissionSettings) -> None:
    default_pod(pod, request.namespace, settings)


def _default_queue(queue: Manifest, request: ReviewRequest, _: AdmissionLookup, __: AdmissionSettings) -> None:
    default_queue(queue, creating=request.operation is Operation.CREATE)


def _default_pod_group(group: Manifest, request: ReviewRequest, lookup: AdmissionLookup, _: AdmissionSettings) -> None:
    default_pod_group(group, request.namespace, lookup)


def _create_job(request: ReviewRequest, lookup: AdmissionLookup, settings: AdmissionSettings, found: Findings) -> None:
    if (job := decode(request.object, Job, found)) is not None:
        check_job(job, lookup, settings, found)


def _update_job(request: ReviewRequest, _: AdmissionLookup, settings: AdmissionSettings, found: Findings) -> None:
    if (job := decode(request.object, Job, found)) is not None:
        check_update(job, request.old or {}, request.object or {}, settings, found)
        check_creator(job, request.old or {}, found)


def _create_pod_group(request: ReviewRequest, lookup: AdmissionLookup, _: AdmissionSettings, found: Findings) -> None:
    if (group := decode(request.object, PodGroup, found)) is not None:
        check_pod_group(group, lookup, found)


def _write_pod(request: ReviewRequest, _: AdmissionLookup, settings: AdmissionSettings, found: Findings) -> None:
    if (pod := decode_stored(request.object, Pod)) is not None:
        check_pod(pod, decode_stored(request.old, Pod) if request.old is not None else None, settings, found)


def _write_job_template(request: ReviewRequest, _: AdmissionLookup, __: AdmissionSettings, found: Findings) -> None:
    """Check the NUMA policies; the rest of a template is reviewed when its Job is created."""
    job = None if _same_spec(request) else decode_stored({"spec": (request.object or {}).get("spec")}, Job)
    if job is not None:
        warn_about_numa_policies(job, found)


def _write_queue(request: ReviewRequest, lookup: AdmissionLookup, settings: AdmissionSettings, found: Findings) -> None:
    if (queue := decode(request.object, Queue, found)) is None:
        return
    old = decode_stored(request.old, Queue) if request.old is not None else None
    tree = QueueTree(_queues(lookup), queue)
    check_queue(queue, old, tree.queues.values(), found)
    check_root(queue, old, settings, found)
    check_parent(queue, old, tree, settings, found)
    check_hierarchy_amounts(queue, old, tree, found)


def _delete_queue(
    request: ReviewRequest, lookup: AdmissionLookup, settings: AdmissionSettings, found: Findings
) -> None:
    groups = (*lookup.all(kinds.POD_GROUP), *lookup.all(kinds.NATIVE_POD_GROUP))
    check_deletion(request.name, QueueTree(_queues(lookup)), groups, settings, found)


def _write_cron_job(
    request: ReviewRequest, lookup: AdmissionLookup, settings: AdmissionSettings, found: Findings
) -> None:
    if (cron := decode(request.object, CronJob, found)) is not None:
        check_cron_job(cron, request.old, lookup, settings, found)


def _write_job_flow(request: ReviewRequest, _: AdmissionLookup, __: AdmissionSettings, found: Findings) -> None:
    flow = None if _same_spec(request) else decode(request.object, JobFlow, found)
    if flow is not None:
        check_job_flow(flow, found)


def _write_hyper_node(request: ReviewRequest, _: AdmissionLookup, __: AdmissionSettings, found: Findings) -> None:
    node = None if _same_spec(request) else decode(request.object, HyperNode, found)
    if node is not None:
        check_hyper_node(node, found)


def _same_spec(request: ReviewRequest) -> bool:
    """Return whether an update leaves the spec unchanged, such as one that removes a finalizer."""
    return request.old is not None and request.old.get("spec") == (request.object or {}).get("spec")


def _queues(lookup: AdmissionLookup) -> list[Queue]:
    return [queue for queue in lookup.all(kinds.QUEUE) if isinstance(queue, Queue)]


TABLE: Mapping[tuple[str, Operation], Row] = {
    (kinds.JOB.resource, Operation.CREATE): Row(Job, _default_job, _create_job),
    (kinds.JOB.resource, Operation.UPDATE): Row(Job, None, _update_job),
    (kinds.CRON_JOB.resource, Operation.CREATE): Row(CronJob, None, _write_cron_job),
    (kinds.CRON_JOB.resource, Operation.UPDATE): Row(CronJob, None, _write_cron_job),
    (kinds.JOB_FLOW.resource, Operation.CREATE): Row(JobFlow, None, _write_job_flow),
    (kinds.JOB_FLOW.resource, Operation.UPDATE): Row(JobFlow, None, _write_job_flow),
    (kinds.JOB_TEMPLATE.resource, Operation.CREATE): Row(JobTemplate, None, _write_job_template),
    (kinds.JOB_TEMPLATE.resource, Operation.UPDATE): Row(JobTemplate, None, _write_job_template),
    (kinds.POD_GROUP.resource, Operation.CREATE): Row(PodGroup, _default_pod_group, _create_pod_group),
    (kinds.POD.resource, Operation.CREATE): Row(Pod, _default_pod, _write_pod),
    (kinds.POD.resource, Operation.UPDATE): Row(Pod, None, _write_pod),
    (kinds.QUEUE.resource, Operation.CREATE): Row(Queue, _default_queue, _write_queue),
    (kinds.QUEUE.resource, Operation.UPDATE): Row(Queue, _default_queue, _write_queue),
    (kinds.QUEUE.resource, Operation.DELETE): Row(Queue, None, _delete_queue),
    (kinds.HYPER_NODE.resource, Operation.CREATE): Row(HyperNode, None, _write_hyper_node),
    (kinds.HYPER_NODE.resource, Operation.UPDATE): Row(HyperNode, None, _write_hyper_node),
}
"""Volcano's webhook paths as rows: /jobs, /podgroups, /queues and /pods, mutate and validate; /cronjobs, /jobflows and
/hypernodes, validate. Rows of JobTemplates and of updates of PodGroups and pods, which Volcano does not review,
refuse what is not supported."""
_READS: Mapping[tuple[str, Operation], tuple[Read, ...]] = {
    (kinds.JOB.resource, Operation.CREATE): (Read(kinds.QUEUE),),
    (kinds.CRON_JOB.resource, Operation.CREATE): (Read(kinds.QUEUE),),
    (kinds.CRON_JOB.resource, Operation.UPDATE): (Read(kinds.QUEUE),),
    (kinds.POD_GROUP.resource, Operation.CREATE): (Read(kinds.QUEUE),),
    (kinds.QUEUE.resource, Operation.CREATE): (Read(kinds.QUEUE),),
    (kinds.QUEUE.resource, Operation.UPDATE): (Read(kinds.QUEUE),),
    (kinds.QUEUE.resource, Operation.DELETE): (
        Read(kinds.QUEUE),
        Read(kinds.POD_GROUP),
        Read(kinds.NATIVE_POD_GROUP),
    ),
}
"""Objects that the validation of each kind and operation reads."""
READ_ANNOTATIONS: Mapping[str, frozenset[str]] = {kinds.POD.resource: REVIEWED_ANNOTATIONS}
"""Resources of which only objects with one of these annotations need a review: pods are many."""


def is_reviewed(resource: str, operation: str, annotations: Mapping[str, str]) -> bool:
    """Return whether a write has to be reviewed."""
    if (resource, operation) not in TABLE:
        return False
    return (read := READ_ANNOTATIONS.get(resource)) is None or not read.isdisjoint(annotations)
