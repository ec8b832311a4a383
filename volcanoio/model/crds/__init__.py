"""Our CustomResourceDefinitions, generated from the Structs of `volcanoio.model`.

`python -m volcanoio.model.crds` writes them to `config/crds/`; a test fails when they are stale. To add a kind: a row
in `definitions.DEFINITIONS`, and a row in `constraints.CONSTRAINTS` for each field that is more than its type says. The
docstring after a field of a Struct is its description.
Nothing at run time imports this package: the YAML is what is served.
"""
