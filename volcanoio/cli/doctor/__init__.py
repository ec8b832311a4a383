"""`volcanoio doctor`: finds what is wrong with an installation, and objects that wait for what does not exist.

`checks` reads the cluster and prints; `findings` are the checks that need only objects, as pure functions.
"""
