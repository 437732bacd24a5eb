# SPDX-License-Identifier: Apache-2.0
"""An echo server and a client by channels, in one event loop."""
import asyncio

import ambroker


async def serve(listener):
    async for channel in listener:
        async with channel:
            async for msg in channel:
                await channel.send(msg)


async def main():
    async with ambroker.aio.connect() as conn, await conn.listen("echo") as listener:
        server = asyncio.create_task(serve(listener))
        async with await conn.dial("echo") as channel:
            await channel.send(b"hello")
            print(bytes(await channel.recv(5)))
        server.cancel()

asyncio.run(main())
