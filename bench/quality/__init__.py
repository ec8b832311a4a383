"""Quality of scheduling decisions on published traces: `python -m bench.quality`."""
