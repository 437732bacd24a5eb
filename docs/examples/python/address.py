# SPDX-License-Identifier: Apache-2.0
"""An address of this machine to hand to others: of the interface of the command line, or of any."""
import sys

import ambroker

print(f"tcp://{ambroker.interface_address(sys.argv[1] if len(sys.argv) > 1 else None)}:4733")
