"""Members of queues: PodGroups of Volcano and native groups."""

from volcanoio.model.names import DEFAULT_QUEUE
from volcanoio.model.scheduling import PodGroup
from volcanoio.model.workloads import NativePodGroup


def queue_and_phase_of(group: object) -> tuple[str, str]:
    """Return the queue of a PodGroup and its phase there; "" for no queue.

    Those of a native group are in the condition that the scheduler writes: other schedulers have native groups, too.
    """
    match group:
        case PodGroup():
            return group.spec.queue or DEFAULT_QUEUE, group.status.phase
        case NativePodGroup():
            return group.queue, group.phase
        case _:
            return "", ""
