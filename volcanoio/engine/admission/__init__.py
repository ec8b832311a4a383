"""Admission: validation and defaulting of what may be stored.

`review(request, lookup, settings)` in `review` is the one entry; its `TABLE` names the functions of each resource and
operation. Rules of Volcano objects are in the modules of their kinds; those of pods and pod templates in
`model.validation`. May import `framework`, `model` and `engine`'s schedules and flow graphs.
"""
