#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A program of this folder by the Python of a pytest: the one that has Debian's NumPy and torch.
#   with_pytests.sh PYTEST PROGRAM ARGUMENT...
set -euo pipefail
read -r first <"$1"
shift
# shellcheck disable=SC2086 # "#!/usr/bin/env python3" is two words.
exec ${first#\#!} "$@"
