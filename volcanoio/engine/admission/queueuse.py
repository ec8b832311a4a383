"""Whether a Job or PodGroup may use a queue. A queue nobody has looked at yet (state empty) counts as Open."""

from __future__ import annotations

from volcanoio.engine.admission.findings import Findings
from volcanoio.engine.admission.request import AdmissionLookup
from volcanoio.framework.arguments import suggestion
from volcanoio.model import kinds, names
from volcanoio.model.scheduling import Queue

PATH = "spec.queue"


def check_open(name: str, lookup: AdmissionLookup, findings: Findings, *, what: str) -> Queue | None:
    """The queue, if it exists and is open."""
    queue = lookup.get(kinds.QUEUE, name)
    if not isinstance(queue, Queue):
        known = sorted(other.metadata.name for other in lookup.all(kinds.QUEUE))
        hint = suggestion(name, [other for other in known if other != names.ROOT_QUEUE])
        rule = f'unable to find {what} queue: queue "{name}" does not exist{hint}'
        findings.refuse(PATH, rule, f"create it first (vcctl queue create -n {name})")
        return None
    if not queue.is_open:
        findings.refuse(
            PATH,
            f"can only submit {what} to queue with state `Open`, queue `{name}` status is `{queue.status.state}`",
            f"open it (vcctl queue operate -n {name} -a open) or choose another queue",
        )
    return queue


def check_job_queue(name: str, lookup: AdmissionLookup, findings: Findings) -> None:
    """Jobs go to open leaf queues below the root."""
    if name == names.ROOT_QUEUE:
        findings.refuse(PATH, "can not submit job to root queue", "choose a queue below it")
        return
    if check_open(name, lookup, findings, what="job") is None:
        return
    children = [
        queue.metadata.name
        for queue in lookup.all(kinds.QUEUE)
        if isinstance(queue, Queue) and queue.spec.parent == name
    ]
    if children:
        findings.refuse(
            PATH,
            f"can only submit job to leaf queue, queue `{name}` has children",
            f"choose one of them: {', '.join(sorted(children))}",
        )
