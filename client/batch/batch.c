/* SPDX-License-Identifier: Apache-2.0 */
#include "client/batch/batch.h"

#include "client/conn/state/leases.h"
#include "wire/base/assert.h"
#include "wire/codec/props.h"

#include <stdlib.h>

/* A batch whose second message comes so soon is looked at every 8th or 16th message only. A look
 * costs about as much as 8 messages. The first message's own look is part of that time. */
#define FAST_NS INT64_C(2000)
#define FAST_MASK 7u
#define FASTER_NS INT64_C(500)
#define FASTER_MASK 15u
/* A stream that fills a batch within so many lingers is worth waiting for. */
#define PATIENCE 4u
/* No message waits longer than so many times that, whatever comes behind it. */
#define OLDEST 10

/* Zeros in front of meta, for a payload's padding (amb_link_tx.data_pad). */
#define META_FRONT 64u
#define LEASED_RECORD (sizeof(struct amb_record) + sizeof(uint64_t))

static struct amb_batch *create(uint64_t data_cap, uint32_t meta_cap)
{
    struct amb_batch *batch = calloc(1, sizeof(*batch));
    if (batch == NULL) {
        return NULL;
    }
    batch->out.kind = AMB_CONN_TX_BATCH;
    amb_list_init(&batch->node);
    batch->data_cap = data_cap;
    batch->meta_cap = meta_cap;
    batch->blob_cap = (uint32_t)data_cap;
    /* Room for one payload's padding behind what fits. */
    uint64_t data_room = (data_cap + AMB_PAYLOAD_PAD + 63) & ~UINT64_C(63);
    uint8_t *meta = aligned_alloc(64, META_FRONT + ((meta_cap + 63u) & ~63u));
    if (meta != NULL) {
        memset(meta, 0, META_FRONT);
        batch->meta = meta + META_FRONT;
    }
    batch->data = data_cap != 0 ? aligned_alloc(64, data_room) : NULL;
    if (batch->meta == NULL || (data_cap != 0 && batch->data == NULL)) {
        amb_batch_destroy(&batch);
    }
    return batch;
}

struct amb_batch *amb_batch_create(uint32_t batch_bytes)
{
    return create(batch_bytes, batch_bytes); /* amb_batch_fits counts all of it as one. */
}

struct amb_batch *amb_batch_create_large(void)
{
    struct amb_batch *batch =
        create(0, sizeof(struct amb_record) + amb_props_padded(AMB_PROPS_MAX));
    if (batch != NULL) {
        batch->is_large = true;
        batch->blob_cap = amb_props_padded(AMB_PROPS_MAX);
    }
    return batch;
}

struct amb_batch *amb_batch_create_leased(void)
{
    struct amb_batch *batch = create(0, AMB_META_MAX);
    if (batch == NULL) {
        return NULL;
    }
    batch->is_leased = true;
    batch->blob_cap = AMB_META_MAX - AMB_BATCH_MSGS_MAX * (uint32_t)LEASED_RECORD;
    batch->slot_head = AMB_SLOT_NONE;
    batch->offsets = malloc(AMB_BATCH_MSGS_MAX * sizeof(*batch->offsets));
    if (batch->offsets == NULL) {
        amb_batch_destroy(&batch);
    }
    return batch;
}

void amb_batch_destroy(struct amb_batch **batch)
{
    if (*batch != NULL) {
        if (!(*batch)->is_large) {
            free((*batch)->data);
        }
        amb_assert(!(*batch)->is_pooled);
        free((*batch)->owned);
        free((*batch)->offsets);
        if ((*batch)->meta != NULL) {
            free((*batch)->meta - META_FRONT);
        }
        free((*batch)->blobs);
        free(*batch);
        *batch = NULL;
    }
}

void amb_batch_add_pieces(struct amb_batch *batch, const struct amb_iov *pieces, uint32_t count,
                          uint64_t len)
{
    uint8_t *to = batch->data + batch->data_len;
    uint64_t padded = amb_payload_padded(len);
    if (padded != 0) {
        memset(to + padded - AMB_PAYLOAD_PAD, 0, AMB_PAYLOAD_PAD);
    }
    for (uint32_t i = 0; i < count; i++) {
        if (pieces[i].len != 0) {
            memcpy(to, pieces[i].data, pieces[i].len);
            to += pieces[i].len;
        }
    }
    amb_batch_records(batch)[batch->count++] = (struct amb_record){.len = (uint32_t)len};
    batch->data_len += padded;
}

void amb_batch_undo(struct amb_batch *batch)
{
    amb_assert(batch->count != 0);
    batch->data_len -= amb_payload_padded(amb_batch_records(batch)[--batch->count].len);
}

enum amb_status amb_batch_add_props(struct amb_batch *batch, const uint8_t *blob, uint32_t blob_len,
                                    uint32_t key_hash, uint32_t ttl_ms)
{
    amb_assert(batch->count != 0);
    struct amb_record *record = &amb_batch_records(batch)[batch->count - 1];
    record->key_hash = key_hash;
    record->ttl_ms = ttl_ms;
    batch->out.frame.flags |= ttl_ms != 0 ? AMB_FRAME_FLAG_TTL : AMB_FRAME_FLAG_NONE;
    if (blob_len == 0) {
        return AMB_OK;
    }
    if (batch->blobs == NULL) {
        batch->blobs = malloc(batch->blob_cap);
        if (batch->blobs == NULL) {
            return AMB_ENOMEM;
        }
    }
    uint32_t padded = amb_props_padded(blob_len);
    amb_assert(batch->blob_len + padded <= batch->blob_cap);
    uint8_t *to = batch->blobs + batch->blob_len;
    memset(to + padded - 8, 0, 8);
    memcpy(to, blob, blob_len);
    record->props_len = (uint16_t)blob_len;
    batch->blob_len += padded;
    return AMB_OK;
}

/* Where a copy has what. */
struct copy_layout {
    uint64_t meta, data, size;
    uint32_t meta_len;
};

static struct copy_layout lay_out(const struct amb_batch *batch)
{
    uint64_t record = batch->is_leased ? LEASED_RECORD : sizeof(struct amb_record);
    struct copy_layout layout = {.meta = (sizeof(*batch) + 63) & ~UINT64_C(63)};
    layout.meta_len = batch->count * (uint32_t)record + batch->blob_len;
    layout.data = (layout.meta + layout.meta_len + 63) & ~UINT64_C(63);
    layout.size = layout.data + (batch->is_leased ? 0 : batch->data_len);
    return layout;
}

uint64_t amb_batch_whole(const struct amb_batch *batch)
{
    if (batch->is_packed) {
        return batch->owned_len;
    }
    uint64_t bytes = sizeof(*batch) + META_FRONT + batch->meta_cap;
    bytes += batch->is_large ? 0 : batch->data_cap;
    bytes += batch->is_pooled ? 0 : batch->owned_len; /* That is counted as a lease. */
    bytes += batch->is_leased ? AMB_BATCH_MSGS_MAX * sizeof(*batch->offsets) : 0;
    /* These two may still get properties after they were counted. */
    bool has_blobs = batch->blobs != NULL || batch->is_leased || batch->is_large;
    return bytes + (has_blobs ? batch->blob_cap : 0);
}

uint64_t amb_batch_copy_size(const struct amb_batch *batch)
{
    return lay_out(batch).size;
}

struct amb_batch *amb_batch_copy(struct amb_batch *batch, void *room)
{
    amb_assert(!batch->is_large && !batch->is_packed && batch->fences == NULL);
    struct copy_layout layout = lay_out(batch);
    amb_batch_close(batch);
    amb_assert(batch->out.frame.meta_len == layout.meta_len);
    struct amb_batch *copy = room;
    uint8_t *bytes = room;
    *copy = (struct amb_batch){
        .out = {.frame = batch->out.frame, .kind = AMB_CONN_TX_BATCH},
        .is_packed = true,
        .is_leased = batch->is_leased,
        .slots = batch->slots,
        .slot_head = batch->slot_head,
        .has_failed = batch->has_failed,
        .first_seq = batch->first_seq,
        .count = batch->count,
        .blob_len = batch->blob_len,
        .data_len = batch->data_len,
        .meta = bytes + layout.meta,
        .owned_len = layout.size,
    };
    amb_list_init(&copy->node);
    memcpy(copy->meta, batch->meta, layout.meta_len);
    if (batch->is_leased) {
        copy->offsets = (uint64_t *)(void *)(amb_batch_records(copy) + copy->count);
    } else {
        copy->data = bytes + layout.data;
        memcpy(copy->data, batch->data, batch->data_len);
    }
    copy->blobs = copy->meta + (layout.meta_len - copy->blob_len);
    batch->slots = NULL;
    batch->slot_head = AMB_SLOT_NONE;
    batch->has_failed = false;
    return copy;
}

void amb_batch_close(struct amb_batch *batch)
{
    if (batch->is_packed) {
        batch->out.tx.data = batch->data;
        batch->out.tx.meta = batch->meta;
        return;
    }
    uint32_t table = batch->count * (uint32_t)sizeof(struct amb_record);
    if (batch->is_leased) {
        uint32_t offsets = batch->count * (uint32_t)sizeof(*batch->offsets);
        memcpy(batch->meta + table, batch->offsets, offsets);
        table += offsets;
    }
    amb_assert(batch->count != 0 && table + batch->blob_len <= batch->meta_cap);
    if (batch->blob_len != 0) {
        memcpy(batch->meta + table, batch->blobs, batch->blob_len);
    }
    batch->out.frame.type = batch->is_leased ? AMB_FRAME_COMMIT : AMB_FRAME_BATCH;
    batch->out.frame.count = batch->count;
    batch->out.frame.data_len = batch->data_len;
    batch->out.frame.meta_len = table + batch->blob_len;
    batch->out.tx.data = batch->data;
    batch->out.tx.data_pad = batch->data_pad;
    batch->out.tx.meta = batch->meta - batch->data_pad;
}

void amb_batch_reset(struct amb_batch *batch)
{
    batch->count = 0;
    batch->out.frame.flags = AMB_FRAME_FLAG_NONE;
    batch->blob_len = 0;
    batch->data_len = 0;
    batch->slots = NULL;
    batch->slot_head = AMB_SLOT_NONE;
    if (batch->is_large) {
        batch->out.frame.number = 0;
        amb_assert(!batch->is_pooled);
        free(batch->owned);
        batch->owned = NULL;
        batch->owned_len = 0;
        batch->data = NULL;
        batch->data_pad = 0;
        batch->out.tx.is_device = false;
        batch->pub = NULL;
        batch->is_waited = false;
    }
}

void amb_batch_rule_init(struct amb_batch_rule *rule, int64_t linger_ns)
{
    *rule = (struct amb_batch_rule){
        .linger_ns = linger_ns, .patience_ns = linger_ns, .much = UINT64_MAX};
}

void amb_batch_rule_patient(struct amb_batch_rule *rule, uint64_t full)
{
    rule->patience_ns = rule->linger_ns * PATIENCE;
    rule->much = full / PATIENCE;
}

void amb_batch_rule_open(struct amb_batch_rule *rule, int64_t now_ns)
{
    if (now_ns - rule->last_ns > AMB_BATCH_IDLE_NS) {
        rule->min_bytes = 0;
    }
    if (now_ns - rule->last_ns > rule->patience_ns) {
        rule->is_flowing = false;
    }
    rule->first_ns = rule->seen_ns = rule->look_ns = now_ns;
    rule->slow_looks = 0;
}

/* Is it still filling up, although it is old? A publisher that lost its CPU for a while is not
 * slow: it is if two looks in a row come late. */
static bool is_flowing_on(const struct amb_batch_rule *rule, int64_t age_ns)
{
    return rule->is_flowing && rule->slow_looks < 2 && age_ns < OLDEST * rule->patience_ns;
}

bool amb_batch_rule_ask(struct amb_batch_rule *rule, uint32_t count, uint64_t bytes,
                        bool is_in_flight, int64_t now_ns)
{
    int64_t age = now_ns - rule->first_ns;
    rule->seen_ns = now_ns;
    if (count == 2) {
        rule->mask = age < FASTER_NS ? FASTER_MASK : age < FAST_NS ? FAST_MASK : 0;
    }
    bool is_slow = now_ns - rule->look_ns > AMB_BATCH_FAST_NS;
    rule->slow_looks = is_slow ? rule->slow_looks + 1 : 0;
    rule->look_ns = now_ns;
    if (age >= rule->linger_ns) {
        bool fills = bytes >= rule->much || rule->is_flowing;
        return !fills || (age >= rule->patience_ns && !is_flowing_on(rule, age));
    }
    if (is_in_flight || rule->is_flowing) {
        return false;
    }
    if (bytes >= rule->min_bytes) {
        if (count > 1 && age < AMB_BATCH_FAST_NS && rule->min_bytes < AMB_BATCH_MIN_MAX) {
            rule->min_bytes = rule->min_bytes == 0 ? AMB_BATCH_MIN_FIRST : rule->min_bytes * 2;
        }
        return true;
    }
    if (age > AMB_BATCH_FAST_NS) {
        rule->min_bytes /= 2;
        return true;
    }
    return false;
}

void amb_batch_rule_sent(struct amb_batch_rule *rule, uint64_t bytes)
{
    rule->is_flowing = bytes >= rule->much;
    rule->last_ns = rule->seen_ns;
    rule->mask = 0;
}
