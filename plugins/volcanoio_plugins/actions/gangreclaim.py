"""gangreclaim: takes room for a whole gang back from other queues, from gangs whole where need be.

Source: Volcano pkg/scheduler/actions/gangreclaim.
"""

from __future__ import annotations

from volcanoio.framework.scheduling.points import Purpose
from volcanoio_plugins.actions.ganging import GangEviction


class GangReclaim(GangEviction):
    """What jobs of reclaimable queues can spare, and then these jobs, by which queue loses first."""

    name = "gangreclaim"
    purpose = Purpose.RECLAIM
