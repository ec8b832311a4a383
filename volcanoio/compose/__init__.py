"""Builds each process and command out of the packages below; the only one that imports both runtime and localcluster.

Start with `scheduler` and `controllers`, the two processes, then `local`, the whole cluster in one process. `replay`
and `simulate` run the engine alone, on a journal or on state from files.
"""
