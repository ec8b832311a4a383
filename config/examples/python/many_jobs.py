"""Run several jobs at once from one program, and print each result when it is there."""

import asyncio

from volcanoio.client import AsyncClient, ClientError


async def main() -> None:
    """Submit the jobs and wait for all of them."""
    async with AsyncClient() as client:
        runs = [client.run(name=f"sweep-{rate}", image="busybox", command=f"sleep {rate}") for rate in (1, 2, 3)]
        for ended in asyncio.as_completed(runs):
            try:
                print(await ended)
            except ClientError as error:
                print(error)


asyncio.run(main())
