# SPDX-License-Identifier: Apache-2.0
"""Groups whose topics prefer near members (topics.prefer): two members on rings, and two that are
remote by their link.

    near_test.py [--links ring,ucx]

A group belongs to a user, and all clients by TCP are a user of their own. So the remote members of
a group with rings are those that have asked for UCX on the Unix socket: UCX over TCP on the loopback
device, which counts as remote by its link. A group of TCP clients is remote as a whole, and there
credit decides among equals."""
import pytest

from harness import check, until

CONFIG = 'topics = ( { match = "near.>"; prefer = "near"; } );\n'
COUNT = 3000
RATE = 1000
CREDIT = 800  # half of it is 0.4 s of all messages
SLOW_US = 10000  # two members of that pace take a fifth of the messages


class Group:
    def __init__(self, rig, broker, topic, urls, acks):
        self.rig, self.broker, self.topic, self.sent = rig, broker, topic, 0
        self.members = [rig.client("test-member", url, topic, "g", CREDIT, *(["ack"] if acks else []))
                        for url in urls]
        for member in self.members:
            member.expect("ready")

    def row(self):
        return next(q for q in self.broker.ask("queues") if q["pattern"] == self.topic)

    def publish(self, count, rate):
        done = self.rig.start([self.rig.program("broker-ctl"), "--url", self.broker.url(), "pub", self.topic,
                               "--count", str(count), "--size", "1K", "--rate", str(rate)])
        check(done.wait(60) == 0, done.log())
        self.sent += count
        until(60, lambda: self.row()["delivered"] == self.sent and self.row()["pending"] == 0,
              "all is delivered, and given back")

    def pace(self, which, us):
        for member in which:
            member.tell(f"pace {us}")
            member.expect("pace")

    def got(self):
        """What each was given since the last question; together each message once."""
        lists = []
        for member in self.members:
            member.tell("tell")
            lists.append([int(word) for word in member.expect("got")[3:]])
        return lists

    def end(self):
        for member in self.members:
            member.end_input()
            check(member.wait() == 0, member.log())


def each_once(lists, first, count):
    check(sorted(n for got in lists for n in got) == list(range(first, first + count)),
          f"each message once: {[len(got) for got in lists]}")


@pytest.fixture
def broker(rig):
    path = rig.folder / "broker.conf"
    path.write_text(CONFIG)
    broker = rig.broker("--config", str(path), "-o", "server.workers=2")
    yield broker
    broker.stop()


def remote_urls(broker, links):
    if "ucx" not in links:
        pytest.skip("no link that is remote on a Unix socket")
    return [f"{broker.url()}?link=ucx"] * 2


@pytest.mark.parametrize("acks", (False, True), ids=("plain", "acks"))
def test_near_members_have_all_while_they_keep_up(rig, broker, links, acks):
    urls = [broker.url()] * 2 + remote_urls(broker, links)
    group = Group(rig, broker, "near.jobs", urls, acks)
    shown = [row["nearness"] for row in broker.ask("subs") if row["pattern"] == group.topic]
    check(sorted(shown) == ["host", "host", "remote", "remote"], f"{shown}")
    group.publish(COUNT, RATE)
    lists = group.got()
    each_once(lists, 1, COUNT)
    near = len(lists[0]) + len(lists[1])
    check(near >= 0.9 * COUNT, f"the near ones got {near} of {COUNT}")
    check(group.row()["delivered_remote"] == COUNT - near, f"{group.row()}")
    # They keep up no longer.
    group.pace(group.members[:2], SLOW_US)
    group.publish(COUNT, RATE)
    lists = group.got()
    each_once(lists, COUNT + 1, COUNT)
    check(all(len(got) >= COUNT / 20 for got in lists), f"nobody starves: {[len(x) for x in lists]}")
    print("slowed near ones:", [len(got) for got in lists])
    # And again they do.
    group.pace(group.members[:2], 0)
    group.publish(COUNT, RATE)
    lists = group.got()
    each_once(lists, 2 * COUNT + 1, COUNT)
    near = len(lists[0]) + len(lists[1])
    check(near >= 0.9 * COUNT, f"the near ones got {near} of {COUNT}")
    group.end()


def test_on_other_topics_credit_decides(rig, broker, links):
    urls = [broker.url()] * 2 + remote_urls(broker, links)
    group = Group(rig, broker, "other.jobs", urls, False)
    group.publish(COUNT, RATE)
    lists = group.got()
    each_once(lists, 1, COUNT)
    check(all(len(got) >= COUNT / 20 for got in lists), f"{[len(got) for got in lists]}")
    group.end()


def test_on_a_gpu_those_that_read_it_there_are_nearest(rig, build):
    """On the fake driver: one member reads GPU memory in place, two others want host memory."""
    path = rig.folder / "broker.conf"
    path.write_text(CONFIG)
    rig.env |= {"AMB_CUDA_LIBRARY": str(build / "tests/fakecuda/libfakecuda.so"), "FAKECUDA_MEMORY": "1G",
                "FAKECUDA_MACHINE": str(rig.folder / "machine")}
    broker = rig.broker("--config", str(path), "-o", "memory.cuda.size=64M", "-o", "memory.cuda.devices=0",
                        "-o", "server.workers=2")
    members = [rig.client("test-member", broker.url(), "near.gpu", "g", CREDIT, *words)
               for words in (("ack",), ("ack",), ("ack", "gpu"))]
    for member in members:
        member.expect("ready")
    shown = sorted(row["nearness"] for row in broker.ask("subs") if row["pattern"] == "near.gpu")
    check(shown == ["gpu", "host", "host"], f"{shown}")
    publisher = rig.client("test-member", broker.url(), "near.gpu", "lease", COUNT // 10, "gpu")
    check(publisher.wait(60) == 0, publisher.log())

    def row():
        return next(q for q in broker.ask("queues") if q["pattern"] == "near.gpu")

    until(60, lambda: row()["delivered"] == COUNT // 10 and row()["pending"] == 0, "all is delivered")
    lists = []
    for member in members:
        member.tell("tell")
        lists.append([int(word) for word in member.expect("got")[3:]])
    each_once(lists, 1, COUNT // 10)
    check(len(lists[2]) >= 0.9 * COUNT // 10, f"{[len(got) for got in lists]}")
    print("gpu:", [len(got) for got in lists])
    for member in members:
        member.end_input()
        check(member.wait() == 0, member.log())
    broker.stop()


def test_equals_share(rig, broker):
    """All of one class: two by TCP, and two on the Unix socket, of which one has a stream."""
    tcp = Group(rig, broker, "near.tcp", [broker.url("stream")] * 2, False)
    unix = Group(rig, broker, "near.unix", [broker.url(), f"{broker.url()}?link=stream"], True)
    for group, nearness in ((tcp, "remote"), (unix, "host")):
        shown = [row["nearness"] for row in broker.ask("subs") if row["pattern"] == group.topic]
        check(shown == [nearness] * 2, f"{group.topic}: {shown}")
        group.publish(COUNT, 4 * RATE)
        lists = group.got()
        each_once(lists, 1, COUNT)
        check(all(len(got) >= COUNT / 10 for got in lists), f"{[len(got) for got in lists]}")
        check(group.row()["delivered_remote"] == (COUNT if group is tcp else 0), f"{group.row()}")
        group.end()
