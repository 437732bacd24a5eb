# SPDX-License-Identifier: Apache-2.0
"""Publishes one message."""
import ambroker

with ambroker.connect() as conn:  # $AMB_URL; leaving it waits until the broker has the message
    conn.publish("greetings", b"hello")
