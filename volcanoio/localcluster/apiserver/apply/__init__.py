"""Server-side apply: who manages which field, merges of applied configurations, and conflicts between managers."""
