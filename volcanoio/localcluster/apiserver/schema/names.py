"""Names as DNS labels of RFC 1035: they start with a letter (apimachinery `IsDNS1035Label`)."""

from __future__ import annotations

import re
from typing import Final

_LABEL: Final = re.compile(r"[a-z](?:[-a-z0-9]*[a-z0-9])?")
_RULE: Final = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is "
    "'[a-z]([-a-z0-9]*[a-z0-9])?')"
)


def dns1035_rule(name: str) -> str:
    """What is wrong with a name; empty when nothing is."""
    wrong = []
    if len(name) > 63:
        wrong.append("must be no more than 63 characters")
    if _LABEL.fullmatch(name) is None:
        wrong.append(_RULE)
    return ",".join(wrong)
