#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tools/dev/hooks/pre-commit in a small repository: a sound commit passes, a bad one does not.
#   tests/dev/hook_test.sh
set -euo pipefail
command -v git >/dev/null || { echo 'no git here' && exit 77; }
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() {
    printf 'FAIL: %s\n' "$*" >&2
    cat "$folder/said" >&2
    exit 1
}

cd "$folder"
export HOME=$folder GIT_CONFIG_NOSYSTEM=1
unset GIT_DIR GIT_INDEX_FILE GIT_WORK_TREE
git init -q tree
cd tree
git config user.name tester
git config user.email tester@example.com
git config core.hooksPath tools/dev/hooks
mkdir -p tools wire/base tests/unit/wire/base
cp -r "$root/tools/dev" tools/
cp "$root/.clang-format" .
rm -rf tools/dev/__pycache__
printf 'wire/base:\n' >tools/dev/arrows.txt
printf '# none\n' >tools/dev/untested.txt
for name in wire/base/a.c tests/unit/wire/base/a_test.c; do
    printf '/* SPDX-License-Identifier: Apache-2.0 */\nint %s(void);\n' "$(basename "$name" .c)" >"$name"
done
commit() { git add -A && git commit -q -m "$1" >"$folder/said" 2>&1; }

commit sound || fail 'a sound commit is refused'
printf '/* SPDX-License-Identifier: Apache-2.0 */\nint b(void);\n' >wire/base/b.c
! commit untested || fail 'a source without a test is committed'
grep -q 'no tests/unit/wire/base/b_test.c' "$folder/said" || fail 'it does not say why'
rm wire/base/b.c
printf 'int   b( void );\n' >>wire/base/a.c
if command -v clang-format-14 >/dev/null; then
    ! commit crooked || fail 'a file of another format is committed'
fi
git checkout -q HEAD -- wire/base/a.c
printf 'text\n' >wire/base/README.md
commit sound-again || fail 'a sound commit is refused after a bad one'
echo passed
