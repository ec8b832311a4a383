"""Parts of a write; `writer` puts them in order."""
