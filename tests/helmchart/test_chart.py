"""The chart: config/deploy is what it renders, and every object of it keeps the rules of a production cluster."""

from __future__ import annotations

import pytest

from tests.goclient.building import NotBuiltError
from tests.helmchart.rendering import DEPLOY, deploy_files


def test_config_deploy_is_the_rendered_chart() -> None:
    try:
        rendered = deploy_files()
    except NotBuiltError as error:
        pytest.skip(f"HELM WAS NOT TESTED: {error}")
    for name, text in rendered.items():
        assert (DEPLOY / name).read_text() == text, f"config/deploy/{name} is out of step; run `make deploy`"
