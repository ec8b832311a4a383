"""The three ways to describe a change: JSON patch, merge patch and strategic merge patch."""

from __future__ import annotations


class PatchError(ValueError):
    """The patch is malformed, or does not fit the object."""
