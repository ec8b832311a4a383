"""Volcano's feature gates that alter what the scheduler does (`pkg/features/volcano_features.go`)."""

from __future__ import annotations

from enum import StrEnum


class FeatureGate(StrEnum):
    """A feature that is off unless it is asked for."""

    QUEUE_ADMISSION = "SchedulingGatesQueueAdmission"
    """Pods wait behind a scheduling gate of their own until their queue has room for them; see `queuegates`."""
