"""Parts of `bench.real`: the processes of a run, the load of a row, and the counts of the API server's audit log."""
