"""Admission: what may be stored, and with which defaults.

`review(request, lookup, settings)` in `review` is the one entry; its `TABLE` names the functions of each resource and
operation. Rules of Volcano objects are here; those of pods and pod templates are in `podtemplate` and its neighbours.
"""
