# SPDX-License-Identifier: Apache-2.0
"""An image that a thread reads where it lies, after the connection is closed."""
import threading

import ambroker


def consume(msg, size=64 << 20):
    image = msg.array
    print(f"{msg.topic}: {image.size} bytes of {msg.content_type}, {(image == 90).sum()} of them 5a, by {msg.path}")
    assert image.size == size


with ambroker.connect() as conn:
    sub = conn.subscribe("camera.*", credit_bytes="256M")
    with conn.publisher("camera.front").lease(64 << 20, content_type="image/raw") as array:
        array[:] = 90
    thread = threading.Thread(target=consume, args=(sub.next(60),))
thread.start()
thread.join()
