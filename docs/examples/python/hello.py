# SPDX-License-Identifier: Apache-2.0
"""A message with all that one may carry, and its confirmation."""
import ambroker

with ambroker.connect(name="hello") as conn:
    sub = conn.subscribe("greetings", credit_msgs=16)
    pub = conn.publisher("greetings")
    pub.send(b"hello", key="k", props={"language": "Python"}, content_type="text/plain", ttl=60)
    pub.flush(5)
    msg = sub.next(5)
    settled = pub.stat()
    print(f"{msg.topic}: {bytes(msg).decode()}, from {msg.props['language'].decode()};",
          f"settled {settled['settled']} of {settled['posted']}")
