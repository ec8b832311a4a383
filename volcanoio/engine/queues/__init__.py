"""The Queue controller: states, parents and counts."""
