/* SPDX-License-Identifier: Apache-2.0 */
#include "client/batch/window.h"

#include "client/batch/pub.h"
#include "client/conn/conn.h"

/*
 * The amount to ask for: `size` bytes beyond `from`. If the batch has grown since the last
 * question, as much again, up to a full batch. Where memory is short the broker gives exactly the
 * bytes asked for. Without the extra, a batch that grows would never leave.
 */
static uint64_t amount_of(const struct amb_pub *pub, uint64_t from, uint64_t size)
{
    uint64_t most = pub->conn->session.batch_bytes;
    bool has_grown = pub->window.wanted > from && size > pub->window.need && size < most;
    return from + size + (!has_grown ? 0 : size < most - size ? size : most - size);
}

static void ask_for(struct amb_pub *pub, uint64_t wanted)
{
    pub->window.wanted = wanted;
    amb_link_flow(pub->conn->link, AMB_FLOW_WANT, pub->handle, wanted);
    pub->conn->link_state.must_flush = true;
}

bool amb_pub_has_window(struct amb_pub *pub, uint64_t size)
{
    uint64_t inflight = pub->window.sent - pub->settle.settled_bytes;
    bool is_own_limit = inflight != 0 && inflight + size > pub->window.limit_bytes;
    uint64_t from = pub->window.sent - pub->window.leased, upto = from + size;
    if (upto <= pub->window.granted && !is_own_limit) {
        if (__builtin_expect(pub->window.wanted > pub->window.granted, 0)) {
            ask_for(pub, upto); /* Takes the old question back, which was for more. */
        }
        return true;
    }
    if (upto <= pub->window.granted) {
        pub->window.wanted = upto; /* The call that wanted more may have given up. */
    } else if (pub->window.wanted < upto ||
               (size < pub->window.need && pub->window.wanted != upto)) {
        ask_for(pub, amount_of(pub, from, size));
    }
    pub->window.need = size;
    return false;
}
