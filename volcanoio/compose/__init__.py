"""The processes and commands, built from the packages below; the only package that imports runtime and localcluster.

Start with `scheduler` and `controllers`, the two processes, then `local`, the whole cluster in one process. `replay`
and `simulate` run the engine alone, on a journal or on state from files.
"""
