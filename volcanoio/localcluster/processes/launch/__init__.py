"""What runs between the server and a container's command. Its modules import the standard library only.

They are run by a bare interpreter (`python -I -S`), so that a container starts quickly and nothing of the server's
environment gets in.
"""
