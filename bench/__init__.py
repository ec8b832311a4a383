"""Figures, as JSON with the machine they were measured on; never asserted in tests."""
