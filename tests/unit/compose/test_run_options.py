"""What goes with `--run`."""

from __future__ import annotations

import pytest

from volcanoio.compose.options import LocalOptions, OptionError


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"run_image": ("nginx=nginx",)}, "--run-image: .* needs --run"),
        ({"run": True, "speed": 10.0}, "--speed: .* leave it at 1 with --run"),
        ({"run": True, "run_image": ("nginx",)}, "--run-image: 'nginx': write IMAGE=COMMAND"),
    ],
)
def test_conflicting_options_are_refused(given: dict[str, object], text: str) -> None:
    with pytest.raises(OptionError, match=text):
        LocalOptions.parse(**given)


def test_compatible_options_are_accepted() -> None:
    assert LocalOptions.parse(run=True, run_image=("nginx=nginx -g 'daemon off;'",)).run
