"""Addresses of the simulated network: pods in 10.244.0.0/16 unless said otherwise, nodes in 172.18.0.0/16."""

from __future__ import annotations

_POOL = 2**16
_RESERVED = (0, 1, 255)
_USABLE = 256 * (256 - len(_RESERVED))


class PodAddresses:
    """Hands out pod addresses; an address comes back into use only after all others had their turn.

    `network` is the first half of all of them.
    """

    def __init__(self, network: str = "10.244") -> None:
        self._network = network
        self._shared = f"{network}.0.255"
        self._used: set[str] = set()
        self._next = 0

    def take(self) -> str:
        """A free address; with all 64,000 in use, one that is shared: nothing is sent to it anyway."""
        if len(self._used) >= _USABLE:
            return self._shared
        while True:
            number, self._next = self._next, (self._next + 1) % _POOL
            address = f"{self._network}.{number >> 8}.{number & 255}"
            if number & 255 not in _RESERVED and address not in self._used:
                self._used.add(address)
                return address

    def keep(self, address: str) -> None:
        """The address is in use since an earlier process."""
        if address and address != self._shared:
            self._used.add(address)

    def give_back(self, address: str) -> None:
        """The address is free again."""
        self._used.discard(address)


def host_address(index: int) -> str:
    """The address of the index-th node."""
    return f"172.18.{index // 250}.{index % 250 + 2}"
