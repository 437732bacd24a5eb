# SPDX-License-Identifier: Apache-2.0
"""Two who write to one ledger, each only behind what it has read: compare and set."""
import ambroker

conn = ambroker.connect()
ledger = conn.subscribe("ledger")
alice, bob = conn.publisher("ledger"), conn.publisher("ledger")
alice.send(b"opened")
last = ledger.next(5).seq  # both have read it
alice.send(b"alice: 10", expect_seq=last + 1)
alice.flush(5)
bob.send(b"bob: 7", expect_seq=last + 1)
try:
    bob.flush(5)
except ambroker.Rejected:
    last = ledger.next(5).seq  # so he reads what alice wrote, and writes behind it
    bob.send(b"bob: 17", expect_seq=last + 1)
    bob.flush(5)
print(bytes(ledger.next(5)))
