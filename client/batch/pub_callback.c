/* SPDX-License-Identifier: Apache-2.0 */
#include "client/batch/pub_callback.h"

#include "client/batch/batches.h"
#include "client/batch/flush.h"
#include "client/batch/pub.h"
#include "client/conn/conn.h"
#include "client/conn/inside.h"
#include "client/drive/lock.h"
#include "client/drive/wake.h"

#include <stdlib.h>

void amb_pub_free(struct amb_pub *pub)
{
    amb_pub_drop_unsent(pub);
    amb_pub_batch_put(pub->conn, pub->open);
    amb_settle_fini(&pub->settle);
    amb_pub_away_fini(&pub->away);
    free(pub);
}

unsigned amb_pub_run_settled(struct amb_pub *pub, unsigned max)
{
    struct amb_conn *conn = pub->conn;
    struct amb_settle_range range;
    unsigned ran = 0;
    pub->callback.is_running = true;
    pub->callback.thread = pthread_self();
    while (ran < max && !pub->callback.must_free && amb_settle_take(&pub->settle, &range)) {
        struct amb_settled settled = {.size = sizeof(settled),
                                      .status = range.status,
                                      .first = range.first,
                                      .last = range.last,
                                      .log_seq = range.log_seq,
                                      .matched = range.matched,
                                      .delivered = range.delivered,
                                      .dropped = range.dropped};
        amb_conn_unlock(conn);
        pub->callback.on_settled(pub, &settled, pub->callback.arg);
        amb_conn_lock(conn);
        ran++;
    }
    pub->callback.is_running = false;
    amb_conn_changed(conn);
    if (pub->callback.must_free) { /* Closed inside its own callback. */
        amb_pub_free(pub);
    }
    return ran;
}

void amb_pub_call_settled(struct amb_pub *pub)
{
    struct amb_conn *conn = pub->conn;
    if (pub->callback.on_settled == NULL || pub->callback.is_running) {
        return;
    }
    const struct amb_conn *outer = amb_callbacks_enter(conn);
    amb_conn_lock(conn);
    (void)amb_pub_run_settled(pub, AMB_SETTLE_RANGES_MAX);
    amb_conn_unlock(conn);
    amb_callbacks_leave(outer);
}
