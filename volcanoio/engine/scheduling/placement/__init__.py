"""Placement: nodes found for tasks, from what plugins answer about shapes.

`placer` is what sessions and actions ask. It keeps `answers` by shape (`kept`): what is known by row is in `answered`,
who is asked says a `plan`, `onerow` asks about one row, `states` and `statevalues` look up rows whose amounts occurred
before. Alike tasks are placed by `filling` where answers follow from amounts, by `greedy` (with `drafts`) where they
follow from the row, by `exact` where they do not, a single one by `onetask`; `leaders` keeps the best rows of shapes,
`ties` says who is first of equally good rows, `seating` lets everyone know of what was placed, and `fiterrors` tells
why a task finds no node.
"""
