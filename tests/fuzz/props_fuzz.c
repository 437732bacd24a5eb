/* SPDX-License-Identifier: Apache-2.0 */
/* A blob that is well formed comes out of the writer as it went in. */
#include "tests/fuzz/fuzz.h"
#include "wire/base/assert.h"
#include "wire/codec/props.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    uint8_t *blob = fuzz_copy(data, len);
    uint8_t *again = fuzz_copy(data, len);
    if (amb_props_check(blob, len)) {
        memset(again, 0x5a, len);
        struct amb_props_writer writer;
        amb_props_writer_init(&writer, again, len);
        struct amb_prop_view view, found;
        size_t pos = 0;
        while (amb_props_next(blob, len, &pos, &view)) {
            amb_assert(amb_props_add(&writer, view.name, view.value, view.value_len) == AMB_OK);
            amb_assert(amb_props_find(blob, len, view.name, &found));
        }
        amb_assert(pos == len && writer.len == len);
        amb_assert(memcmp(blob, again, len) == 0);
    }
    free(again);
    free(blob);
    return 0;
}
