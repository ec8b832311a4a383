"""`Marks`: places of a task as the bits of a number, so that those of a big job are changed and compared at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec


class Marks(msgspec.Struct, frozen=True):
    """Which indexes are marked, the lowest bit is index 0. Those marked more than once are in `more`, less one."""

    bits: int = 0
    more: dict[int, int] = {}

    def __len__(self) -> int:
        return self.bits.bit_count()

    def changed(self, gone: Iterable[int], come: Sequence[int]) -> Marks:
        """The marks less those gone, with those come."""
        bits, more = self.bits, dict(self.more)
        left: list[int] = []
        for index in gone:
            if index not in more:
                left.append(index)
            elif more[index] == 1:
                del more[index]
            else:
                more[index] -= 1
        bits &= ~_bits(left)
        new = _bits(come)
        if new.bit_count() != len(come) or bits & new:  # rarely: a pod that is gone was not seen to go yet
            for index in come:
                if bits >> index & 1:
                    more[index] = more.get(index, 0) + 1
                bits |= 1 << index
        return Marks(bits | new, more)

    def indexes(self) -> list[int]:
        """The marked indexes, ascending."""
        return _places(bin(self.bits)[:1:-1], "1")

    def free(self, below: int) -> list[int]:
        """The unmarked indexes below a number, ascending."""
        within = (1 << below) - 1
        return _places(bin((self.bits & within) | 1 << below)[:2:-1], "0")


NONE = Marks()


def _bits(indexes: Sequence[int]) -> int:
    if not indexes:
        return 0
    flags = bytearray(max(indexes) // 8 + 1)
    for index in indexes:
        flags[index >> 3] |= 1 << (index & 7)
    return int.from_bytes(flags, "little")


def _places(flags: str, flag: str) -> list[int]:
    """Where a flag stands, the first character is index 0."""
    found: list[int] = []
    place = flags.find(flag)
    while place >= 0:
        found.append(place)
        place = flags.find(flag, place + 1)
    return found
