"""Commands; thin."""
