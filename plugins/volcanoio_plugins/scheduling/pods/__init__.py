"""Filters and scores that look at which pods are where."""
