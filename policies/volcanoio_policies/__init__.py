"""The lifecycle policies that ship with volcanoio, one a file."""
