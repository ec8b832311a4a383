"""gangpreempt: within a queue, a starving gang takes the places of jobs of lower priority, gangs whole where need be.

Source: Volcano pkg/scheduler/actions/gangpreempt.
"""

from __future__ import annotations

from volcanoio.framework.scheduling.points import Purpose
from volcanoio_plugins.actions.ganging import GangEviction


class GangPreempt(GangEviction):
    """What jobs of its queue with lower priority can spare, and then these jobs, lowest first."""

    name = "gangpreempt"
    purpose = Purpose.PREEMPT
