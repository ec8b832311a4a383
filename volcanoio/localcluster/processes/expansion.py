"""`$(NAME)` in commands, arguments and variables. Kubernetes: `third_party/forked/golang/expansion`."""

from __future__ import annotations

import re
from collections.abc import Mapping

_REFERENCE = re.compile(r"\$(?:\$|\(([^)]*)\))")


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Replace references to known variables; unknown ones stay as they are, and `$$` is a plain `$`."""

    def replacement(match: re.Match[str]) -> str:
        name = match[1]
        return "$" if name is None else variables.get(name, match[0])

    return _REFERENCE.sub(replacement, text)
