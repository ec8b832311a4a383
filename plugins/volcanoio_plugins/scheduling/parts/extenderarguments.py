"""Arguments of plugin extender, under Volcano's keys (pkg/scheduler/plugins/extender)."""

from __future__ import annotations

import msgspec

from volcanoio.framework.arguments import GoDuration


class ManagedResource(msgspec.Struct, frozen=True):
    """A resource the extender knows; `ignoredByScheduler` is kube-scheduler's and has no meaning here."""

    name: str
    ignored: bool = msgspec.field(default=False, name="ignoredByScheduler")


class ExtenderArguments(msgspec.Struct, frozen=True):
    """A verb that is "" is not asked. `ignorable`: an extender that fails has no objection.

    With `managedResources` only tasks that request one of these are its business, in filters, scores and evictions.
    """

    url: str = msgspec.field(default="", name="extender.urlPrefix")
    timeout: GoDuration = msgspec.field(default=GoDuration(1), name="extender.httpTimeout")
    ignorable: bool = msgspec.field(default=False, name="extender.ignorable")
    managed: tuple[str | ManagedResource, ...] = msgspec.field(default=(), name="extender.managedResources")
    session_open: str = msgspec.field(default="", name="extender.onSessionOpenVerb")
    session_close: str = msgspec.field(default="", name="extender.onSessionCloseVerb")
    predicate: str = msgspec.field(default="", name="extender.predicateVerb")
    prioritize: str = msgspec.field(default="", name="extender.prioritizeVerb")
    preemptable: str = msgspec.field(default="", name="extender.preemptableVerb")
    reclaimable: str = msgspec.field(default="", name="extender.reclaimableVerb")
    queue_overused: str = msgspec.field(default="", name="extender.queueOverusedVerb")
    job_enqueueable: str = msgspec.field(default="", name="extender.jobEnqueueableVerb")
    job_enqueued: str = msgspec.field(default="", name="extender.jobEnqueuedVerb")
    job_ready: str = msgspec.field(default="", name="extender.jobReadyVerb")
    allocated: str = msgspec.field(default="", name="extender.allocateFuncVerb")
    deallocated: str = msgspec.field(default="", name="extender.deallocateFuncVerb")
