"""The three ways to describe a change: JSON patch, merge patch and strategic merge patch."""

from __future__ import annotations


class PatchError(ValueError):
    """The patch does not fit the object."""


class MalformedPatchError(PatchError):
    """The body is no patch of its type, whatever the object."""
