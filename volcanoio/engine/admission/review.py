"""`review(request, lookup, settings)`: an object as it is to be stored, or everything that is wrong with it.

Pure and synchronous: the embedded API server calls it in-process, a webhook server calls the same functions. What has
no row in `TABLE` is allowed as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias

import msgspec

from volcanoio.engine.admission.cronjobs import check_cron_job
from volcanoio.engine.admission.decoding import known, typed
from volcanoio.engine.admission.findings import Findings
from volcanoio.engine.admission.jobdefaults import default_job
from volcanoio.engine.admission.jobflows import check_job_flow
from volcanoio.engine.admission.jobrules import check_job
from volcanoio.engine.admission.jobupdate import check_update
from volcanoio.engine.admission.notyet import mention_pod_group
from volcanoio.engine.admission.podgroups import check_pod_group, default_pod_group
from volcanoio.engine.admission.queuerules import check_queue, default_queue
from volcanoio.engine.admission.queuetree import Tree, check_branch, check_deletion, check_place, check_root
from volcanoio.engine.admission.request import AdmissionLookup, AdmissionSettings, Operation, Review, ReviewRequest
from volcanoio.model import kinds
from volcanoio.model.base import ApiObject, Manifest
from volcanoio.model.batch import Job
from volcanoio.model.cron import CronJob
from volcanoio.model.flow import JobFlow
from volcanoio.model.scheduling import PodGroup, Queue

Default: TypeAlias = Callable[[Manifest, ReviewRequest, AdmissionLookup, AdmissionSettings], None]
"""Sets defaults of a manifest in place."""
Validate: TypeAlias = Callable[[ReviewRequest, AdmissionLookup, AdmissionSettings, Findings], None]
"""Finds what is wrong; the request's object has its defaults."""


class Row(NamedTuple):
    """What is done with one resource and operation; an object that is not of the type gets no defaults."""

    type: type[ApiObject]
    default: Default | None
    validate: Validate


def review(request: ReviewRequest, lookup: AdmissionLookup, settings: AdmissionSettings) -> Review:
    """Default, then validate. The request's object is not changed in place."""
    row = TABLE.get((request.resource, request.operation))
    if row is None:
        return Review(allowed=True, object=request.object)
    defaulted = with_defaults(request, lookup, settings)
    findings = Findings(strict=settings.strict)
    row.validate(defaulted, lookup, settings, findings)
    return Review(
        allowed=not findings.messages,
        object=defaulted.object,
        messages=tuple(findings.messages),
        warnings=tuple(findings.warnings),
    )


def with_defaults(request: ReviewRequest, lookup: AdmissionLookup, settings: AdmissionSettings) -> ReviewRequest:
    """The request with a copy of its object that has the defaults: the mutating half of a review."""
    row = TABLE.get((request.resource, request.operation))
    if row is None or row.default is None or request.object is None or known(request.object, row.type) is None:
        return request
    copy: Manifest = msgspec.json.decode(msgspec.json.encode(request.object))  # a tenth of what deepcopy takes
    row.default(copy, request, lookup, settings)
    return ReviewRequest(
        operation=request.operation,
        resource=request.resource,
        name=request.name,
        namespace=request.namespace,
        object=copy,
        old=request.old,
    )


def _default_job(job: Manifest, _: ReviewRequest, __: AdmissionLookup, settings: AdmissionSettings) -> None:
    default_job(job, settings)


def _default_queue(queue: Manifest, _: ReviewRequest, __: AdmissionLookup, ___: AdmissionSettings) -> None:
    default_queue(queue)


def _default_pod_group(group: Manifest, request: ReviewRequest, lookup: AdmissionLookup, _: AdmissionSettings) -> None:
    default_pod_group(group, request.namespace, lookup)


def _create_job(request: ReviewRequest, lookup: AdmissionLookup, settings: AdmissionSettings, found: Findings) -> None:
    job = typed(request.object, Job, found)
    if job is not None:
        check_job(job, lookup, settings, found)


def _update_job(request: ReviewRequest, _: AdmissionLookup, settings: AdmissionSettings, found: Findings) -> None:
    job = typed(request.object, Job, found)
    if job is not None:
        check_update(job, request.old or {}, request.object or {}, settings, found)


def _create_pod_group(request: ReviewRequest, lookup: AdmissionLookup, _: AdmissionSettings, found: Findings) -> None:
    group = typed(request.object, PodGroup, found)
    if group is not None:
        check_pod_group(group, lookup, found)
        mention_pod_group(group, found)


def _write_queue(request: ReviewRequest, lookup: AdmissionLookup, settings: AdmissionSettings, found: Findings) -> None:
    queue = typed(request.object, Queue, found)
    if queue is None:
        return
    old = known(request.old, Queue) if request.old is not None else None
    tree = Tree(_queues(lookup), queue)
    check_queue(queue, old, tree.queues.values(), found)
    check_root(queue, old, settings, found)
    check_place(queue, old, tree, settings, found)
    check_branch(queue, old, tree, found)


def _delete_queue(
    request: ReviewRequest, lookup: AdmissionLookup, settings: AdmissionSettings, found: Findings
) -> None:
    check_deletion(request.name, Tree(_queues(lookup)), settings, found)


def _write_cron_job(
    request: ReviewRequest, lookup: AdmissionLookup, settings: AdmissionSettings, found: Findings
) -> None:
    cron = typed(request.object, CronJob, found)
    if cron is not None:
        check_cron_job(cron, request.old, lookup, settings, found)


def _write_job_flow(request: ReviewRequest, _: AdmissionLookup, __: AdmissionSettings, found: Findings) -> None:
    flow = typed(request.object, JobFlow, found)
    if flow is not None:
        check_job_flow(flow, found)


def _queues(lookup: AdmissionLookup) -> list[Queue]:
    return [queue for queue in lookup.all(kinds.QUEUE) if isinstance(queue, Queue)]


TABLE: Mapping[tuple[str, Operation], Row] = {
    (kinds.JOB.resource, Operation.CREATE): Row(Job, _default_job, _create_job),
    (kinds.JOB.resource, Operation.UPDATE): Row(Job, None, _update_job),
    (kinds.CRON_JOB.resource, Operation.CREATE): Row(CronJob, None, _write_cron_job),
    (kinds.CRON_JOB.resource, Operation.UPDATE): Row(CronJob, None, _write_cron_job),
    (kinds.JOB_FLOW.resource, Operation.CREATE): Row(JobFlow, None, _write_job_flow),
    (kinds.JOB_FLOW.resource, Operation.UPDATE): Row(JobFlow, None, _write_job_flow),
    (kinds.POD_GROUP.resource, Operation.CREATE): Row(PodGroup, _default_pod_group, _create_pod_group),
    (kinds.QUEUE.resource, Operation.CREATE): Row(Queue, _default_queue, _write_queue),
    (kinds.QUEUE.resource, Operation.UPDATE): Row(Queue, _default_queue, _write_queue),
    (kinds.QUEUE.resource, Operation.DELETE): Row(Queue, None, _delete_queue),
}
"""Volcano's webhook paths as rows: /jobs, /podgroups and /queues, mutate and validate; /cronjobs and /jobflows,
validate."""
