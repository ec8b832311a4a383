"""The vocabulary, and all that an author of a plugin, policy or controller imports."""
