"""Why something waits, as the running scheduler answers, with remedies that are searched for on a snapshot of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import anyio
import msgspec

from volcanoio.compose.live.running_scheduler import RunningScheduler
from volcanoio.compose.simulate import SimulateOptions, Simulator
from volcanoio.compose.state_files import StateError, read_configuration, read_state
from volcanoio.compose.why import SCHEDULER, JobAnswer, with_remedies_in
from volcanoio.engine.scheduling.config.configuration import ConfigurationError
from volcanoio.engine.scheduling.diagnosis.answers import QueueAnswer
from volcanoio.model.batch import Job
from volcanoio.runtime.loading.registry import PluginError


async def explain_running(
    scheduler: RunningScheduler,
    target: str,
    namespace: str,
    *,
    jobs: Sequence[Job] | None = None,
    options: SimulateOptions | None = None,
) -> JobAnswer | QueueAnswer:
    """Return why the target waits. Raises SchedulerUnavailableError and UnknownTargetError.

    With the Jobs of the namespace, what would help is searched for in a thread, by a scheduler with these options and
    the configuration of the running one. There are no remedies if its plugins are not installed here.
    """
    found = await scheduler.why(target, namespace)
    if found.queue is not None:
        return msgspec.structs.replace(found.queue, source=SCHEDULER)
    assert found.waiting is not None
    answer = JobAnswer.of(found.waiting, SCHEDULER)
    if answer.diagnosis is None or jobs is None:
        return answer
    files = [("the running scheduler", await scheduler.snapshot())]
    given = replace(options or SimulateOptions(files=()), files=files)
    return await anyio.to_thread.run_sync(_with_remedies, answer, given, jobs)


def _with_remedies(answer: JobAnswer, options: SimulateOptions, jobs: Sequence[Job]) -> JobAnswer:
    try:
        simulator = Simulator(replace(options, configuration=read_configuration(options.files)))
        state = read_state(options.files, simulator.reads)
    except (StateError, ConfigurationError, PluginError):
        return answer
    state.jobs = list(jobs)
    return with_remedies_in(answer, simulator, state)
