# SPDX-License-Identifier: Apache-2.0
"""The broker's word on itself, of a connection through its unix socket."""
import ambroker

with ambroker.connect(name="asker") as conn:
    status = conn.admin("status")
    clients = conn.admin("clients")["clients"]
    print(bool(status), [one["name"] for one in clients])
