/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/count/counters.h"

#include "broker/count/counters_file.h"
#include "broker/count/loss_book.h"
#include "broker/count/metrics.h"
#include "wire/base/assert.h"
#include "wire/base/file.h"
#include "wire/base/log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

_Static_assert(sizeof(struct amb_shard_stats) <= AMB_COUNTERS_BLOCK_BYTES, "fits a block");
_Static_assert(sizeof(struct amb_broker_stats) <= AMB_COUNTERS_BLOCK_BYTES, "fits a block");

static uint64_t pages(uint64_t bytes)
{
    return (bytes + AMB_COUNTERS_PAGE - 1) / AMB_COUNTERS_PAGE * AMB_COUNTERS_PAGE;
}

/* Where everything lies. */
static void lay_out(struct amb_counters_header *header, const struct amb_counters_options *options)
{
    header->layout = AMB_COUNTERS_LAYOUT;
    header->header_bytes = AMB_COUNTERS_PAGE;
    header->metric_count = (uint32_t)amb_metric_count;
    header->metric_bytes = sizeof(struct amb_counters_metric);
    header->metrics_at = AMB_COUNTERS_PAGE;
    header->block_count = options->workers + 1;
    header->block_bytes = AMB_COUNTERS_BLOCK_BYTES;
    header->blocks_at =
        header->metrics_at + pages(amb_metric_count * sizeof(struct amb_counters_metric));
    header->slot_count = options->objects;
    header->numbers_bytes = sizeof(struct amb_numbers_slot);
    header->texts_bytes = sizeof(struct amb_texts_slot);
    header->numbers_at = header->blocks_at + (uint64_t)header->block_count * header->block_bytes;
    header->texts_at =
        header->numbers_at + pages((uint64_t)header->slot_count * header->numbers_bytes);
    header->line_count = options->lines;
    header->loss_count = options->losses;
    header->lines_at = header->texts_at + pages((uint64_t)header->slot_count * header->texts_bytes);
    header->losses_at =
        header->lines_at + pages((uint64_t)header->line_count * header->texts_bytes);
    header->file_bytes =
        header->losses_at + pages((uint64_t)header->loss_count * header->texts_bytes);
}

static void describe(struct amb_counters_header *header, const struct amb_counters_options *options)
{
    header->pid = (uint64_t)getpid();
    header->epoch = options->epoch;
    header->started_ns = options->now_ns;
    header->started_real_ns = options->real_ns;
    if (!amb_file_line("", AMB_COUNTERS_BOOT_ID, header->boot_id, sizeof(header->boot_id))) {
        header->boot_id[0] = '\0';
    }
    (void)snprintf(header->name, sizeof(header->name), "%s", options->name);
    (void)snprintf(header->version, sizeof(header->version), "%s", options->version);
    (void)snprintf(header->ucx, sizeof(header->ucx), "%s", options->ucx);
}

/* The memory of the file, or private memory. False: there is neither. */
static bool map(struct amb_counters *counters, const struct amb_counters_options *options,
                size_t size)
{
    counters->fd = -1;
    if (options->path == NULL) {
        (void)snprintf(counters->why, sizeof(counters->why), "%s", options->why);
    } else if (strlen(options->path) >= sizeof(counters->path)) {
        (void)snprintf(counters->why, sizeof(counters->why), "its path is too long");
    } else {
        counters->fd = amb_counters_file_open(options, size, counters->why);
    }
    int flags = counters->fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
    void *base = mmap(NULL, size, PROT_READ | PROT_WRITE, flags, counters->fd, 0);
    if (base == MAP_FAILED) {
        return false;
    }
    counters->base = base;
    counters->size = size;
    if (counters->fd >= 0) {
        (void)snprintf(counters->path, sizeof(counters->path), "%s", options->path);
    }
    return true;
}

/* The magic comes last: before it the file is none. */
static void fill(struct amb_counters *counters, const struct amb_counters_header *layout,
                 const struct amb_counters_options *options)
{
    uint8_t *base = counters->base;
    memcpy(base, layout, sizeof(*layout));
    counters->header = counters->base;
    memcpy(base + layout->metrics_at, amb_metrics, amb_metric_count * sizeof(*amb_metrics));
    counters->numbers = (void *)(base + layout->numbers_at);
    counters->texts = (void *)(base + layout->texts_at);
    counters->lines = (void *)(base + layout->lines_at);
    counters->losses = (void *)(base + layout->losses_at);
    counters->slots = layout->slot_count;
    describe(counters->header, options);
    for (unsigned i = 0; i < options->workers; i++) {
        amb_stat_set(&amb_counters_shard(counters, i)->worker, i);
        amb_stat_set(&amb_counters_shard(counters, i)->processor, UINT64_MAX);
    }
    amb_counters_beat(counters, options->now_ns, options->real_ns);
    atomic_thread_fence(memory_order_release);
    counters->header->magic = AMB_COUNTERS_MAGIC;
}

enum amb_status amb_counters_create(const struct amb_counters_options *options,
                                    struct amb_counters *out)
{
    amb_assert(options->workers < AMB_COUNTERS_BLOCKS_MAX);
    amb_assert(options->objects <= AMB_COUNTERS_SLOTS_MAX);
    amb_assert(options->lines <= AMB_COUNTERS_SECTION_MAX);
    amb_assert(options->losses <= AMB_COUNTERS_SECTION_MAX);
    struct amb_counters_header layout = {0};
    *out = (struct amb_counters){.fd = -1};
    lay_out(&layout, options);
    out->taken = calloc(options->objects / 64 + 1, sizeof(*out->taken));
    out->free_texts = calloc((size_t)options->objects + 1, sizeof(*out->free_texts));
    out->loss_records = calloc((size_t)options->losses + 1, sizeof(*out->loss_records));
    if (out->taken == NULL || out->free_texts == NULL || out->loss_records == NULL ||
        !map(out, options, (size_t)layout.file_bytes)) {
        amb_counters_destroy(out);
        return AMB_ENOMEM;
    }
    fill(out, &layout, options);
    while (out->free_count < options->objects) {
        out->free_texts[out->free_count] = options->objects - out->free_count;
        out->free_count++;
    }
    return AMB_OK;
}

void amb_counters_destroy(struct amb_counters *counters)
{
    if (counters->base != NULL) {
        atomic_store_explicit(&counters->header->has_ended, 1, memory_order_release);
        (void)munmap(counters->base, counters->size);
    }
    if (counters->base != NULL && counters->fd >= 0) {
        (void)close(counters->fd);
    }
    free(counters->taken);
    free(counters->free_texts);
    free(counters->loss_records);
    *counters = (struct amb_counters){.fd = -1};
}

struct amb_broker_stats *amb_counters_broker(const struct amb_counters *counters)
{
    return (void *)((uint8_t *)counters->base + counters->header->blocks_at);
}

struct amb_shard_stats *amb_counters_shard(const struct amb_counters *counters, unsigned worker)
{
    return (void *)((uint8_t *)counters->base + counters->header->blocks_at +
                    (uint64_t)(worker + 1) * AMB_COUNTERS_BLOCK_BYTES);
}

void amb_counters_beat(const struct amb_counters *counters, int64_t now_ns, int64_t real_ns)
{
    struct amb_counters_header *header = counters->header;
    uint64_t beat_ns = atomic_load_explicit(&header->beat_ns, memory_order_relaxed);
    /* A thread may have had no core since it read the clock, and another one's is newer. */
    do {
        if ((uint64_t)now_ns < beat_ns) {
            return;
        }
    } while (!atomic_compare_exchange_weak(&header->beat_ns, &beat_ns, (uint64_t)now_ns));
    /* The clock of the day may be set back: the newer one of two is the one of the newer beat. */
    uint64_t beat_real_ns = atomic_load(&header->beat_real_ns);
    while (atomic_load(&header->beat_ns) == (uint64_t)now_ns &&
           !atomic_compare_exchange_weak(&header->beat_real_ns, &beat_real_ns, (uint64_t)real_ns)) {
    }
}

void amb_counters_hide(const struct amb_counters *counters)
{
    if (counters->fd >= 0 && fchmod(counters->fd, S_IRUSR | S_IWUSR) != 0) {
        amb_error("counters: %s keeps its mode: %s", counters->path, strerror(errno));
    }
}

void amb_counters_view(const struct amb_counters *counters, struct amb_counters_image *out)
{
    *out = (struct amb_counters_image){
        .base = counters->base,
        .header = counters->header,
        .metrics = (const void *)((const uint8_t *)counters->base + counters->header->metrics_at),
    };
}
