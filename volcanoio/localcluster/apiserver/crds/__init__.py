"""CustomResourceDefinitions: which are accepted, and under which names they are served."""

from __future__ import annotations

from typing import Final

NAME: Final = "customresourcedefinitions.apiextensions.k8s.io"
"""The resource of definitions, as `plural.group`."""
CLEANUP: Final = "customresourcecleanup.apiextensions.k8s.io"
"""The finalizer a definition gets when it is deleted, and keeps until its objects are gone."""
