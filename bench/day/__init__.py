"""A virtual day of a platform: what `bench.platform` runs."""
