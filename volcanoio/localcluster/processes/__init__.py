"""Containers as local processes: what `volcanoio up --run` runs instead of simulating."""
