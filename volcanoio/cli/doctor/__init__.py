"""`volcanoio doctor`: finds what is wrong with an installation, and with objects that wait for nothing.

`checks` reads the cluster and prints; `findings` are the checks that need only objects, as pure functions.
"""
