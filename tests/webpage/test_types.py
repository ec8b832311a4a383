"""The page's modules are typed by JSDoc: the TypeScript compiler finds no error in them."""

from __future__ import annotations

import json
import subprocess
from importlib import resources
from pathlib import Path

import pytest

from tests.webpage.tools import MissingToolError, node, package

OPTIONS = {
    "checkJs": True,
    "allowJs": True,
    "noEmit": True,
    "strict": True,
    "noUnusedLocals": True,
    "noUnusedParameters": True,
    "target": "es2022",
    "module": "es2022",
    "moduleResolution": "bundler",
    "lib": ["es2023", "dom", "dom.iterable"],
    "types": [],
}


def _check(tmp_path: Path, files: list[Path]) -> str:
    """Return what the compiler prints."""
    try:
        compiler = package("typescript") / "bin" / "tsc"
    except MissingToolError as error:
        pytest.skip(f"THE PAGE'S TYPES WERE NOT CHECKED: {error}")
    config = tmp_path / "tsconfig.json"
    config.write_text(json.dumps({"compilerOptions": OPTIONS, "files": list(map(str, files))}))
    ran = subprocess.run([node(), compiler, "-p", config], capture_output=True, text=True, check=False)
    return ran.stdout + ran.stderr


def test_the_types_of_all_modules_agree(tmp_path: Path) -> None:
    static = Path(str(resources.files("volcanoio.web") / "static"))
    assert _check(tmp_path, sorted(static.rglob("*.js"))) == ""


def test_the_compiler_finds_a_wrong_type(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.js"
    wrong.write_text("/** @type {number} */\nexport const count = 'three';\n")
    assert "not assignable to type 'number'" in _check(tmp_path, [wrong])
