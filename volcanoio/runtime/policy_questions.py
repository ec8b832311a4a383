"""Questions that controllers put to policies: what the policies are told with them, and the answers as events."""

from __future__ import annotations

from collections.abc import Callable

from volcanoio.engine.hosting.host import Host
from volcanoio.framework.decisions import Abstain
from volcanoio.framework.effects import Ask
from volcanoio.framework.events import Answered, Event
from volcanoio.framework.lifecycle import PolicyContext
from volcanoio.framework.overrides import LEARNED_SUFFIX, learned, stored
from volcanoio.kube.clock import Clock
from volcanoio.model import kinds
from volcanoio.model.batch import Job
from volcanoio.model.core import ConfigMap, Pod
from volcanoio.runtime.policies import Answer, PolicyHost


class Questions:
    """Puts questions about the jobs that `host` knows to `policies`, and publishes what they answer."""

    def __init__(self, host: Host, policies: PolicyHost, *, publish: Callable[[Event], None], clock: Clock) -> None:
        self._host = host
        self._policies = policies
        self._publish = publish
        self._clock = clock

    def put(self, controller: str, key: str, ask: Ask, cause: int) -> None:
        """Ask; the answer is an Answered, also when the job went away meanwhile."""

        def heard(answer: Answer) -> None:
            self._publish(
                Answered(
                    cause=cause,
                    controller=controller,
                    key=key,
                    question=ask.question,
                    decision=answer.decision,
                    policy=answer.policy,
                    faults=answer.faults,
                    asides=answer.asides,
                )
            )

        context = self._context(controller, key, ask)
        if context is None:  # the job went away while its question was on its way
            heard(Answer(Abstain()))
        else:
            self._policies.ask(context, heard, deadline=ask.deadline)

    def _context(self, controller: str, key: str, ask: Ask) -> PolicyContext | None:
        job = self._host.cache.get(kinds.JOB.resource, key)
        if not isinstance(job, Job):
            return None
        pods = self._host[controller].objects(key, kinds.POD.resource)
        kept = self._host.cache.get(kinds.CONFIG_MAP.resource, key + LEARNED_SUFFIX)
        return PolicyContext(
            event=ask.event,
            job=job,
            pods=tuple(pod for pod in pods if isinstance(pod, Pod)),
            now=self._clock.now(),
            overrides=stored(job),
            learned=learned(kept.data) if isinstance(kept, ConfigMap) else {},
        )
