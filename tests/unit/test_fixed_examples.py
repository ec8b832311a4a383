"""`make test` tries the same random examples in every run, whatever ran before on the same worker."""

from __future__ import annotations

import os
import subprocess
import sys

DRAW = """
import sys
from tests.examples import load_profile
load_profile()
for module in sys.argv[1:]:
    __import__(module)
from hypothesis import given, settings, strategies as st

@settings(max_examples=20)
@given(st.integers(), st.text(), st.floats(), st.binary())
def draw(number, text, real, data):
    print(ascii((number, text, real, data)))

draw()
"""
"""Print the examples that a property test draws after the modules of the arguments were imported."""


def drawn(*modules: str, examples: str, **variables: str) -> str:
    """Return what is drawn after these modules were imported, with these environment variables."""
    done = subprocess.run(
        [sys.executable, "-c", DRAW, *modules],
        env={**os.environ, **variables, "VOLCANOIO_EXAMPLES": examples},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def test_examples_are_the_same_whatever_modules_are_loaded() -> None:
    assert drawn(examples="fixed") == drawn("volcanoio.compose.local", examples="fixed")


def test_proof_draws_new_examples() -> None:
    assert drawn(examples="new") != drawn(examples="new")


def test_proof_draws_new_examples_in_ci_too() -> None:
    assert drawn(examples="new", CI="1") != drawn(examples="new", CI="1")
