/* SPDX-License-Identifier: Apache-2.0 */
/* Any text as a format of broker-ctl sub: its pieces are all of it, or its fault has a position. */
#include "tests/fuzz/fuzz.h"
#include "tools/cli/forms.h"
#include "wire/base/assert.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    char *text = fuzz_text(data, len);
    const char *at = text, *before = text;
    struct amb_form_piece piece;
    while (amb_form_format_next(&at, &piece)) {
        amb_assert(at > before);
        amb_assert((piece.field != 0) == (piece.len == 0));
        amb_assert(piece.field == 0 || strchr(AMB_FORM_FIELDS, piece.field) != NULL);
        before = at;
    }
    const char *fault = amb_form_format_fault(text);
    amb_assert((fault == NULL) == (*at == '\0' && at != text));
    amb_assert(*at == '\0' || strstr(fault, "position") != NULL);
    free(text);
    return 0;
}
