# SPDX-License-Identifier: Apache-2.0
"""ambroker.aio on the loops of asyncio and of uvloop: what it does, what ends what waits, and that
cancelling loses nothing."""
import asyncio
import gc
import importlib
import logging
import os
import resource
import signal
import subprocess
import sys
import threading
import time
import warnings

import pytest

from prompt import PROMPT

WAIT = 10


@pytest.fixture(params=("asyncio", "uvloop"))
def run(request, ambroker):  # pylint: disable=unused-argument
    """Runs a coroutine on a loop of its own."""
    factory = None
    if request.param == "uvloop":
        factory = pytest.importorskip("uvloop", reason="no uvloop").new_event_loop

    def run_it(coroutine):
        with asyncio.Runner(loop_factory=factory) as runner:
            return runner.run(asyncio.wait_for(coroutine, 120))

    return run_it


@pytest.fixture
def aio(ambroker):
    return ambroker.aio


def test_messages_come_and_go(ambroker, aio, run, broker, link):
    async def main():
        options = {"name": "aio", "trusted_network": "lo"}
        async with aio.connect(broker.url(link), **options) as conn:
            sub = await conn.subscribe("a.>")
            for number in range(300):
                await conn.publish("a.b", b"%d" % number, props={"n": number})
            for number in range(300):
                msg = await sub.next(WAIT)
                assert (bytes(msg), msg.props) == (b"%d" % number, {"n": b"%d" % number})
            async with await conn.publisher("a.c") as pub:
                assert await pub.send_many([b"x" * 2000] * 500) == 500
                taken = []
                while len(taken) < 500:
                    taken += await sub.next_many(100, WAIT)
                await pub.send(bytearray(3 << 20))
                assert len(await sub.next(WAIT)) == 3 << 20
                assert await pub.post(b"y" * 100_000) == 502
                await pub.flush(WAIT)
                assert len(await sub.next(WAIT)) == 100_000
                async with pub.lease(64, key="k") as array:
                    array[:] = bytes(range(64)) if isinstance(array, memoryview) else range(64)
                msg = await sub.next(WAIT)
                assert (bytes(msg), msg.key) == (bytes(range(64)), "k")
                await pub.send(msg)  # forwarded
                assert bytes(await sub.next(WAIT)) == bytes(range(64))
                with pytest.raises(ambroker.WouldBlock):
                    await sub.next(0)
                with pytest.raises(ambroker.Timeout):
                    await sub.next(0.05)
                with pytest.raises(KeyError):
                    async with pub.lease(10):
                        raise KeyError
                lease = await pub.lease((2, 2), "i2")
                lease.abandon()
            await conn.flush(WAIT)
            if link == "ring":
                assert await conn.admin("status")
        assert conn.closed
        with pytest.raises(ambroker.Closed):
            await sub.next()
        with pytest.raises(ambroker.Closed):
            await conn.publish("a.b", b"")

    run(main())


def test_turns_take_no_naps(aio, run, broker):
    """Two tasks that answer each other: libamb's thread watches for a loop that sleeps, however busy it was. It used to
    nap for 1 to 4 ms in each direction. The fastest of all rounds tells: with naps it took 1.2 ms, whatever ran beside."""
    async def main():
        async with aio.connect(broker.url("ring")) as one, aio.connect(broker.url("ring")) as other:
            there, back = await other.subscribe("there"), await one.subscribe("back")

            async def echo():
                async for msg in there:
                    await other.publish("back", msg)

            task = asyncio.ensure_future(echo())
            times = []
            for number in range(300):
                begin = time.perf_counter()
                await one.publish("there", b"%d" % number)
                assert bytes(await back.next(WAIT)) == b"%d" % number
                times.append(time.perf_counter() - begin)
            task.cancel()
            assert min(times) < 0.001

    run(main())


def test_requests_and_acks(ambroker, aio, run, broker):
    async def main():
        async with aio.connect(broker.url()) as conn:
            jobs = await conn.subscribe("sum", group="w", ack="explicit")

            async def serve():
                async for msg in jobs:
                    msg.ack()  # Behind the last reply the subscription may be closed.
                    await conn.reply(msg, bytes([sum(bytes(msg))]), props={"a": 1})

            server = asyncio.create_task(serve())
            answers = await asyncio.gather(*[conn.request("sum", bytes([n, n]), timeout=WAIT)
                                             for n in range(100)])
            assert [bytes(one) for one in answers] == [bytes([2 * n]) for n in range(100)]
            assert answers[0].props == {"a": b"1"}
            del answers[:]
            with pytest.raises(ambroker.NoResponders):
                await conn.request("nobody", b"", timeout=WAIT)
            await jobs.close()
            await asyncio.wait_for(server, WAIT)
            silent = await conn.subscribe("silent")
            with pytest.raises(ambroker.Timeout):
                await conn.request("silent", b"", timeout=0.3)
            task = asyncio.create_task(conn.request("silent", b"", timeout=60))
            msg = await silent.next(WAIT)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            with pytest.raises(ambroker.Timeout):
                await conn.drain(0.1)
            del msg
            await conn.drain(WAIT)

    run(main())


def test_waits_on_threads_take_no_news_of_the_loop(ambroker, aio, run, broker):
    """A loop that is busy for a while hears of messages and answers that came meanwhile. Waits on threads look around
    ten times a second: they used to take the news, and to make the loop's descriptor unreadable."""
    def answer(questions, other):
        questions.next(WAIT).reply(b"yes")
        other.publish("news", b"here")
        other.flush(WAIT)

    async def main():
        with ambroker.connect(broker.url("ring")) as other:
            questions = other.subscribe("question")
            async with aio.connect(broker.url("ring")) as conn:
                pub, news = await conn.publisher("nobody"), await conn.subscribe("news")
                lonely = asyncio.create_task(pub.wait_subscribers(1))
                asked = asyncio.create_task(conn.request("question", b"?", timeout=None))
                heard = asyncio.create_task(news.next())
                while not conn._asked:  # pylint: disable=protected-access
                    await asyncio.sleep(0.01)
                thread = threading.Thread(target=answer, args=(questions, other))
                thread.start()
                thread.join()
                time.sleep(0.35)  # The loop is busy for three looks of that thread.
                assert bytes(await asyncio.wait_for(asked, WAIT)) == b"yes"
                assert bytes(await asyncio.wait_for(heard, WAIT)) == b"here"
                lonely.cancel()

    run(main())


def test_cancelling_loses_nothing(aio, run, broker):
    """Readers are cancelled all the time, some as their message comes. Each message comes once."""
    async def main():
        async with aio.connect(broker.url()) as conn:
            sub, pub = await conn.subscribe("a"), await conn.publisher("a")
            seen = []

            async def read():
                while True:
                    seen.append(int(bytes(await sub.next())))

            async def write():
                for number in range(3000):
                    await pub.send(b"%d" % number)
                    if number % 7 == 0:
                        await asyncio.sleep(0.0003)

            writer = asyncio.create_task(write())
            cancelled = 0
            while not writer.done() or len(seen) < 3000:
                readers = [asyncio.create_task(read()) for _ in range(3)]
                await asyncio.sleep(0.0005)
                for one in readers:
                    one.cancel()
                await asyncio.gather(*readers, return_exceptions=True)
                cancelled += 3
                assert cancelled < 300_000
            await writer
            assert seen == list(range(3000))
            # A wake that has come to a task which is cancelled is the next one's.
            first, second = (asyncio.create_task(sub.next()) for _ in range(2))
            await asyncio.sleep(0)
            sub.waiters.wake()
            first.cancel()
            await pub.send(b"7")
            assert bytes(await asyncio.wait_for(second, WAIT)) == b"7"

    run(main())


def test_a_copy_that_is_cancelled_leaves_the_message(ambroker, aio, run, broker):
    async def main():
        async with aio.connect(broker.url()) as conn:
            tries = []

            def host(size, msg):
                tries.append(msg.seq)
                if len(tries) == 1:
                    raise KeyError("not now")
                return None if len(tries) == 2 else bytearray(size)

            sub = await conn.subscribe("a", into={"host": host})
            large = os.urandom(2 << 20)
            await conn.publish("a", large)
            await conn.publish("a", b"second")
            with pytest.raises(KeyError):
                await sub.next(WAIT)
            with pytest.raises(TypeError, match="None"):
                await sub.next(WAIT)
            task = asyncio.create_task(sub.next(WAIT))
            while len(tries) < 3:
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            if task.cancelled():
                assert await sub.next(WAIT) == large
            assert await sub.next(WAIT) == b"second"
            await conn.publish("a", b"3")
            assert await sub.next_many(5, WAIT) == [b"3"]
            del tries[:]
            tries += [0, 0, 0]  # From here on it does not fail.
            await conn.publish("a", b"4")
            await conn.publish("a", large)
            while sub.stat()["pending_msgs"] < 2:
                await asyncio.sleep(0.001)
            task = asyncio.create_task(sub.next_many(5, WAIT))
            while len(tries) < 5:
                await asyncio.sleep(0)
            task.cancel()  # The first one has landed.
            await asyncio.gather(task, return_exceptions=True)
            if task.cancelled():
                assert [await sub.next(WAIT), await sub.next(WAIT)] == [b"4", large]
            lazy = await conn.subscribe("lazy", lazy="pin")
            await conn.publish("lazy", large)
            msg = await lazy.next(WAIT)
            assert await conn.read(msg, 10, 20, timeout=WAIT) == large[10:30]
            await conn.fetch(msg, WAIT)
            assert bytes(msg) == large
            with pytest.raises(ValueError):
                await conn.read(msg, len(large) + 1)
            assert ambroker.Message is type(msg)

    run(main())


def test_what_copies_leave_keeps_its_order(aio, run, broker):
    """The one that failed last used to come last."""
    async def main():
        async with aio.connect(broker.url()) as conn:
            copies, tries = [], []

            def host(size, msg):
                tries.append(msg.seq)
                if len(tries) == 4:
                    raise KeyError("not now")
                return bytearray(size)

            def copy(call):
                copies.append(conn.loop.create_future())
                return copies[-1]

            sub = await conn.subscribe("a", into={"host": host})
            large = [bytes([number]) * (1 << 20) for number in range(3)]
            for one in large:
                await conn.publish("a", one)
            in_thread, conn.in_thread = conn.in_thread, copy
            tasks = [asyncio.create_task(sub.next(WAIT)) for _ in range(2)]
            while len(copies) < 2:
                await asyncio.sleep(0)
            for number in (1, 0):  # The later one fails first.
                copies[number].set_exception(KeyError(number))
                with pytest.raises(KeyError):
                    await tasks[number]
            conn.in_thread = in_thread
            assert await sub.next(WAIT) == large[0]
            with pytest.raises(KeyError):  # The second one fails once more, and stays the next.
                await sub.next(WAIT)
            assert [await sub.next(WAIT), await sub.next(WAIT)] == large[1:]

    run(main())


def test_a_writer_waits_for_room(ambroker, aio, run, broker):
    """The window's room comes as news; what is cancelled is not sent. The broker is stopped, so that
    there is none."""
    async def main():
        async with aio.connect(broker.url()) as conn:
            sub = await conn.subscribe("a")
            pub = await conn.publisher("a", window_msgs=64)
            sent = []
            broker.signal(signal.SIGSTOP)

            async def write(number):
                await pub.send(b"%d" % number, props={"n": 1})
                sent.append(number)

            writers = [asyncio.create_task(write(number)) for number in range(1000)]
            await asyncio.sleep(0.3)
            assert 64 <= len(sent) < 1000
            with pytest.raises(ambroker.WouldBlock):
                await pub.send(b"no", 0)
            with pytest.raises(ambroker.Timeout):
                await pub.send(b"no", 0.05)
            with pytest.raises(ValueError):
                await pub.send(b"no", -1)
            broker.signal(signal.SIGCONT)
            writers[-1].cancel()
            seen = []
            while len(seen) < 999:
                seen.append(int(bytes(await sub.next(WAIT))))
            await asyncio.gather(*writers[:-1])
            assert sorted(seen) == list(range(999))

    run(main())


def test_flushes_of_a_publisher_share_a_wait(ambroker, aio, run, broker):
    """Fifty tasks have one thread; each hears of its own time, of the end, and of what was published before."""
    def threads():
        return sum(thread.name == "ambroker" for thread in threading.enumerate())

    async def main():
        async with aio.connect(broker.url()) as conn:
            pub = await conn.publisher("a")
            before = threads()
            broker.signal(signal.SIGSTOP)
            try:
                await pub.send(b"x")
                tasks = [asyncio.create_task(pub.flush()) for _ in range(50)]
                with pytest.raises(ambroker.Timeout):
                    await pub.flush(0.2)
                with pytest.raises(ambroker.WouldBlock):
                    await pub.flush(0)
                assert threads() <= max(before, 1) + 1 and not any(task.done() for task in tasks)
                tasks[0].cancel()
                await pub.send(b"later")  # The flush under way does not cover it.
                late = asyncio.create_task(pub.flush(WAIT))
                await asyncio.sleep(0.05)
            finally:
                broker.signal(signal.SIGCONT)
            said = await asyncio.gather(*tasks, return_exceptions=True)
            assert isinstance(said[0], asyncio.CancelledError) and set(said[1:]) == {None}
            await late
            assert pub.stat()["settled"] == 2
            broker.signal(signal.SIGSTOP)
            try:
                await pub.send(b"y")
                only = asyncio.create_task(pub.flush())
                await asyncio.sleep(0.05)
                only.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await only
                again = asyncio.create_task(pub.flush(WAIT))  # behind one that is called off
                await asyncio.sleep(0.05)
            finally:
                broker.signal(signal.SIGCONT)
            await again
            await pub.close()
            with pytest.raises(ambroker.Closed):
                await pub.flush(WAIT)

    run(main())


def test_a_failure_that_comes_to_a_cancelled_flush_is_the_next_ones(ambroker, aio, run, broker):
    """libamb tells it once, and it used to be lost."""
    threads = importlib.import_module("ambroker._threads").threads

    async def main():
        async with aio.connect(broker.url()) as conn:
            pub = await conn.publisher("a")
            for timeout in (None, 0):
                broker.signal(signal.SIGSTOP)
                try:
                    await pub.send(b"x", expect_seq=7)
                    task = asyncio.create_task(pub.flush())
                    await asyncio.sleep(0.01)
                finally:
                    broker.signal(signal.SIGCONT)
                end = time.monotonic() + WAIT
                while threads._idle < threads._count:  # pylint: disable=protected-access
                    assert time.monotonic() < end  # The loop is busy until the flush has its answer.
                    time.sleep(0.001)
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                assert task.cancelled()
                with pytest.raises(ambroker.Rejected):
                    await pub.flush(timeout)
                await pub.flush(WAIT)
            with pytest.raises(ambroker.Rejected):
                await conn.flush(WAIT)  # The connection has its own word for it.

    run(main())


def test_calls_wait_for_a_thread_where_the_system_has_no_further_one(aio, run, broker, monkeypatch):
    def start(_):
        raise RuntimeError("can't start new thread")

    async def main():
        async with aio.connect(broker.url()) as conn:
            await conn.flush(WAIT)
            with monkeypatch.context() as patch:
                patch.setattr(threading.Thread, "start", start)
                await asyncio.gather(*[conn.flush(WAIT) for _ in range(5)])

    run(main())


def test_a_reader_that_holds_its_credit_is_warned(ambroker, aio, run, broker):
    async def main():
        async with aio.connect(broker.url()) as conn:
            sub = await conn.subscribe("a", credit_msgs=1, policy="block")
            pub = await conn.publisher("a")
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                with pytest.raises(ambroker.Timeout):
                    await sub.next(1.3)
            held = []
            with pytest.warns(ambroker.HeldWarning, match="messages"):
                with pytest.raises(ambroker.Timeout):
                    while True:
                        await pub.send(b"x", 0.1)
                        held.append(await sub.next(2))
                        await pub.flush(WAIT)
            del held[:]
            assert bytes(await sub.next(WAIT)) == b"x"

    run(main())


@pytest.mark.parametrize("end", ["sub", "conn", "stop"])
def test_tasks_that_wait_hear_of_the_end(ambroker, aio, run, broker, end):
    async def main():
        conn = await aio.connect(broker.url())
        sub = await conn.subscribe("a")
        silent = await conn.subscribe("silent")
        tasks = [asyncio.create_task(sub.next()) for _ in range(3)]

        async def iterate():
            async for _ in sub:
                pass
            return "over"

        over = asyncio.create_task(iterate())
        asked = asyncio.create_task(conn.request("silent", b"", timeout=60))
        await silent.next(WAIT)
        begin = time.monotonic()
        await {"sub": sub.close, "conn": lambda: conn.close(0)}.get(end, _as_coroutine(conn.stop))()
        answers = await asyncio.wait_for(asyncio.gather(*tasks, over, return_exceptions=True), WAIT)
        assert time.monotonic() - begin < PROMPT
        expected = ambroker.Stopped if end == "stop" else ambroker.Closed
        assert [type(one) for one in answers[:-1]] == [expected] * 3 and answers[-1] == "over"
        if end != "sub":
            with pytest.raises(expected):
                await asked
        else:
            asked.cancel()
        if end == "stop":  # Publishing goes on, and nothing turns in circles.
            await conn.publish("a", b"x")
            burnt = resource.getrusage(resource.RUSAGE_SELF).ru_utime
            await asyncio.sleep(0.5)
            assert resource.getrusage(resource.RUSAGE_SELF).ru_utime - burnt < 0.2
        await conn.close()
        await conn.close()

    run(main())


def _as_coroutine(call):
    async def run_it():
        call()

    return run_it


@pytest.mark.parametrize("end", ["kill", "stop"])
def test_a_broker_that_is_killed_comes_back(ambroker, aio, run, rig, end):
    """Again and again, under readers and writers: waits go on with the next broker, and nothing comes
    twice or in another order."""
    brokers = [rig.broker()]

    def replace():
        getattr(brokers[-1], end)()
        brokers.append(rig.broker(at=brokers[-1]))

    async def main():
        events = []
        url = brokers[0].url()
        async with aio.connect(url, on_event=events.append, reconnect_max=0.1) as conn:
            sub, pub = await conn.subscribe("a"), await conn.publisher("a", window_msgs=200)
            seen = []

            async def read():
                async for msg in sub:
                    seen.append(int(bytes(msg)))

            async def write():
                number = 0
                while True:
                    number += 1
                    await pub.send(b"%d" % number)
                    await asyncio.sleep(0.001)

            tasks = [asyncio.create_task(read()), asyncio.create_task(write())]
            loop = asyncio.get_running_loop()

            async def messages(restored):
                """More messages, by a broker that the connection has found: those of before may have been on their way."""
                while [event.type for event in events].count("restored") < restored:
                    await asyncio.sleep(0.01)
                count = len(seen)
                while len(seen) < count + 50:
                    await asyncio.sleep(0.01)
                    assert not any(task.done() for task in tasks)

            for restored in range(5):
                await messages(restored)
                await loop.run_in_executor(None, replace)
            await messages(5)
            tasks[1].cancel()
            await asyncio.gather(tasks[1], return_exceptions=True)
            await sub.close()
            await asyncio.wait_for(tasks[0], WAIT)
            assert seen == sorted(set(seen))
            end_of_wait = loop.time() + WAIT
            while [event.type for event in events].count("restored") < 5:  # Told behind the first messages.
                assert loop.time() < end_of_wait and conn.stat()["events_dropped"] == 0
                await asyncio.sleep(0.01)
            assert [event.type for event in events].count("restored") == 5
            assert "lost" in [event.type for event in events]
            try:
                await conn.flush(WAIT)
            except (ambroker.Unknown, ambroker.Closed):
                pass  # Of what was on its way as a broker was killed, or ended.

    run(main())


def test_a_broker_that_does_not_come_back(ambroker, aio, run, rig, caplog):
    broker = rig.broker()

    async def main():
        conn = await aio.connect(broker.url(), reconnect_attempts=0)
        sub = await conn.subscribe("a")
        task = asyncio.create_task(sub.next())
        await asyncio.sleep(0)
        os.kill(broker.pid, signal.SIGKILL)
        with pytest.raises(ambroker.Lost):
            await asyncio.wait_for(task, WAIT)
        with pytest.raises(ConnectionError):
            await conn.publish("a", b"x")
        await conn.close(0)

    with caplog.at_level(logging.INFO, logger="ambroker"):
        run(main())
    assert "lost" in caplog.text


def test_a_stopped_broker_keeps_no_task_that_is_cancelled(aio, run, rig):
    """Calls in threads end with their tasks, and the loop ends without them."""
    broker = rig.broker()
    thread_count = threading.active_count()

    async def main():
        conn = await aio.connect(broker.url(), timeout=60)
        pub = await conn.publisher("a")
        await pub.send(b"x")
        await pub.flush(WAIT)
        broker.signal(signal.SIGSTOP)
        await pub.send(b"y")
        calls = [conn.subscribe("b"), conn.publisher("b"), conn.admin("status", 60), pub.flush(),
                 conn.flush(), conn.publish("c", b""), pub.wait_subscribers(9), conn.drain(),
                 conn.request("d", b"", timeout=60)]
        tasks = [asyncio.create_task(call) for call in calls]
        tasks.append(asyncio.create_task(_connect(aio, broker.url())))
        done, _ = await asyncio.wait(tasks, timeout=0.4)
        assert not done
        for task in tasks:
            task.cancel()
        begin = time.monotonic()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert time.monotonic() - begin < PROMPT
        assert all(task.cancelled() for task in tasks)
        begin = time.monotonic()
        await conn.close(0)
        assert time.monotonic() - begin < 2 * PROMPT

    try:
        run(main())
    finally:
        broker.signal(signal.SIGCONT)
    end = time.monotonic() + WAIT
    while threading.active_count() > thread_count + 8:  # as many are kept
        assert time.monotonic() < end
        time.sleep(0.01)


async def _connect(aio, url):
    return await aio.connect(url, connect_timeout=60)


INTERRUPTED = """
import asyncio, sys
import ambroker
async def main():
    async with ambroker.aio.connect(sys.argv[1]) as conn:
        sub = await conn.subscribe("a")
        await conn.publish("a", b"x")
        print("ready", flush=True)
        await sub.next()
        print("waits", flush=True)
        async for msg in sub:
            pass
try:
    asyncio.run(main())
except KeyboardInterrupt:
    print("interrupted")
"""


def child(package, program, *args):
    return subprocess.Popen([sys.executable, "-X", "dev", "-c", program, *args],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            env={**os.environ, "PYTHONPATH": str(package)})


def complaints(err):
    """Without those of asyncio about slow turns, which a busy machine has."""
    return [line for line in err.splitlines() if not line.startswith("Executing <")]


@pytest.mark.parametrize("stopped", [False, True])
def test_ctrl_c_ends_a_program(package, rig, stopped):
    """Also where the broker does not answer, in the end of `async with`."""
    broker = rig.broker()
    process = child(package, INTERRUPTED, broker.url())
    assert process.stdout.readline() + process.stdout.readline() == "ready\nwaits\n"
    if stopped:
        broker.signal(signal.SIGSTOP)
    begin = time.monotonic()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    late = time.monotonic() - begin
    broker.signal(signal.SIGCONT)
    assert (out, complaints(err)) == ("interrupted\n", []) and late < 3 * PROMPT


def test_a_program_ends_with_all_of_it_open(package, broker):
    program = """
import asyncio, sys
import ambroker
async def main():
    global conn, sub, pub, msg
    conn = await ambroker.aio.connect(sys.argv[1])
    sub, pub = await conn.subscribe("a"), await conn.publisher("a")
    await pub.send(b"x")
    msg = await sub.next(10)
    global task
    task = asyncio.ensure_future(sub.next())
    await asyncio.sleep(0)
    asyncio.ensure_future(conn.flush())
asyncio.run(main())
print("over")
"""
    process = child(package, program, broker.url())
    begin = time.monotonic()
    out, err = process.communicate(timeout=60)
    assert (out, complaints(err), process.returncode) == ("over\n", [], 0)
    assert time.monotonic() - begin < 30


def test_a_callback_that_raises_is_told_and_others_go_on(ambroker, aio, run, broker, monkeypatch):
    """In both faces; what is to end the program does."""
    told, heard = [], []
    monkeypatch.setattr(sys, "unraisablehook", lambda one: told.append(one.exc_type))

    def hear(event):
        heard.append(event.type)
        raise KeyError(event.type)

    async def main():
        async with aio.connect(broker.url(), on_event=hear) as conn:
            pub = await conn.publisher("a")
            subs = [await conn.subscribe("a") for _ in range(3)]
            await pub.wait_subscribers(3, WAIT)
            await pub.send(b"x")
            for sub in subs:
                assert bytes(await sub.next(WAIT)) == b"x"
            while not heard:
                await asyncio.sleep(0.01)

    run(main())
    assert told == [KeyError] * len(heard)
    del told[:], heard[:]
    with ambroker.connect(broker.url(), on_event=hear) as conn:
        pub = conn.publisher("b")
        sub = conn.subscribe("b")
        while not heard:
            conn.poll(WAIT)
        assert told == [KeyError] * len(heard)
        sub.close()


def test_wrong_arguments_are_named(ambroker, aio, run, broker):
    async def main():
        async with aio.connect(broker.url()) as conn:
            sub, pub = await conn.subscribe("a"), await conn.publisher("a")
            for wrong in (float("nan"), -1, 1e30):
                for call in (sub.next, lambda t: pub.send(b"x", t), pub.flush, conn.flush,
                             lambda t: sub.next_many(3, t), lambda t: pub.lease(3, timeout=t)):
                    with pytest.raises(ValueError):
                        await call(wrong)
            for topic in ("a\0b", "\udc80", "x" * 256, "a b"):
                for call in (conn.publisher, conn.subscribe, lambda t: conn.publish(t, b"x")):
                    with pytest.raises(ValueError):
                        await call(topic)
            for data in ("text", object()):
                with pytest.raises((TypeError, ValueError)):
                    await pub.send(data)
            with pytest.raises(TypeError):
                await conn.subscribe("a", colour="red")
            with pytest.raises(ValueError):
                await sub.next_many(0)
            with pytest.raises(ambroker.NotSupported):
                await conn.publisher("a", confirm="durable")
            await pub.send(b"good")
            assert bytes(await sub.next(WAIT)) == b"good"
        with pytest.raises(ConnectionError, match="nowhere"):
            await aio.connect("unix:///nowhere/at.all", connect_timeout=1)

    run(main())


def test_a_child_says_forked(ambroker, aio, run, broker):
    async def main():
        async with aio.connect(broker.url()) as conn:
            sub, pub = await conn.subscribe("a"), await conn.publisher("a")
            pid = os.fork()
            if pid == 0:
                answers = 0
                for call in (lambda: pub.send(b"x"), lambda: sub.next(1)):
                    try:
                        call().send(None)
                    except ambroker.Forked:
                        answers += 1
                os._exit(answers)
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 2
            await pub.send(b"parent")
            assert bytes(await sub.next(WAIT)) == b"parent"

    run(main())


def test_nothing_is_left_of_messages_and_tasks(aio, run, broker):
    async def main():
        async with aio.connect(broker.url()) as conn:
            sub, pub = await conn.subscribe("a"), await conn.publisher("a")

            async def exchange(count):
                for _ in range(count):
                    task = asyncio.ensure_future(sub.next(WAIT))
                    await asyncio.sleep(0)
                    await pub.send(b"x" * 100)
                    assert len(memoryview(await task)) == 100

            await exchange(300)
            gc.collect()
            blocks = sys.getallocatedblocks()
            await exchange(600)
            gc.collect()
            # Less than one of each. asyncio keeps up to a hundred cancelled timers, of some blocks each.
            assert sys.getallocatedblocks() - blocks < 500
            assert not conn.waiting and not conn.resting

    run(main())


def test_an_idle_reader_costs_nothing(aio, run, broker):
    """At most 0.1 % of a core, with the thread of libamb; a busy machine is given the double."""
    async def main():
        async with aio.connect(broker.url()) as conn:
            sub = await conn.subscribe("a")
            task = asyncio.create_task(sub.next())
            await asyncio.sleep(0.5)
            before, begin = resource.getrusage(resource.RUSAGE_SELF), time.monotonic()
            await asyncio.sleep(5)
            after, passed = resource.getrusage(resource.RUSAGE_SELF), time.monotonic() - begin
            burnt = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            assert burnt / passed < 0.002
            await conn.publish("a", b"x")
            assert bytes(await asyncio.wait_for(task, WAIT)) == b"x"

    run(main())
