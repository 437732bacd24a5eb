/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/link/ucx/ucx_op.h"

#include "wire/base/assert.h"

struct amb_ucx_op *amb_ucx_op_get(struct amb_ucx_link *link, enum amb_ucx_op_kind kind)
{
    struct amb_ucx_op *op = amb_pool_get(&link->worker->ops);
    if (op == NULL) {
        return NULL;
    }
    amb_list_push_back(&link->worker->under_way, &op->node);
    op->link = link;
    op->kind = kind;
    link->pending++;
    return op;
}

void amb_ucx_op_put(struct amb_ucx_op *op)
{
    struct amb_ucx_link *link = op->link;
    amb_assert(link->pending > 0);
    amb_list_remove(&op->node);
    link->pending--;
    amb_pool_put(&link->worker->heads, op->head);
    amb_pool_put(&link->worker->ops, op);
}

void amb_ucx_op_settle(struct amb_ucx_op *op, ucs_status_t status)
{
    op->status = status;
    amb_list_remove(&op->node);
    amb_list_push_back(&op->link->worker->settled, &op->node);
}

void amb_ucx_link_break(struct amb_ucx_link *link, enum amb_status why, const char *text)
{
    if (link->why != AMB_OK || link->is_closing) {
        return;
    }
    link->why = why;
    link->why_text = text;
    link->base.is_down = true;
    amb_list_push_back(&link->worker->broken, &link->node);
}
