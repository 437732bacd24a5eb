# SPDX-License-Identifier: Apache-2.0
"""Channels of both faces: what they carry, and how their ends are told."""
import asyncio
import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading
import traceback

import pytest

from prompt import PROMPT, interrupted

WAIT = 10

PEER = """
import sys, time
import ambroker
conn = ambroker.connect(sys.argv[1])
with conn.dial("echo", timeout=10) as channel:
    channel.send(b"hello")
    print(bytes(channel.recv(10)).decode(), flush=True)
    if sys.argv[2] == "stay":
        time.sleep(600)
conn.close()
"""


def start_peer(package, url, way):
    return subprocess.Popen([sys.executable, "-c", PEER, url, way], stdout=subprocess.PIPE, text=True,
                            env={**os.environ, "PYTHONPATH": str(package)})


def test_a_channel_carries_messages_both_ways(ambroker, conn):
    with conn.listen("echo") as listener:
        seen = []

        def serve():
            for channel in listener:
                with channel:
                    for msg in channel:
                        seen.append(bytes(msg))
                        channel.send(msg, props={"n": len(msg)})
                break

        thread = threading.Thread(target=serve)
        thread.start()
        with conn.dial("echo") as channel:
            for size in (0, 1, 5000, 1 << 20):
                channel.send(b"x" * size)
                msg = channel.recv(WAIT)
                assert (len(msg), msg.props) == (size, {"n": b"%d" % size})
            channel.send(b"abc")
            into = bytearray(8)
            assert channel.recv_into(into, WAIT) == 3 and into[:3] == b"abc"
            channel.send(b"abc")
            with pytest.raises(ValueError, match="too few"):
                channel.recv_into(bytearray(1), WAIT)
            for short in (0.05, 1e-9):
                with pytest.raises(ambroker.Timeout):
                    channel.recv(short)
            for wrong in (-1, float("nan")):
                with pytest.raises(ValueError):
                    channel.recv(wrong)
            with pytest.raises(ambroker.WouldBlock):
                channel.recv(0)
        thread.join(WAIT)
        assert not thread.is_alive() and len(seen) == 6
        with pytest.raises(ambroker.Closed):
            channel.recv()
        with pytest.raises(ambroker.Closed):
            channel.send(b"x")
        depths = set()
        for _ in range(3):
            with pytest.raises(ambroker.Closed) as caught:
                channel.recv()
            depths.add(len(traceback.extract_tb(caught.value.__traceback__)))
        assert len(depths) == 1  # One exception, which does not remember who has heard it.
        channel.close()


def test_ctrl_c_leaves_a_channel_at_once(ambroker, broker):
    """The last word finds no room, and is not waited for: that took up to ten seconds."""
    def write():
        with channel:
            while True:
                channel.send(bytes(1000))

    with ambroker.connect(broker.url()) as conn, conn.listen("echo") as listener:
        accepted = []
        thread = threading.Thread(target=lambda: accepted.append(listener.accept(WAIT)))
        thread.start()
        channel = conn.dial("echo", WAIT)
        thread.join()
        broker.signal(signal.SIGSTOP)
        try:
            assert interrupted(write) < 3 * PROMPT  # A busy machine is given more; that it waits takes five.
        finally:
            broker.signal(signal.SIGCONT)
        accepted[0].close()
        with contextlib.suppress(ambroker.Canceled):  # What had not left.
            conn.flush(WAIT)


def test_nobody_listens_and_nonsense_is_passed_over(ambroker, broker):
    with ambroker.connect(broker.url()) as conn:
        with pytest.raises(ambroker.NoResponders):
            conn.dial("nobody", WAIT)
        for name in ("a b", "a\0", "x" * 300, ""):
            with pytest.raises(ValueError):
                conn.dial(name, WAIT)
        with conn.listen("deaf") as listener:
            with pytest.raises(ambroker.Timeout):
                conn.dial("deaf", 0.3)
            for wrong in (b"", b"x" * 100, b"../../../..", b"\xff" * 32):
                conn.publish("channel.deaf", wrong)
                with pytest.raises(ambroker.Timeout):
                    conn.request("channel.deaf", wrong, 0.1)
            with pytest.raises(ambroker.Timeout):
                listener.accept(2.5)  # Of the dial that has ended nothing is left, either.
            for short in (0.05, 1e-9):
                with pytest.raises(ambroker.Timeout):
                    listener.accept(short)
            with pytest.raises(ambroker.WouldBlock):
                listener.accept(0)


@pytest.mark.parametrize("way", ["leave", "stay"])
def test_a_peer_that_leaves_is_told_from_one_that_is_killed(ambroker, package, broker, way):
    with ambroker.connect(broker.url()) as conn, conn.listen("echo") as listener:
        peer = start_peer(package, broker.url(), way)
        channel = listener.accept(WAIT)
        channel.send(channel.recv(WAIT))
        assert peer.stdout.readline() == "hello\n"
        if way == "stay":
            peer.kill()
        with pytest.raises(ambroker.Closed if way == "leave" else ambroker.Lost):
            channel.recv(WAIT)
        with pytest.raises(ambroker.Error):
            channel.send(b"x")
        channel.close()
        peer.wait(WAIT)
        peer.stdout.close()


def test_two_listeners_share_dials(ambroker, broker):
    with ambroker.connect(broker.url()) as conn:
        listeners = [conn.listen("shared") for _ in range(2)]
        taken = queue.Queue()

        def serve(listener):
            for channel in listener:
                taken.put(channel)

        threads = [threading.Thread(target=serve, args=(one,)) for one in listeners]
        for thread in threads:
            thread.start()
        channels = [conn.dial("shared", WAIT) for _ in range(10)]
        accepted = [taken.get(timeout=WAIT) for _ in channels]  # A dial may be over before they have them.
        for number, channel in enumerate(channels):
            channel.send(b"%d" % number)
        assert sorted(int(bytes(one.recv(WAIT))) for one in accepted) == list(range(10))
        for listener in listeners:
            listener.close()
        for thread in threads:
            thread.join(WAIT)
            assert not thread.is_alive()
        for channel in channels + accepted:
            channel.close()


def test_channels_of_an_event_loop(ambroker, package, broker):
    async def main():
        async with ambroker.aio.connect(broker.url()) as conn:
            async with await conn.listen("echo", trust_pickle=True) as listener:

                async def serve():
                    async for channel in listener:
                        asyncio.create_task(echo(channel))

                async def echo(channel):
                    async with channel:
                        async for msg in channel:
                            await channel.send(msg, content_type=msg.content_type)

                server = asyncio.create_task(serve())
                channels = await asyncio.gather(*[conn.dial("echo", WAIT, trust_pickle=True)
                                                  for _ in range(5)])
                for number, channel in enumerate(channels):
                    await channel.send(b"%d" % number)
                    await channel.send_object({"n": number})
                for number, channel in enumerate(channels):
                    assert bytes(await channel.recv(WAIT)) == b"%d" % number
                    assert (await channel.recv(WAIT)).object() == {"n": number}
                for short in (0.05, 1e-9):
                    with pytest.raises(ambroker.Timeout):
                        await channels[0].recv(short)
                with pytest.raises(ambroker.WouldBlock):
                    await channels[0].recv(0)
                await channels[0].send(b"abc")
                into = bytearray(3)
                assert await channels[0].recv_into(into, WAIT) == 3 and into == b"abc"
                for channel in channels:
                    await channel.close()
                    with pytest.raises(ambroker.Closed):
                        await channel.recv()
                server.cancel()
            async with await conn.listen("echo") as listener:
                with pytest.raises(ambroker.Timeout):
                    await listener.accept(1e-9)
                with pytest.raises(ambroker.WouldBlock):
                    await listener.accept(0)
                for way in ("leave", "stay"):
                    peer = start_peer(package, broker.url(), way)
                    channel = await listener.accept(WAIT)
                    await channel.send(await channel.recv(WAIT))
                    await asyncio.to_thread(peer.stdout.readline)
                    if way == "stay":
                        peer.send_signal(signal.SIGKILL)
                    with pytest.raises(ambroker.Closed if way == "leave" else ambroker.Lost):
                        await channel.recv(WAIT)
                    await channel.close()
                    peer.wait(WAIT)
                    peer.stdout.close()
            with pytest.raises(ambroker.NoResponders):
                await conn.dial("nobody", WAIT)

    asyncio.run(asyncio.wait_for(main(), 120))
