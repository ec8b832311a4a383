"""Amounts as plugins see them: to be read only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

Amounts: TypeAlias = Mapping[str, int]
"""Resource name to an integer in scheduling units (`volcanoio.model.resources`)."""
