"""Checks of a scheduler plugin or action on random clusters: `volcanoio plugin test`, and tests of plugins."""
