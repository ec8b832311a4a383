"""Parts of policies that are too big for one file."""
