"""Every byte to or from an API server."""
