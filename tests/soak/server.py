"""A server to be killed: `python -m tests.soak.server DIRECTORY` prints its port and serves until it dies."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from volcanoio.localcluster.apiserver.http.listener import serve
from volcanoio.localcluster.apiserver.server import ApiServer


async def main() -> None:
    async with ApiServer.open(Path(sys.argv[1])).running() as server, serve(server) as bound:
        print(bound.port, flush=True)
        await asyncio.get_running_loop().create_future()


if __name__ == "__main__":
    asyncio.run(main())
