"""What is particular about single built-in kinds: their defaults and rules."""
