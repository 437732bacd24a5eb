# SPDX-License-Identifier: Apache-2.0
# The script of tour.ipynb, which tools/dev/notebook.py makes of it.
# %% [markdown]
# # Ambroker in ten minutes
# Each cell is a step of one program. [python.md](python.md) says more about each.
# Install the wheel of `tools/wheel.sh` and NumPy first: `pip install build/wheel/*.whl numpy`.

# %%
import threading

import ambroker
import numpy as np

broker = ambroker.Broker(memory={"host": {"size": "256M"}})  # a brokerd of this program's own
conn = ambroker.connect(broker.url)
print("version", ambroker.__version__)

# %% [markdown]
# ## An array is a message
# Shape and type go along. The reader has the array where it lies, read-only.

# %%
frames = conn.subscribe("frames.>")
conn.publish("frames.left", np.arange(12, dtype="f4").reshape(3, 4), props={"lens": "wide"})
msg = frames.next(timeout=5)
image = msg.array
print(msg.topic, msg.props, image.shape, image.dtype, image.flags.writeable)

# %%
assert image.shape == (3, 4) and not image.flags.writeable
try:
    msg.release()
except BufferError as error:
    print("still in use:", error)

# %% [markdown]
# ## Written in place
# A lease is memory of the broker's: nothing is copied on the way to a reader of this host.

# %%
pub = conn.publisher("frames.right")
with pub.lease((480, 640), "f4") as array:
    array[:] = 7
msg = frames.next(5)
print(msg.path, msg.array.sum())
assert msg.path == "mapped" and msg.array.sum() == 7 * 480 * 640

# %% [markdown]
# ## Many small messages
# `send_many` and `next_many` pay the call once.

# %%
numbers = conn.subscribe("numbers")
feed = conn.publisher("numbers")
assert feed.send_many([b"%d" % number for number in range(1000)]) == 1000
feed.flush(5)
taken = []
while len(taken) < 1000:
    taken += numbers.next_many(1000, 5)
print(len(taken), "messages, the last one", bytes(taken[-1]))
del taken  # what is held holds memory of the broker's

# %% [markdown]
# ## Questions and answers

# %%
questions = conn.subscribe("sum")


def answer():
    question = questions.next(5)
    question.reply(question.array.sum(keepdims=True))


thread = threading.Thread(target=answer)
thread.start()
reply = conn.request("sum", np.arange(5.0), timeout=5)
thread.join()
print("the sum is", reply.array[0])
assert reply.array[0] == 10

# %% [markdown]
# ## Jobs that are done once
# Members of a group share the messages. One that is not acknowledged comes again.

# %%
jobs = conn.subscribe("jobs", group="workers", ack="explicit")
conn.publish("jobs", b"paint")
first = jobs.next(5)
first.nak()  # not now
second = jobs.next(5)
print(bytes(second), "comes for the", second.deliveries, "time")
second.ack()
assert second.deliveries == 2

# %% [markdown]
# ## Objects
# Pickles run code of their writer, so a reader has to say that it trusts them.

# %%
results = conn.subscribe("results", trust_pickle=True)
conn.publish_object("results", {"loss": 0.5, "weights": np.ones(1000)})
result = results.next(5).object()
print(result["loss"], result["weights"].sum())
assert result["weights"].sum() == 1000

# %% [markdown]
# ## How it stands, and the end

# %%
status = conn.admin("status")
print(sorted(status)[:5])
conn.close()
broker.close()
