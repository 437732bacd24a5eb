# SPDX-License-Identifier: Apache-2.0
"""A question and its answer."""
import threading

import ambroker


def serve():
    question = questions.next(10)
    question.reply(bytes(question).upper())


with ambroker.connect() as conn:
    questions = conn.subscribe("upper")
    threading.Thread(target=serve).start()
    print(bytes(conn.request("upper", b"hello", timeout=5)))
    try:
        conn.request("nobody", b"")
    except ambroker.NoResponders:
        print("nobody answers there")
