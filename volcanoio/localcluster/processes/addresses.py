"""Addresses of pods that are processes: each has one of the loopback network, so that equal ports do not clash."""

from __future__ import annotations

import os
import sys

from volcanoio.localcluster.nodes.addresses import PodAddresses

_FIRST, _NETWORKS = 16, 200
SHARED = "127.0.0.1"


class SharedAddress(PodAddresses):
    """One address for all: where the kernel has no others on loopback (macOS)."""

    def take(self) -> str:
        """The shared address."""
        return SHARED


def pod_addresses() -> PodAddresses:
    """A network of this process's own within 127.0.0.0/8, so that two clusters on a machine seldom meet."""
    if sys.platform != "linux":
        return SharedAddress()
    return PodAddresses(f"127.{_FIRST + os.getpid() % _NETWORKS}")
