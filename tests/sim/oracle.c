/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/model.h"

#include "broker/config/config.h"
#include "broker/delivery/acks/deadletter.h"
#include "tests/sim/sim.h"
#include "wire/base/assert.h"
#include "wire/base/clock.h"
#include "wire/codec/topic.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define LAST_BYTES 64u /* a message of publish_last on the link, rounded up */

#define SIM_BATCH_MSGS 12u             /* messages of a batch */
#define MODEL_LIVES 64u                /* of clients, remembered at a time */
#define HUGE_BYTES (UINT64_C(1) << 20) /* no log of a seed has so many */
#define BATCH_OVERHEAD 8192u
#define NEIGHBOURS 64u /* how far the next message of the same publisher is looked for */

void model_begin(struct sim *s)
{
    struct model *m = &s->model;
    for (uint32_t i = 1; i <= m->topic_count; i++) {
        struct model_topic *topic = &m->topics[i];
        if (topic->at != NULL) { /* It had a message. */
            memset(topic->at, 0, (topic->top + 1) * sizeof(*topic->at));
        }
        *topic = (struct model_topic){.at = topic->at, .cap = topic->cap};
    }
    for (uint32_t i = 1; i <= m->pub_count; i++) {
        struct model_pub *pub = &m->pubs[i];
        *pub = (struct model_pub){.messages = pub->messages, .cap = pub->cap};
    }
    for (uint32_t i = 1; i <= m->queue_count; i++) {
        for (unsigned k = 0; k < m->queues[i].count; k++) {
            free(m->queues[i].on[k].turns);
        }
        memset(&m->queues[i], 0, sizeof(m->queues[i]));
    }
    m->topic_count = m->pub_count = m->queue_count = 0;
}

void model_fini(struct sim *s)
{
    model_begin(s);
    for (uint32_t i = 0; i < MODEL_TOPICS; i++) {
        free(s->model.topics[i].at);
    }
    for (uint32_t i = 0; i < MODEL_PUBS; i++) {
        free(s->model.pubs[i].messages);
    }
}

/* Topics and publishers ------------------------------------------------------------------------ */

uint32_t model_topic(struct sim *s, uint32_t id, const char *name, enum amb_priority priority)
{
    struct model *m = &s->model;
    for (uint32_t i = m->topic_count; i > 0; i--) {
        if (m->topics[i].id == id) {
            SIM_CHECK(s,
                      name == NULL || (strcmp(m->topics[i].name, name) == 0 &&
                                       m->topics[i].priority == priority),
                      "topic id %" PRIu32 " is %s, %d and %s, %d", id, m->topics[i].name,
                      (int)m->topics[i].priority, name, (int)priority);
            return i;
        }
    }
    SIM_CHECK(s, name != NULL, "topic id %" PRIu32 " came before its name", id);
    SIM_CHECK(s, m->topic_count + 1 < MODEL_TOPICS, "more topics than the model has room for");
    struct model_topic *topic = &m->topics[++m->topic_count];
    topic->id = id;
    topic->priority = priority;
    strncpy(topic->name, name, sizeof(topic->name) - 1);
    topic->is_dead_letters =
        strncmp(name, AMB_DEADLETTER_PREFIX, strlen(AMB_DEADLETTER_PREFIX)) == 0;
    topic->rule = amb_config_topic(s->config, name);
    topic->born = s->step;
    return m->topic_count;
}

uint32_t model_publisher(struct sim *s, uint32_t where, uint32_t name)
{
    struct model *m = &s->model;
    for (uint32_t i = 1; name != 0 && i <= m->pub_count; i++) {
        if (m->pubs[i].name == name && m->pubs[i].where == where) {
            return i;
        }
    }
    SIM_CHECK(s, m->pub_count + 1 < MODEL_PUBS, "more publishers than the model has room for");
    m->pubs[++m->pub_count].name = name;
    m->pubs[m->pub_count].where = where;
    return m->pub_count;
}

struct model_message *model_message(struct sim *s, uint32_t pub, uint32_t number)
{
    SIM_CHECK(
        s, pub > 0 && pub <= s->model.pub_count && number > 0 && number <= s->model.pubs[pub].count,
        "message %" PRIu32 " of publisher %" PRIu32 " was never sent", number, pub);
    return &s->model.pubs[pub].messages[number - 1];
}

/* The whole batch's memory: what it says, rounded up by its allocator, and its entry. */
static uint64_t memory_of(const struct sim_publisher *plan)
{
    uint64_t each = amb_payload_padded(plan->plan_len) + sizeof(struct amb_record) +
                    sizeof(uint64_t) + SIM_PROPS;
    return plan->plan_count * each * 5 / 4 + BATCH_OVERHEAD;
}

void model_send(struct sim *s, uint32_t pub, uint32_t number, const struct sim_publisher *plan)
{
    const struct model_message message = {.topic = s->model.pubs[pub].topic,
                                          .sent_ns = s->now_ns,
                                          .step = s->step,
                                          .ttl_ms = plan->plan_ttl_ms,
                                          .len = plan->plan_len,
                                          .keeps = memory_of(plan)};
    uint32_t ttl_ms = plan->plan_ttl_ms;
    struct model_pub *p = &s->model.pubs[pub];
    s->model.topics[p->topic].has_own_ttl |= ttl_ms != 0;
    if (number <= p->count) {
        struct model_message *before = model_message(s, pub, number);
        SIM_CHECK(s, before->seq == 0 || before->topic != p->topic,
                  "publisher %" PRIu32 ": message %" PRIu32 " is asked for again, and it is there",
                  pub, number);
        *before = message;
        return;
    }
    if (p->count == p->cap) {
        p->cap = p->cap == 0 ? 64 : p->cap * 2;
        p->messages = realloc(p->messages, p->cap * sizeof(*p->messages));
        amb_assert(p->messages != NULL);
    }
    p->messages[p->count++] = message;
}

static void topic_reach(struct model_topic *topic, uint64_t seq)
{
    if (seq >= topic->cap) {
        uint64_t cap = topic->cap == 0 ? 256 : topic->cap;
        while (cap <= seq) {
            cap *= 2;
        }
        topic->at = realloc(topic->at, cap * sizeof(*topic->at));
        amb_assert(topic->at != NULL);
        memset(topic->at + topic->cap, 0, (cap - topic->cap) * sizeof(*topic->at));
        topic->cap = cap;
    }
    topic->top = seq > topic->top ? seq : topic->top;
}

/* The publisher's neighbours that have a number have one on their side. */
static void check_order(const struct sim *s, const struct model_pub *pub, uint32_t topic,
                        uint32_t number, uint64_t seq)
{
    for (uint32_t i = number - 1; i > 0 && number - i < NEIGHBOURS; i--) {
        const struct model_message *before = &pub->messages[i - 1];
        if (before->seq != 0 && before->topic == topic) {
            SIM_CHECK(s, before->seq < seq,
                      "order: message %" PRIu32 " has number %" PRIu64 ", an older one %" PRIu64,
                      number, seq, before->seq);
            break;
        }
    }
    for (uint32_t i = number + 1; i <= pub->count && i - number < NEIGHBOURS; i++) {
        const struct model_message *after = &pub->messages[i - 1];
        if (after->seq != 0 && after->topic == topic) {
            SIM_CHECK(s, after->seq > seq,
                      "order: message %" PRIu32 " has number %" PRIu64 ", a newer one %" PRIu64,
                      number, seq, after->seq);
            break;
        }
    }
}

/* Is it read by a queue that gives up? Then it may be given up without having been seen, by members
 * that died before they looked. */
static bool may_exhaust(const struct sim *s, uint32_t topic)
{
    const char *name = s->model.topics[topic].name;
    for (uint32_t i = 1; i <= s->model.queue_count; i++) {
        const struct model_queue *queue = &s->model.queues[i];
        if (queue->options.max_deliver != 0 &&
            amb_pattern_matches(queue->pattern, strlen(queue->pattern), name, strlen(name))) {
            return true;
        }
    }
    return false;
}

void model_place(struct sim *s, uint32_t topic_index, uint64_t seq, uint64_t above, uint32_t pub,
                 uint32_t number)
{
    struct model_topic *topic = &s->model.topics[topic_index];
    struct model_message *message = model_message(s, pub, number);
    topic_reach(topic, seq);
    struct model_at *at = &topic->at[seq];
    if (at->pub != 0) {
        SIM_CHECK(s, at->pub == pub && at->number == number,
                  "%s: number %" PRIu64 " is message %" PRIu32 " of publisher %" PRIu32
                  " and message %" PRIu32 " of %" PRIu32,
                  topic->name, seq, at->number, at->pub, number, pub);
        SIM_CHECK(s, topic->is_dead_letters || message->above == above,
                  "%s: number %" PRIu64 " has %" PRIu64 " above it, and %" PRIu64, topic->name, seq,
                  message->above, above);
        return;
    }
    *at = (struct model_at){pub, number};
    if (topic->is_dead_letters) {
        SIM_CHECK(s,
                  message->may_die || may_exhaust(s, message->topic) ||
                      s->model.topics[message->topic].some_may_die,
                  "a dead letter of message %" PRIu32 " of publisher %" PRIu32, number, pub);
        s->stats.dead++;
        return;
    }
    SIM_CHECK(s, message->topic == topic_index, "a message is in another topic");
    SIM_CHECK(s, message->fate != MODEL_REFUSED,
              "%s: message %" PRIu32 " of publisher %" PRIu32 " was refused and is number %" PRIu64,
              topic->name, number, pub, seq);
    SIM_CHECK(s, message->seq == 0,
              "%s: message %" PRIu32 " of publisher %" PRIu32 " is number %" PRIu64
              " and number %" PRIu64,
              topic->name, number, pub, message->seq, seq);
    message->seq = seq;
    message->above = above;
    check_order(s, &s->model.pubs[pub], topic_index, number, seq);
}

void model_may_die(struct sim *s, uint32_t topic_index, uint64_t seq)
{
    struct model_topic *topic = &s->model.topics[topic_index];
    if (seq <= topic->top && topic->at[seq].pub != 0) {
        model_message(s, topic->at[seq].pub, topic->at[seq].number)->may_die = true;
    } else {
        topic->some_may_die = true;
    }
}

void model_settle(struct sim *s, uint32_t pub, uint32_t first, uint32_t count,
                  enum amb_status status, uint64_t seq, uint64_t above)
{
    const struct model_pub *p = &s->model.pubs[pub];
    const struct amb_topic_rule *rule = s->model.topics[p->topic].rule;
    SIM_CHECK(s,
              status == AMB_OK || (status == AMB_EREJECTED && rule->full == AMB_FULL_REJECT) ||
                  (status == AMB_ENOMEM && s->may_lack_memory),
              "%s: a batch is refused: %s", s->model.topics[p->topic].name,
              amb_status_text(status));
    for (uint32_t i = 0; i < count; i++) {
        struct model_message *message = model_message(s, pub, first + i);
        message->settled_ns = s->now_ns;
        if (status == AMB_OK) {
            model_place(s, p->topic, seq + i, above, pub, first + i);
            message->fate = MODEL_IN;
        } else {
            SIM_CHECK(s, message->seq == 0, "a message is refused that was delivered");
            message->fate = MODEL_REFUSED;
            s->stats.refused++;
        }
    }
    if (status == AMB_OK && seq + count - 1 > s->model.topics[p->topic].settled_top) {
        s->model.topics[p->topic].settled_top = seq + count - 1;
    }
}

void model_forget(struct sim *s, uint32_t pub, uint32_t first, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct model_message *message = model_message(s, pub, first + i);
        message->fate = message->fate == MODEL_SENT ? MODEL_UNKNOWN : message->fate;
    }
}

/* Readers -------------------------------------------------------------------------------------- */

static int64_t message_ttl_ns(const struct model_topic *topic, const struct model_message *message)
{
    int64_t own_ns = (int64_t)message->ttl_ms * AMB_NS_PER_MS;
    return own_ns != 0 && own_ns < topic->rule->ttl_ns ? own_ns : topic->rule->ttl_ns;
}

/* All of them are said to have expired: none may be younger than its time. */
static void check_expired(struct sim *s, const struct model_topic *topic, uint64_t seq,
                          uint64_t lost)
{
    for (uint64_t i = seq - lost; i < seq; i++) {
        const struct model_at *at = i <= topic->top ? &topic->at[i] : &topic->at[0];
        if (at->pub != 0) {
            const struct model_message *message = model_message(s, at->pub, at->number);
            SIM_CHECK(s, s->now_ns - message->sent_ns >= message_ttl_ns(topic, message),
                      "%s: number %" PRIu64 " has expired before its time", topic->name, i);
        }
    }
}

static enum amb_slow slow_of(const struct sim_sub *sub, const struct model_topic *topic)
{
    return sub->options.slow == AMB_SLOW_DEFAULT ? topic->rule->slow : sub->options.slow;
}

/* Does it hold its topic until it has read? */
static bool holds_for_ever(const struct sim_sub *sub, const struct model_topic *topic)
{
    int64_t limit_ns = sub->options.slow == AMB_SLOW_DEFAULT ? topic->rule->slow_block_ns
                                                             : sub->options.slow_block_ns;
    return slow_of(sub, topic) == AMB_SLOW_BLOCK && limit_ns == INT64_MAX &&
           topic->rule->full != AMB_FULL_DROP_OLDEST;
}

/* Is it what its log's limits say? Then so many came since. Of bytes the model knows nothing. */
static void check_why_lost(struct sim *s, const struct sim_sub *sub, const struct amb_frame *frame,
                           const struct model_topic *topic)
{
    enum amb_slow slow = slow_of(sub, topic);
    enum amb_loss why = (enum amb_loss)frame->status;
    bool is_by_log = slow == AMB_SLOW_BLOCK || slow == AMB_SLOW_DROP_OLDEST ||
                     (slow == AMB_SLOW_SPILL && topic->rule->spill_max >= HUGE_BYTES);
    if (!is_by_log || s->may_lack_memory || (why != AMB_LOSS_SLOW && why != AMB_LOSS_TRIMMED)) {
        return;
    }
    uint64_t since = sim_topic_next(s, topic->id) - frame->seq + 1;
    bool is_over = topic->rule->max_messages != 0 && slow != AMB_SLOW_SPILL &&
                   since + SIM_BATCH_MSGS > topic->rule->max_messages;
    SIM_CHECK(s, is_over || topic->rule->max_bytes < HUGE_BYTES,
              "%s: %" PRIu64 " lost before number %" PRIu64 ", and the log was not full (%d)",
              topic->name, frame->lost, frame->seq, (int)slow);
}

static void check_loss(struct sim *s, const struct sim_sub *sub, const struct amb_frame *frame,
                       const struct model_topic *topic, bool is_first)
{
    enum amb_loss why = (enum amb_loss)frame->status;
    s->stats.lost += frame->lost;
    SIM_CHECK(s,
              why == AMB_LOSS_SLOW || why == AMB_LOSS_TRIMMED || why == AMB_LOSS_EXPIRED ||
                  why == AMB_LOSS_MIXED,
              "%s: %" PRIu64 " lost, and no reason for it (%d)", topic->name, frame->lost,
              (int)why);
    SIM_CHECK(s, frame->lost < frame->seq, "%s: more lost than there was", topic->name);
    bool reads_history = sub->begin.start != AMB_START_NEW || sub->resumes;
    if (why == AMB_LOSS_EXPIRED) {
        check_expired(s, topic, frame->seq, frame->lost);
    } else if (sub->queue == 0 && !is_first && !reads_history) {
        SIM_CHECK(s, !holds_for_ever(sub, topic),
                  "%s: a reader that holds has lost %" PRIu64 " before number %" PRIu64 " (%d)",
                  topic->name, frame->lost, frame->seq, (int)why);
    }
    if (sub->queue == 0 && !is_first && !reads_history) {
        check_why_lost(s, sub, frame, topic);
    }
    if (why == AMB_LOSS_SLOW && sub->queue == 0) {
        SIM_CHECK(s, slow_of(sub, topic) != AMB_SLOW_BLOCK, "%s: lost as slow, and it blocks",
                  topic->name);
    }
}

static struct sim_reading *reading_of(struct sim *s, struct sim_sub *sub, uint32_t topic)
{
    for (unsigned i = 0; i < sub->reading_count; i++) {
        if (sub->readings[i].topic == topic) {
            return &sub->readings[i];
        }
    }
    SIM_CHECK(s, sub->reading_count < SIM_READINGS, "more topics than a reader has room for");
    struct sim_reading *reading = &sub->readings[sub->reading_count++];
    *reading = (struct sim_reading){.topic = topic};
    return reading;
}

/* Where a reader of new messages has begun. It has everything sent since its subscription was
 * answered, and nothing that was known to be there when it was asked for. */
static void check_begin(struct sim *s, const struct sim_sub *sub, const struct model_topic *topic,
                        uint64_t base)
{
    if (sub->begin.start != AMB_START_NEW || sub->resumes || sub->ok_step == 0) {
        return;
    }
    uint64_t end = base <= topic->top ? base : topic->top + 1;
    for (uint64_t seq = end > NEIGHBOURS ? end - NEIGHBOURS : 1; seq < end; seq++) {
        const struct model_at *at = &topic->at[seq];
        SIM_CHECK(s, at->pub == 0 || model_message(s, at->pub, at->number)->step <= sub->ok_step,
                  "%s: number %" PRIu64
                  " was sent after the subscription, and it begins at %" PRIu64,
                  topic->name, seq, base);
    }
    struct model_at at = base <= topic->top ? topic->at[base] : (struct model_at){0};
    if (at.pub != 0 && !topic->is_dead_letters) {
        int64_t settled_ns = model_message(s, at.pub, at.number)->settled_ns;
        SIM_CHECK(s, settled_ns == 0 || settled_ns >= sub->first_ns,
                  "%s: number %" PRIu64 " is older than the subscription", topic->name, base);
    }
}

static void read_plain(struct sim *s, struct sim_sub *sub, const struct amb_frame *frame,
                       const struct model_topic *topic, uint32_t topic_index)
{
    struct sim_reading *reading = reading_of(s, sub, topic_index);
    bool is_first = reading->expected == 0 || reading->is_resumed;
    uint64_t lost = frame->lost;
    if (lost == UINT64_MAX) {
        bool is_since = sub->begin.start == AMB_START_SEQ && frame->status == AMB_LOSS_TRIMMED;
        SIM_CHECK(s,
                  is_first && ((sub->resumes && frame->status == AMB_LOSS_BROKER_RESTART) ||
                               (is_since && s->has_priorities)),
                  "%s: a loss that nobody can count", topic->name);
        lost = 0;
    } else if (lost != 0) {
        check_loss(s, sub, frame, topic, is_first);
    }
    if (reading->expected != 0) {
        SIM_CHECK(s, frame->seq == reading->expected + lost,
                  "%s: number %" PRIu64 " came, %" PRIu64 " was due, and %" PRIu64 " were lost",
                  topic->name, frame->seq, reading->expected, lost);
    } else {
        check_begin(s, sub, topic, frame->seq - lost);
    }
    reading->is_resumed = false;
    reading->expected = frame->seq + frame->count - frame->first - frame->rest;
}

/* The messages that it holds, with this delivery, are within its credit: those that the broker
 * cannot have back yet. */
static void check_credit(struct sim *s, const struct sim_client *client, const struct sim_sub *sub,
                         uint32_t count, uint64_t bytes)
{
    uint64_t msgs = 0, held_bytes = 0, deliveries = 0;
    const struct model_queue *queue = &s->model.queues[sub->queue];
    bool is_acked = sub->queue != 0 && queue->options.ack != AMB_ACK_NONE;
    for (uint64_t n = sub->released + 1; n < sub->last; n++) {
        const struct sim_held *held = sim_held(sub, n);
        if (is_acked) {
            bool is_late = s->now_ns - held->low_ns >= queue->options.ack_wait_ns;
            msgs += is_late ? 0 : (uint64_t)__builtin_popcountll(held->open);
        } else if (!held->is_back) {
            msgs += held->count;
            held_bytes += held->bytes;
            deliveries++;
        }
    }
    uint64_t most = sub->options.credit_msgs;
    bool is_beside = deliveries <= 1 && most > 1 && sub->queue == 0;
    SIM_CHECK(s, msgs == 0 || is_beside || msgs + count <= most,
              "client %u: %" PRIu64 " and %" PRIu32
              " messages are more than its credit of %" PRIu64,
              client->slot, msgs, count, most);
    bool is_second = deliveries <= 1 && client->may_map && !sub->options.copy;
    SIM_CHECK(s,
              msgs == 0 || sub->queue != 0 || is_second ||
                  held_bytes + bytes <= sub->options.credit_bytes,
              "client %u: %" PRIu64 " and %" PRIu64 " bytes are more than its credit of %" PRIu64,
              client->slot, held_bytes, bytes, sub->options.credit_bytes);
}

void model_delivery(struct sim *s, struct sim_client *client, struct sim_sub *sub,
                    const struct amb_frame *frame, uint32_t topic_index)
{
    const struct model_topic *topic = &s->model.topics[topic_index];
    uint32_t count = frame->count - frame->first - frame->rest;
    s->stats.delivered += count;
    check_credit(s, client, sub, count, sim_delivery_bytes(sub, frame));
    if (sub->queue != 0) {
        /* Begun at a number that is gone, among several priorities. */
        bool is_unknown = frame->lost == UINT64_MAX && frame->status == AMB_LOSS_TRIMMED;
        if (frame->lost != 0 && !(is_unknown && s->has_priorities)) {
            check_loss(s, sub, frame, topic, true);
        }
        return;
    }
    SIM_CHECK(s, frame->attempt == 0, "%s: a redelivery to a reader without acks", topic->name);
    read_plain(s, sub, frame, topic, topic_index);
}

/* It was not there any more when everything that was sent before had come: it had settled before,
 * and its time has passed since. */
static void check_not_expired(struct sim *s, const struct sim_held *held,
                              const struct model_topic *topic, uint64_t seq, uint32_t pub,
                              uint32_t number)
{
    const struct model_message *message = model_message(s, pub, number);
    int64_t ttl_ns = message_ttl_ns(topic, message);
    if (message->settled_ns != 0 && ttl_ns != AMB_CONFIG_TIME_FOREVER) {
        SIM_CHECK(s, held->low_ns - message->settled_ns < ttl_ns,
                  "%s: number %" PRIu64 " was given after its time", topic->name, seq);
    }
}

void model_given(struct sim *s, const struct sim_client *client, const struct sim_sub *sub,
                 const struct sim_held *held, uint64_t seq, uint32_t pub, uint32_t number)
{
    (void)client;
    model_place(s, held->topic, seq, held->above, pub, number);
    if (sub->options.lazy == AMB_LAZY_OFF) {
        (void)model_given_unseen(s, sub, held, seq, 0);
    }
}

uint64_t model_given_unseen(struct sim *s, const struct sim_sub *sub, const struct sim_held *held,
                            uint64_t seq, uint64_t len)
{
    const struct model_topic *topic = &s->model.topics[held->topic];
    struct model_at at = seq <= topic->top ? topic->at[seq] : (struct model_at){0};
    if (sub->queue != 0) {
        model_turn(s, sub, held, seq);
    }
    if (at.pub == 0) {
        return HUGE_BYTES << 20; /* Nobody knows yet whose it is. */
    }
    if (!topic->is_dead_letters && sub->queue == 0) {
        check_not_expired(s, held, topic, seq, at.pub, at.number);
    }
    const struct model_message *message = model_message(s, at.pub, at.number);
    SIM_CHECK(s, len == 0 || len == message->len,
              "%s: number %" PRIu64 " is said to have %" PRIu64 " bytes, and has %" PRIu32,
              topic->name, seq, len, message->len);
    return message->keeps;
}

/* The end -------------------------------------------------------------------------------------- */

/* The messages of a client's one session are numbered before those of the next one. */
static void check_sessions(const struct sim *s, const struct model_topic *topic)
{
    const struct model_pub *newest[MODEL_LIVES] = {NULL};
    for (uint64_t seq = 1; seq <= topic->top; seq++) {
        const struct model_pub *pub = &s->model.pubs[topic->at[seq].pub];
        if (topic->at[seq].pub == 0 || pub->name != 0) { /* A name may be another client's later. */
            continue;
        }
        const struct model_pub **last = &newest[pub->life % MODEL_LIVES];
        SIM_CHECK(s, *last == NULL || (*last)->life != pub->life || (*last)->holder <= pub->holder,
                  "%s: number %" PRIu64 " is of an earlier session than a lower number",
                  topic->name, seq);
        *last = pub;
    }
}

/* Every number is a message: one that is known, or one whose publisher did not hear of it. */
void model_end(struct sim *s)
{
    const struct model *m = &s->model;
    for (uint32_t t = 1; t <= m->topic_count; t++) {
        const struct model_topic *topic = &m->topics[t];
        uint64_t holes = 0, unknown = 0;
        if (topic->is_dead_letters) {
            continue;
        }
        check_sessions(s, topic);
        for (uint64_t seq = 1; seq <= topic->top; seq++) {
            holes += topic->at[seq].pub == 0;
        }
        for (uint32_t p = 1; p <= m->pub_count; p++) {
            const struct model_pub *pub = &m->pubs[p];
            for (uint32_t i = 0; i < pub->count; i++) {
                const struct model_message *message = &pub->messages[i];
                if (message->topic != t) {
                    continue;
                }
                SIM_CHECK(s, message->fate != MODEL_SENT,
                          "%s: message %" PRIu32 " of publisher %" PRIu32 " was never settled",
                          topic->name, i + 1, p);
                unknown += message->fate == MODEL_UNKNOWN && message->seq == 0;
            }
        }
        SIM_CHECK(s, holes <= unknown,
                  "%s: %" PRIu64 " numbers are nobody's, and only %" PRIu64
                  " messages have an unknown fate",
                  topic->name, holes, unknown);
    }
}

/* Has the topic left, and come again under another number? Losses that it had not told are lost
 * with it. */
static bool has_come_again(const struct model *model, uint32_t topic)
{
    for (uint32_t t = topic + 1; t <= model->topic_count; t++) {
        if (strcmp(model->topics[t].name, model->topics[topic].name) == 0 &&
            model->topics[t].priority == model->topics[topic].priority) {
            return true;
        }
    }
    return false;
}

void model_before_last(struct sim *s)
{
    for (uint32_t t = 1; t <= s->model.topic_count; t++) {
        s->model.topics[t].top_before_last = s->model.topics[t].settled_top;
    }
}

void model_caught_up(struct sim *s, const struct sim_client *client, const struct sim_sub *sub,
                     bool is_last)
{
    for (unsigned i = 0; sub->queue == 0 && i < sub->reading_count; i++) {
        const struct sim_reading *reading = &sub->readings[i];
        const struct model_topic *topic = &s->model.topics[reading->topic];
        bool may_miss = topic->rule->ttl_ns != AMB_CONFIG_TIME_FOREVER || topic->has_own_ttl ||
                        (s->may_lack_memory && !holds_for_ever(sub, topic)) ||
                        slow_of(sub, topic) == AMB_SLOW_DROP_NEWEST;
        /* The last ones of several topics come at once. A reader that has credit for a few of them
         * waits with the rest. drop-newest does not keep the rest, and where memory is short no
         * policy but block does. There large ones may come among them, from who has waited for
         * it. */
        bool is_tight = sub->options.credit_msgs < SIM_NAMES ||
                        sub->options.credit_bytes < SIM_NAMES * LAST_BYTES;
        bool keeps_oldest = slow_of(sub, topic) == AMB_SLOW_DROP_NEWEST;
        bool may_miss_last =
            (is_tight && keeps_oldest) ||
            (s->may_lack_memory && (keeps_oldest || (is_tight && !holds_for_ever(sub, topic))));
        if (reading->expected == 0 || may_miss_last || reading->is_resumed ||
            topic->is_dead_letters || (may_miss && !is_last) ||
            (may_miss && (has_come_again(&s->model, reading->topic) ||
                          topic->settled_top == topic->top_before_last))) {
            continue;
        }
        SIM_CHECK(s, reading->expected > topic->settled_top,
                  "client %u: %s: number %" PRIu64 " never came, the last one is %" PRIu64,
                  client->slot, topic->name, reading->expected, topic->settled_top);
    }
}
