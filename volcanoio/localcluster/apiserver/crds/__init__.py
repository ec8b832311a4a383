"""CustomResourceDefinitions: validation, and the names under which they are served."""

from __future__ import annotations

from typing import Final

NAME: Final = "customresourcedefinitions.apiextensions.k8s.io"
"""The resource of definitions, as `plural.group`."""
CLEANUP: Final = "customresourcecleanup.apiextensions.k8s.io"
"""The finalizer of a deleted definition, removed once its objects are gone."""
