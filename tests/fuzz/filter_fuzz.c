/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A filter of a subscription, and properties of a message that it is asked about. The first two
 * bytes say how long the filter's text is. By an index of the properties the answer is the same.
 */
#include "tests/fuzz/fuzz.h"
#include "wire/base/assert.h"
#include "wire/codec/filter.h"
#include "wire/codec/props.h"
#include "wire/codec/props_index.h"

static void ask(const struct amb_filter *filter, const uint8_t *blob, uint32_t len)
{
    struct amb_props_index index = {.blob = blob, .len = len};
    uint32_t count;
    uint32_t cells = amb_props_index_cells(blob, len, &count);
    index.mask = cells - 1;
    index.cells = calloc(cells, sizeof(*index.cells));
    amb_assert(index.cells != NULL && cells >= 2 * count);
    amb_props_index_fill(&index);
    struct amb_filter_message by_index = {.props = blob, .len = len, .index = &index};
    struct amb_filter_message by_search = {.props = blob, .len = len};
    bool passes = amb_filter_match(filter, blob, len);
    amb_assert(passes == amb_filter_match_message(filter, &by_index));
    amb_assert(passes == amb_filter_match_message(filter, &by_search));
    amb_assert(by_index.steps >= 1 && by_index.steps <= by_search.steps);
    free(index.cells);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    if (len < 2) {
        return 0;
    }
    size_t text_len = (size_t)data[0] | (size_t)data[1] << 8;
    data += 2;
    len -= 2;
    text_len = text_len < len ? text_len : len;
    char *text = (char *)fuzz_copy(data, text_len);
    uint8_t *blob = fuzz_copy(data + text_len, len - text_len);
    struct amb_filter *filter = NULL;
    struct amb_filter_error error = {.why = NULL};
    enum amb_status status = amb_filter_parse(text, text_len, &filter, &error);
    if (status == AMB_OK) {
        amb_assert(filter != NULL && amb_filter_heap(filter) > 0);
        if (amb_props_check(blob, len - text_len)) {
            ask(filter, blob, (uint32_t)(len - text_len));
        }
    } else {
        amb_assert(status == AMB_EINVAL && filter == NULL);
        amb_assert(error.why != NULL && error.at <= text_len);
    }
    amb_filter_free(&filter);
    free(text);
    free(blob);
    return 0;
}
