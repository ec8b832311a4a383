"""A connection upgraded to SPDY whose other end has gone."""

from __future__ import annotations

import asyncio
from pathlib import Path

from volcanoio.localcluster.apiserver.authn.credentials import load_or_create
from volcanoio.localcluster.apiserver.streams.spdy import FIN, SpdyConnection, data


async def test_a_tls_connection_closed_from_two_sides_refuses_to_send(tmp_path: Path) -> None:
    identity = load_or_create(tmp_path)
    refused: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = SpdyConnection(reader, writer, lambda stream: None)
        writer.close()
        writer.close()  # the server closes what the client's going has closed already
        try:
            await connection.send(data(1, b"", FIN))
        except ConnectionError as error:
            refused.set_result(str(error))
        except BaseException as error:
            refused.set_exception(error)

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=identity.server_context())
    port = server.sockets[0].getsockname()[1]
    _, writer = await asyncio.open_connection(
        "127.0.0.1", port, ssl=identity.client_context(), server_hostname="localhost"
    )
    try:
        assert await refused == "the connection is closing"
    finally:
        writer.close()
        await asyncio.gather(writer.wait_closed(), return_exceptions=True)
        server.close()
        await server.wait_closed()
