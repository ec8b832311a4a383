"""Commands that change a cluster, or check it: `run`, `submit`, `suspend`, `resume`, `cancel`, `restart`, `queue`,
`config show` and `diff`, `doctor` and `completion`.

They may import what commands may. Start with `commands`, which declares them.
"""
