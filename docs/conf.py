"""Sphinx configuration: the Markdown pages of docs/ as a site. `make docs` builds it (docs/site/__main__.py).

The pages are written for GitHub, too. So navigation is made from the lists of links in index.md, links that leave docs/
lead to the repository, and the manifests that a page of docs/integrations links to are shown at its end.
"""

from __future__ import annotations

from pathlib import Path

from sphinx.application import Sphinx

from docs.site import links, reference

DOCS = Path(__file__).parent

project = "volcanoio"
author = "the volcanoio authors"
extensions = ["myst_parser"]
myst_heading_anchors = 4
smartquotes = False  # they turn the dashes of options into others
html_theme = "furo"
html_title = "volcanoio"
html_static_path = ["site/static"]
html_css_files = ["style.css"]


def _prepare(_: Sphinx, name: str, source: list[str]) -> None:
    """Make a page of the repository one of the site."""
    page = DOCS / f"{name}.md"
    text = links.outward(source[0], page)
    if name.startswith("integrations/"):
        text += links.shown_manifests(source[0], page)
    if name == "index":
        text += links.navigation(source[0], sorted(reference.pages()))
    source[0] = text


def setup(app: Sphinx) -> None:
    """Register the step."""
    app.connect("source-read", _prepare)
