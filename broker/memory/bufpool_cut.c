/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/memory/bufpool_cut.h"

bool amb_bufpool_cut(struct amb_buf *from, uint64_t len, struct amb_buf *out)
{
    if (!amb_bufpool_may_cut(from)) {
        return false;
    }
    uint64_t pages = from->cap / AMB_PAGE_SIZE;
    uint32_t cls = amb_pageheap_class_of(len);
    uint64_t keep = amb_sizeclass_units(cls);
    if (keep >= pages) {
        return false;
    }
    struct amb_segment *segment = from->segment;
    uint64_t first = (uint64_t)(from->data - segment->base) / AMB_PAGE_SIZE;
    amb_pageheap_cut(segment->pool_data, (uint32_t)first, (uint32_t)keep);
    *out = (struct amb_buf){.data = from->data,
                            .segment = segment,
                            .cap = keep * AMB_PAGE_SIZE,
                            .cls = AMB_BUF_RUNS + cls};
    from->data += out->cap;
    from->cap -= out->cap;
    from->cls = AMB_BUF_RUNS + amb_pageheap_class_of(from->cap);
    return true;
}
