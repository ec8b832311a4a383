"""exec and attach: a container's streams carried to a client, by WebSocket or SPDY."""
