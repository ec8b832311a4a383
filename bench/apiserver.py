"""The embedded API server in a process of its own, for bench.embedded: `python -m bench.apiserver [DIRECTORY]`.

Prints [host, port], serves plain HTTP until it reads a line, and then prints the resources it used.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path

from bench.machine import peak_memory
from volcanoio.localcluster.apiserver.http.listener import serve
from volcanoio.localcluster.apiserver.server import ApiServer, install


async def main() -> None:
    """Serve until a line is read."""
    directory = Path(sys.argv[1]) if len(sys.argv) > 1 and sys.argv[1] else None
    async with ApiServer.open(directory).running() as server:
        install(server)
        async with serve(server) as bound:
            cpu = time.process_time()
            print(json.dumps([bound.host, bound.port]), flush=True)
            await asyncio.to_thread(sys.stdin.readline)
            used = {"cpu_seconds": time.process_time() - cpu, "peak_memory_bytes": peak_memory()}
    print(json.dumps(used), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
