"""How flags of the components become settings."""

from __future__ import annotations

import pytest

from volcanoio.cli.componentflags import GATES
from volcanoio.cli.components import selected_controllers


@pytest.mark.parametrize(
    ("entries", "selected"),
    [
        (("*", "-gc-controller"), ("*", "-gc-controller", "-job-controller")),
        (("+job-controller", "pg-controller"), ("pg-controller", "-job-controller")),
        (("job-controller",), ("-job-controller",)),
        ((), ("*", "-job-controller")),
    ],
)
def test_a_controller_whose_gate_is_off_does_not_run(entries: tuple[str, ...], selected: tuple[str, ...]) -> None:
    assert selected_controllers(entries, GATES | {"VolcanoJobSupport": False}) == selected
