# SPDX-License-Identifier: Apache-2.0
"""Objects: pickles with their buffers in place, and what is refused."""
import asyncio
import os
import pickle
import struct
import sys
import threading

import pytest

WAIT = 10


class Trap:
    """Its pickle makes a file when it is loaded."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def test_objects_come_back(conn):
    sub = conn.subscribe("a", trust_pickle=True)
    pub = conn.publisher("a")
    values = [None, 7, "text", {"a": [1, (2, b"x")]}, bytearray(b"y" * 100_000), [b"z" * 200_000] * 2]
    for value in values:
        pub.send_object(value, props={"n": 1})
        conn.publish_object("a", value, key="k")
        keys = set()
        for _ in range(2):  # two publishers, so in any order
            msg = sub.next(WAIT)
            assert msg.object() == value and msg.object() == value
            keys.add(msg.key)
        assert keys == {None, "k"}
    with pytest.raises((TypeError, pickle.PicklingError, AttributeError)):
        pub.send_object(lambda: None)
    conn.publish("a", b"plain")
    with pytest.raises(ValueError, match="content type"):
        sub.next(WAIT).object()
    with pytest.raises(TypeError):
        pub.send_object(1, content_type="mine", colour="red")


def test_arrays_are_loaded_where_they_lie(ambroker, broker):
    numpy = pytest.importorskip("numpy")
    with ambroker.connect(broker.url()) as conn:
        sub, pub = conn.subscribe("a", trust_pickle=True), conn.publisher("a")
        for count in (10, 100_000):
            value = {"x": numpy.arange(count), "y": numpy.ones((3, count), "f4", order="F")}
            pub.send_object(value)
            msg = sub.next(WAIT)
            begin = msg.__array_interface__["data"][0]
            got = msg.object()
            for name, array in value.items():
                assert (got[name] == array).all() and not got[name].flags.writeable
                at = got[name].__array_interface__["data"][0]
                assert begin <= at < begin + len(msg) and (at - begin) % 64 == 0
            with pytest.raises(BufferError):
                msg.release()
            assert msg.path == ("mapped" if count == 100_000 else msg.path)
            del msg
            assert (got["x"] == value["x"]).all()
    assert (got["y"] == 1).all()  # after the end, too


def test_what_is_not_trusted_is_not_loaded(ambroker, broker, tmp_path):
    with ambroker.connect(broker.url()) as conn:
        plain, trusting = conn.subscribe("a"), conn.subscribe("a", trust_pickle=True)
        conn.publish_object("a", Trap(tmp_path / "made"))
        for msg in (plain.next(WAIT), plain):
            if msg is plain:
                conn.publish_object("a", Trap(tmp_path / "made"))
                msg = plain.next_many(3, WAIT)[0]
            with pytest.raises(ambroker.Forbidden, match="trust_pickle"):
                msg.object()
        assert not (tmp_path / "made").exists()
        trusting.next(WAIT).object()
        assert (tmp_path / "made").exists()
        question = conn.subscribe("q")

        def answer():
            for _ in range(2):
                msg = question.next(WAIT)
                msg.reply(msg, content_type=msg.content_type)

        thread = threading.Thread(target=answer)
        thread.start()
        kind = {"content_type": "application/x-ambroker-pickle"}
        with pytest.raises(ambroker.Forbidden):
            conn.request("q", object_of([1, 2]), WAIT, **kind).object()
        reply = conn.request("q", object_of([1, 2]), WAIT, trust_pickle=True, **kind)
        thread.join()
        assert reply.object() == [1, 2]


def object_of(value):
    """As the package writes it, without buffers."""
    body = pickle.dumps(value)
    made = bytearray(64 + len(body))
    struct.pack_into("<IIQ", made, 0, 0x314B5041, 0, len(body))
    made[64:] = body
    return made


def test_what_is_no_whole_object_is_refused(ambroker, broker):
    """Every length of the payload is checked before anything is made of it."""
    kind = "application/x-ambroker-pickle"
    mark = 0x314B5041
    body, good = pickle.dumps(7), object_of(7)
    wrong = [b"", good[:7], good[:15], good[:-1], good + b"x", bytes(100)]
    for fields in ((mark, 65537, 1), (mark, 0xFFFFFFFF, 1), (mark, 1, len(body)), (mark ^ 1, 0, len(body)),
                   (mark, 0, 2**64 - 1), (mark, 0, 2**63), (mark, 0, 0), (mark, 3, len(body))):
        one = bytearray(good)
        struct.pack_into("<IIQ", one, 0, *fields)
        wrong.append(one)
    with ambroker.connect(broker.url()) as conn:
        sub = conn.subscribe("a", trust_pickle=True)
        conn.publish("a", good, content_type=kind)
        assert sub.next(WAIT).object() == 7
        for one in wrong:
            conn.publish("a", one, content_type=kind)
            with pytest.raises(ValueError, match="no whole object"):
                sub.next(WAIT).object()
        one = bytearray(good)
        one[64:] = bytes(len(body))
        conn.publish("a", one, content_type=kind)
        with pytest.raises((pickle.UnpicklingError, EOFError, ValueError, KeyError)):
            sub.next(WAIT).object()


def test_objects_of_an_event_loop(ambroker, broker):
    async def main():
        async with ambroker.aio.connect(broker.url()) as conn:
            sub = await conn.subscribe("a", trust_pickle=True)
            pub = await conn.publisher("a")
            for value in ([1], bytearray(300_000)):
                await pub.send_object(value)
                await conn.publish_object("a", value)
                for _ in range(2):
                    assert (await sub.next(WAIT)).object() == value
            plain = await conn.subscribe("b")
            await conn.publish_object("b", 1)
            with pytest.raises(ambroker.Forbidden):
                (await plain.next(WAIT)).object()

    asyncio.run(main())
    assert "ambroker._objects" in sys.modules
