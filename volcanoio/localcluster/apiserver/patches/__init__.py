"""The three ways to describe a change: JSON patch, merge patch and strategic merge patch."""

from __future__ import annotations


class PatchError(ValueError):
    """The patch cannot be applied to the object."""


class MalformedPatchError(PatchError):
    """The body is not a patch of its type."""
