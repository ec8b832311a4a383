"""Job plugins, one a file."""
