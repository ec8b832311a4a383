"""Addresses of nodes and pods: a simulated network, or loopback addresses for pods that are processes.

By default pods are in 10.244.0.0/16 and nodes in 172.18.0.0/16. Each pod that is a process has its own address in
127.0.0.0/8, so equal ports do not clash.
"""

from __future__ import annotations

import os
import sys

_POOL = 2**16
_RESERVED = (0, 1, 255)
_USABLE = 256 * (256 - len(_RESERVED))


class PodAddresses:
    """Allocator of pod addresses; a released address is reused after all others.

    `network` is the first half of all of them.
    """

    def __init__(self, network: str = "10.244") -> None:
        self._network = network
        self._shared = f"{network}.0.255"
        self._used: set[str] = set()
        self._next = 0

    def take(self) -> str:
        """Return a free address, or a shared one when all 64,000 are in use.

        Nothing is sent to simulated pods, so that sharing does no harm.
        """
        if len(self._used) >= _USABLE:
            return self._shared
        while True:
            number, self._next = self._next, (self._next + 1) % _POOL
            address = f"{self._network}.{number >> 8}.{number & 255}"
            if number & 255 not in _RESERVED and address not in self._used:
                self._used.add(address)
                return address

    def keep(self, address: str) -> None:
        """Mark an address as in use since an earlier process."""
        if address and address != self._shared:
            self._used.add(address)

    def give_back(self, address: str) -> None:
        """Release the address."""
        self._used.discard(address)


def host_address(index: int) -> str:
    """Return the address of the index-th node."""
    return f"172.18.{index // 250}.{index % 250 + 2}"


_FIRST, _NETWORKS = 16, 200
SHARED = "127.0.0.1"


class SharedAddress(PodAddresses):
    """Single address for all pods, for loopback networks with no others (macOS)."""

    def take(self) -> str:
        """Return the shared address."""
        return SHARED


def pod_addresses() -> PodAddresses:
    """Return the addresses of a network of this process within 127.0.0.0/8.

    Two clusters on a machine seldom share one.
    """
    if sys.platform != "linux":
        return SharedAddress()
    return PodAddresses(f"127.{_FIRST + os.getpid() % _NETWORKS}")
