/* SPDX-License-Identifier: Apache-2.0 */
#include "client/conn/options.h"

#include "client/config/client_config.h"
#include "wire/base/clock.h"
#include "wire/base/cpus.h"
#include "wire/codec/filter.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define SPIN_NS (200 * AMB_NS_PER_US)

/* A field that must be 0 in this release. */
struct later {
    const char *name;
    size_t offset, size;
};
#define LATER(type, field)                                                                         \
    {                                                                                              \
        .name = #field, .offset = offsetof(struct type, field),                                    \
        .size = sizeof(((struct type *)0)->field)                                                  \
    }

static bool is_zero(const void *bytes, size_t len)
{
    const uint8_t *b = bytes;
    for (size_t i = 0; i < len; i++) {
        if (b[i] != 0) {
            return false;
        }
    }
    return true;
}

__attribute__((format(printf, 2, 3))) static void complain(struct amb_complaint *complaint,
                                                           const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)vsnprintf(complaint->text, sizeof(complaint->text), format, args);
    va_end(args);
}

/* The first field of every options struct. */
static enum amb_status read_struct(const char *what, const void *from, void *to, size_t size,
                                   struct amb_complaint *complaint)
{
    memset(to, 0, size);
    if (from == NULL) {
        return AMB_OK;
    }
    uint32_t given;
    memcpy(&given, from, sizeof(given));
    if (given < sizeof(given)) {
        complain(complaint, "%s.size is not set: use the macro", what);
        return AMB_EINVAL;
    }
    if (given > size && !is_zero((const uint8_t *)from + size, given - size)) {
        complain(complaint,
                 "%s has fields that this library does not know: library older than "
                 "header",
                 what);
        return AMB_EINVAL;
    }
    memcpy(to, from, given < size ? given : size);
    return AMB_OK;
}

static enum amb_status refuse_later(const char *what, const void *options,
                                    const struct later *fields, size_t count,
                                    struct amb_complaint *complaint)
{
    for (size_t i = 0; i < count; i++) {
        if (!is_zero((const uint8_t *)options + fields[i].offset, fields[i].size)) {
            complain(complaint, "%s.%s is not there yet in this release", what, fields[i].name);
            return AMB_ENOTSUP;
        }
    }
    return AMB_OK;
}

enum amb_status amb_options_read(const struct amb_options *from, struct amb_options *to,
                                 struct amb_complaint *complaint)
{
    static const struct later later[] = {
        LATER(amb_options, resources),
        LATER(amb_options, resource_count),
        LATER(amb_options, detached),
        LATER(amb_options, ucx_am_id),
    };
    enum amb_status status = read_struct("options", from, to, sizeof(*to), complaint);
    if (status != AMB_OK) {
        return status;
    }
    if (to->progress != AMB_PROGRESS_THREAD && to->progress != AMB_PROGRESS_POLL) {
        complain(complaint, "options.progress is neither THREAD nor POLL");
        return AMB_EINVAL;
    }
    if (to->connect_timeout_ns < 0 || to->timeout_ns < 0 || to->heartbeat_ns < 0 ||
        to->reconnect_min_ns < 0 || to->reconnect_max_ns < 0) {
        complain(complaint, "a time in options is negative");
        return AMB_EINVAL;
    }
    if (to->spin_ns < AMB_SPIN_NEVER || to->spin_ns > AMB_CLIENT_SPIN_MAX_NS) {
        complain(complaint, "options.spin_ns: AMB_SPIN_NEVER, or 0 to 10 ms");
        return AMB_EINVAL;
    }
    return refuse_later("options", to, later, sizeof(later) / sizeof(later[0]), complaint);
}

static uint32_t attempts_of(const struct amb_client_config *config)
{
    uint32_t attempts = config->reconnect.attempts;
    return attempts == AMB_CLIENT_FOREVER ? 0 : attempts == 0 ? AMB_NONE : attempts;
}

/* Where one core is all there is, a thread that looks keeps the other side from its work. A thread
 * that has bound itself to one core says nothing of the broker's. */
static int64_t spin_of(const struct amb_client_config *config)
{
    if (config->spin_ns == AMB_CLIENT_SPIN_AUTO) {
        return amb_cpus_around() > 1 ? SPIN_NS : AMB_SPIN_NEVER;
    }
    return config->spin_ns == 0 ? AMB_SPIN_NEVER : config->spin_ns;
}

#define COMPLETE(field, value)                                                                     \
    do {                                                                                           \
        if (options->field == 0) {                                                                 \
            options->field = (value);                                                              \
        }                                                                                          \
    } while (0)

void amb_options_complete(struct amb_options *options, const struct amb_client_config *config)
{
    if (options->name == NULL && config->name[0] != '\0') {
        options->name = config->name;
    }
    COMPLETE(connect_timeout_ns, config->connect_timeout_ns);
    COMPLETE(timeout_ns, config->timeout_ns);
    COMPLETE(heartbeat_ns, config->heartbeat_ns);
    COMPLETE(reconnect_min_ns, config->reconnect.min_ns);
    COMPLETE(reconnect_max_ns, config->reconnect.max_ns);
    COMPLETE(reconnect_attempts, attempts_of(config));
    COMPLETE(retry_first, config->retry_first ? 1 : 0);
    COMPLETE(memory_max, config->memory_max);
    COMPLETE(send_memory_max, config->send_memory_max);
    COMPLETE(spin_ns, spin_of(config));
}

enum amb_status amb_pub_options_read(const struct amb_pub_options *from, struct amb_pub_options *to,
                                     struct amb_complaint *complaint)
{
    enum amb_status status = read_struct("amb_pub_options", from, to, sizeof(*to), complaint);
    if (status != AMB_OK) {
        return status;
    }
    if (to->confirm == AMB_CONFIRM_DURABLE) {
        complain(complaint, "amb_pub_options.confirm: DURABLE is not there yet in this release");
        return AMB_ENOTSUP;
    }
    if (to->lease_mem == AMB_MEM_CUDA_MANAGED) {
        complain(complaint, "amb_pub_options.lease_mem: no other process could read managed memory "
                            "in place; publish your own with amb_pub_post");
        return AMB_ENOTSUP;
    }
    bool is_gpus = to->lease_mem == AMB_MEM_PINNED || to->lease_mem == AMB_MEM_CUDA;
    if (!is_gpus && to->lease_mem != AMB_MEM_DEFAULT && to->lease_mem != AMB_MEM_HOST) {
        complain(complaint, "amb_pub_options.lease_mem: HOST, PINNED or CUDA");
        return AMB_EINVAL;
    }
    if (to->name != NULL && (to->name[0] == '\0' || strlen(to->name) > AMB_PUB_NAME_MAX)) {
        complain(complaint, "amb_pub_options.name: 1 to %u bytes", AMB_PUB_NAME_MAX);
        return AMB_EINVAL;
    }
    if (to->name != NULL && is_gpus) {
        complain(complaint, "amb_pub_options.name: a named publisher leases plain host memory only "
                            "in this release");
        return AMB_ENOTSUP;
    }
    if (to->device != 0 && !is_gpus) {
        complain(complaint, "amb_pub_options.device is for lease_mem = CUDA and PINNED");
        return AMB_EINVAL;
    }
    if (to->confirm > AMB_CONFIRM_DURABLE || to->linger_ns < 0 || to->priority > AMB_PRIORITY_LOW) {
        complain(complaint, "amb_pub_options: confirm, linger_ns or priority is out of range");
        return AMB_EINVAL;
    }
    to->confirm = to->confirm == AMB_CONFIRM_DEFAULT ? AMB_CONFIRM_ACCEPTED : to->confirm;
    to->window_msgs = to->window_msgs != 0 ? to->window_msgs : AMB_PUB_WINDOW_MSGS;
    to->window_bytes = to->window_bytes != 0 ? to->window_bytes : AMB_PUB_WINDOW_BYTES;
    to->linger_ns = to->linger_ns != 0 ? to->linger_ns : AMB_PUB_LINGER_NS;
    return AMB_OK;
}

static enum amb_status check_sub_later(const struct amb_sub_options *options,
                                       struct amb_complaint *complaint)
{
    static const struct later later[] = {
        LATER(amb_sub_options, reserved),
    };
    return refuse_later("amb_sub_options", options, later, sizeof(later) / sizeof(later[0]),
                        complaint);
}

static enum amb_status check_sub_enums(const struct amb_sub_options *options,
                                       struct amb_complaint *complaint)
{
    if (options->mem > AMB_MEM_CUDA_MANAGED) {
        complain(complaint, "amb_sub_options.mem is no kind of memory");
        return AMB_EINVAL;
    }
    if (options->device != 0 && options->mem < AMB_MEM_PINNED && options->allocator == NULL &&
        options->allocators == NULL) {
        complain(complaint, "amb_sub_options.device is for mem = CUDA, CUDA_MANAGED, PINNED");
        return AMB_EINVAL;
    }
    if (options->start > AMB_START_POSITION ||
        (options->start_at != 0 && options->start != AMB_START_LAST_N &&
         options->start != AMB_START_SEQ && options->start != AMB_START_TIME)) {
        complain(complaint, "amb_sub_options.start is no place, or start_at is not for that one");
        return AMB_EINVAL;
    }
    /* A buffer of length 0 is where a position will be, not one. */
    bool has_position = options->position_len != 0;
    if ((options->start == AMB_START_POSITION) != has_position ||
        (options->position == NULL && has_position)) {
        complain(complaint, "amb_sub_options: start = POSITION goes with position and its length");
        return AMB_EINVAL;
    }
    if (options->slow > AMB_SLOW_DISCONNECT) {
        complain(complaint, "amb_sub_options.slow is out of range");
        return AMB_EINVAL;
    }
    if (options->copy > 1 || options->slow_block_ns < 0) {
        complain(complaint, "amb_sub_options: copy or slow_block_ns is out of range");
        return AMB_EINVAL;
    }
    return AMB_OK;
}

/* Messages that are chosen, and the rate at which they come. */
static enum amb_status check_sub_choice(const struct amb_sub_options *options,
                                        struct amb_complaint *complaint)
{
    if (options->filter != NULL &&
        (options->filter[0] == '\0' || strlen(options->filter) > AMB_FILTER_TEXT_MAX)) {
        complain(complaint, "amb_sub_options.filter is 1 to 1,024 bytes");
        return AMB_EINVAL;
    }
    if (options->filter != NULL && options->slow == AMB_SLOW_LATEST) {
        complain(complaint, "amb_sub_options.filter does not go with slow = LATEST");
        return AMB_EINVAL;
    }
    if (options->replay > AMB_TEMPO_ORIGINAL) {
        complain(complaint, "amb_sub_options.replay is no pace");
        return AMB_EINVAL;
    }
    if ((options->rate_msgs != 0 || options->rate_bytes != 0 || options->replay != 0) &&
        (options->ack > AMB_ACK_NONE || options->group != NULL || options->durable != NULL)) {
        complain(complaint, "amb_sub_options: rates and replay go with neither ack, group nor "
                            "durable");
        return AMB_EINVAL;
    }
    return AMB_OK;
}

static bool is_plain_name(const char *name)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:@";
    size_t len = name == NULL ? 1 : strnlen(name, AMB_SUB_NAME_MAX + 1);
    return len >= 1 && len <= AMB_SUB_NAME_MAX && (name == NULL || strspn(name, letters) == len);
}

/* Acknowledgements, group, durable name. */
static enum amb_status check_sub_acks(const struct amb_sub_options *options,
                                      struct amb_complaint *complaint)
{
    if (options->ack > AMB_ACK_CUMULATIVE) {
        complain(complaint, "amb_sub_options.ack is out of range");
        return AMB_EINVAL;
    }
    if (!is_plain_name(options->group) || !is_plain_name(options->durable)) {
        complain(complaint, "amb_sub_options: group and durable are 1 to 64 letters, digits and "
                            "-_.:@");
        return AMB_EINVAL;
    }
    bool is_acked = options->ack > AMB_ACK_NONE;
    if (!is_acked &&
        (options->ack_wait_ns != 0 || options->backoff_count != 0 || options->max_deliver != 0)) {
        complain(complaint, "amb_sub_options: ack_wait_ns, backoff_ns and max_deliver are for "
                            "ack = EXPLICIT or CUMULATIVE");
        return AMB_EINVAL;
    }
    if (options->ack_wait_ns < 0 || options->backoff_count > AMB_SUB_BACKOFF_MAX ||
        (options->backoff_count != 0 && options->backoff_ns == NULL)) {
        complain(complaint, "amb_sub_options: ack_wait_ns or backoff_count is out of range");
        return AMB_EINVAL;
    }
    if (options->ack == AMB_ACK_CUMULATIVE && options->group != NULL) {
        complain(complaint, "amb_sub_options: members of a group acknowledge each message: "
                            "ack = EXPLICIT");
        return AMB_EINVAL;
    }
    return AMB_OK;
}

enum amb_status amb_allocator_read(const struct amb_sub_options *options, struct amb_allocator *to,
                                   struct amb_complaint *complaint)
{
    enum amb_status status =
        read_struct("amb_sub_options.allocator", options->allocator, to, sizeof(*to), complaint);
    if (status != AMB_OK) {
        return status;
    }
    enum amb_mem mem = options->mem == AMB_MEM_AS_SENT ? AMB_MEM_HOST : options->mem;
    mem = mem == AMB_MEM_DEFAULT ? to->mem : mem;
    mem = mem == AMB_MEM_DEFAULT ? AMB_MEM_HOST : mem;
    if (mem == AMB_MEM_AS_SENT || mem > AMB_MEM_CUDA_MANAGED) {
        complain(complaint, "amb_allocator.mem is no kind of memory that an allocator can give");
        return AMB_EINVAL;
    }
    if (to->mem != AMB_MEM_DEFAULT && to->mem != mem) {
        complain(complaint, "amb_allocator.mem is not the kind that the subscription wants");
        return AMB_EINVAL;
    }
    if (options->allocator != NULL && (to->alloc == NULL || to->free == NULL)) {
        complain(complaint, "amb_allocator: alloc or free is missing");
        return AMB_EINVAL;
    }
    to->mem = mem;
    return AMB_OK;
}

/* One of an array, entered under its kind. */
static enum amb_status read_one_allocator(const void *from, uint32_t index,
                                          struct amb_allocator to[AMB_SUB_ALLOCATORS_MAX],
                                          struct amb_complaint *complaint)
{
    struct amb_allocator one;
    char name[48];
    (void)snprintf(name, sizeof(name), "amb_sub_options.allocators[%u]", index);
    enum amb_status status = read_struct(name, from, &one, sizeof(one), complaint);
    if (status != AMB_OK) {
        return status;
    }
    if (one.mem < AMB_MEM_HOST || one.mem > AMB_MEM_CUDA_MANAGED) {
        complain(complaint, "%s.mem: HOST, PINNED, CUDA or CUDA_MANAGED", name);
        return AMB_EINVAL;
    }
    if (one.alloc == NULL || one.free == NULL) {
        complain(complaint, "%s: alloc or free is missing", name);
        return AMB_EINVAL;
    }
    struct amb_allocator *place = &to[one.mem - AMB_MEM_HOST];
    if (place->alloc != NULL) {
        complain(complaint, "%s.mem: another allocator serves that kind of memory", name);
        return AMB_EINVAL;
    }
    *place = one;
    return AMB_OK;
}

enum amb_status amb_allocators_read(const struct amb_sub_options *options,
                                    struct amb_allocator to[AMB_SUB_ALLOCATORS_MAX],
                                    struct amb_complaint *complaint)
{
    memset(to, 0, AMB_SUB_ALLOCATORS_MAX * sizeof(*to));
    const uint8_t *from = (const void *)options->allocators;
    /* They lie as far apart as the program was compiled for. */
    uint32_t step = options->allocator_count != 0 ? options->allocators->size : 0;
    for (uint32_t i = 0; i < options->allocator_count; i++) {
        uint32_t size;
        memcpy(&size, from + (size_t)i * step, sizeof(size));
        if (size != step) {
            complain(complaint, "amb_sub_options.allocators[%u].size is not that of the first", i);
            return AMB_EINVAL;
        }
        enum amb_status status = read_one_allocator(from + (size_t)i * step, i, to, complaint);
        if (status != AMB_OK) {
            return status;
        }
    }
    return AMB_OK;
}

static enum amb_status check_sub_allocators(const struct amb_sub_options *options,
                                            struct amb_complaint *complaint)
{
    if ((unsigned)options->fallback > AMB_FALLBACK_HOST) {
        complain(complaint, "amb_sub_options.fallback is out of range");
        return AMB_EINVAL;
    }
    if ((options->allocators == NULL) != (options->allocator_count == 0) ||
        options->allocator_count > AMB_SUB_ALLOCATORS_MAX) {
        complain(complaint, "amb_sub_options: allocators goes with allocator_count, 1 to %u",
                 AMB_SUB_ALLOCATORS_MAX);
        return AMB_EINVAL;
    }
    bool has_any = options->allocator_count != 0;
    if (has_any && (options->mem != AMB_MEM_AS_SENT || options->allocator != NULL)) {
        complain(complaint, "amb_sub_options.allocators are for mem = AS_SENT; of one kind of "
                            "memory `allocator` is the one");
        return AMB_EINVAL;
    }
    if (!has_any && options->fallback != AMB_FALLBACK_IN_PLACE) {
        complain(complaint, "amb_sub_options.fallback goes with allocators");
        return AMB_EINVAL;
    }
    return AMB_OK;
}

static enum amb_status check_sub_lazy(const struct amb_sub_options *options,
                                      struct amb_complaint *complaint)
{
    if ((unsigned)options->lazy > AMB_LAZY_HEADERS) {
        complain(complaint, "amb_sub_options.lazy: no such kind");
        return AMB_EINVAL;
    }
    bool is_elsewhere = (options->mem != AMB_MEM_DEFAULT && options->mem != AMB_MEM_HOST) ||
                        options->allocator != NULL;
    if (options->lazy != AMB_LAZY_OFF && is_elsewhere) {
        complain(complaint,
                 "amb_sub_options.lazy: payloads that are asked for come to host memory, "
                 "or by amb_msg_read to where that says: not with mem or allocator");
        return AMB_ENOTSUP;
    }
    return AMB_OK;
}

enum amb_status amb_sub_options_read(const struct amb_sub_options *from, struct amb_sub_options *to,
                                     struct amb_complaint *complaint)
{
    enum amb_status status = read_struct("amb_sub_options", from, to, sizeof(*to), complaint);
    if (status == AMB_OK) {
        status = check_sub_later(to, complaint);
    }
    if (status == AMB_OK) {
        status = check_sub_enums(to, complaint);
    }
    if (status == AMB_OK) {
        status = check_sub_acks(to, complaint);
    }
    if (status == AMB_OK) {
        status = check_sub_choice(to, complaint);
    }
    if (status == AMB_OK) {
        status = check_sub_allocators(to, complaint);
    }
    if (status == AMB_OK) {
        status = check_sub_lazy(to, complaint);
    }
    if (status != AMB_OK) {
        return status;
    }
    if (to->credit_msgs == 0 && to->slow == AMB_SLOW_LATEST) {
        to->credit_msgs = 1; /* Messages that wait here are older than those that come. */
    }
    if (to->credit_msgs == 0) {
        to->credit_msgs = to->ack > AMB_ACK_NONE ? AMB_SUB_CREDIT_MSGS_ACKED : AMB_SUB_CREDIT_MSGS;
    }
    to->credit_bytes = to->credit_bytes != 0 ? to->credit_bytes : AMB_SUB_CREDIT_BYTES;
    to->slow_block_ns = to->slow_block_ns != 0 ? to->slow_block_ns : 100 * AMB_MS;
    return AMB_OK;
}

/* Fields that do not depend on the place of the payload. */
static enum amb_status read_out(const struct amb_out *from, struct amb_out *to,
                                struct amb_complaint *complaint)
{
    static const struct later later[] = {
        LATER(amb_out, reserved),
    };
    enum amb_status status = read_struct("amb_out", from, to, sizeof(*to), complaint);
    if (status != AMB_OK) {
        return status;
    }
    if (to->mem == AMB_MEM_AS_SENT || to->mem > AMB_MEM_CUDA_MANAGED) {
        complain(complaint, "amb_out.mem is no kind of memory that a message can be in");
        return AMB_EINVAL;
    }
    if ((to->props == NULL && to->prop_count != 0) || to->ttl_ns < 0) {
        complain(complaint, "amb_out: props is missing, or ttl_ns is negative");
        return AMB_EINVAL;
    }
    return refuse_later("amb_out", to, later, sizeof(later) / sizeof(later[0]), complaint);
}

enum amb_status amb_out_read(const struct amb_out *from, struct amb_out *to,
                             struct amb_complaint *complaint)
{
    enum amb_status status = read_out(from, to, complaint);
    if (status != AMB_OK) {
        return status;
    }
    if (to->mem > AMB_MEM_PINNED && to->data == NULL) {
        complain(complaint, "amb_out.mem: only data can be in GPU memory");
        return AMB_EINVAL;
    }
    int sources = (to->data != NULL) + (to->iov != NULL) + (to->forward != NULL);
    if (sources > 1 || (to->data == NULL && to->len != 0) ||
        (to->iov == NULL && to->iov_count != 0)) {
        complain(complaint, "amb_out: set one of data, iov, forward, each with its length");
        return AMB_EINVAL;
    }
    return AMB_OK;
}

enum amb_status amb_commit_out_read(const struct amb_out *from, struct amb_out *to,
                                    struct amb_complaint *complaint)
{
    enum amb_status status = read_out(from, to, complaint);
    if (status != AMB_OK) {
        return status;
    }
    if (to->data != NULL || to->iov != NULL || to->iov_count != 0 || to->forward != NULL) {
        complain(complaint, "amb_out: the payload of a commit is its lease; data, iov and forward "
                            "must be 0");
        return AMB_EINVAL;
    }
    if (to->expect_seq != 0) {
        complain(complaint, "amb_out.expect_seq is not for leases in this release");
        return AMB_ENOTSUP;
    }
    return AMB_OK;
}
