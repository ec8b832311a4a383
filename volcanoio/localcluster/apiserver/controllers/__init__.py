"""What the server does by itself: collecting garbage, emptying namespaces, serving definitions, forgetting events."""
