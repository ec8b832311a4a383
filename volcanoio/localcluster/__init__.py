"""The embedded cluster: an API server and simulated nodes."""
