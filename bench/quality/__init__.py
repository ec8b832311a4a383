"""Quality of scheduling decisions on published traces: `python -m bench.quality`."""

import os

# products of small matrices are slower with threads, most of all beside other processes
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
