/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/counters/image.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The metric table, blocks and slots of the most that a file may have. */
#define IMAGE_BYTES_MAX (UINT64_C(2) << 30)
#define SLOT_TRIES 64u

static enum amb_status refuse(char why[AMB_COUNTERS_WHY_MAX], const char *text)
{
    (void)snprintf(why, AMB_COUNTERS_WHY_MAX, "%s", text);
    return AMB_EPROTO;
}

/* Do `count` things of `bytes` lie whole at `at`, behind the header and in words? */
static bool lies_within(uint64_t at, uint64_t count, uint64_t bytes, uint64_t size)
{
    return at % 8 == 0 && bytes % 8 == 0 && at >= sizeof(struct amb_counters_header) &&
           at <= size && count * bytes <= size - at;
}

static bool ends_with_nul(const char *text, size_t size)
{
    return memchr(text, '\0', size) != NULL;
}

static bool metric_is_whole(const struct amb_counters_metric *metric, uint32_t block_bytes)
{
    if (!ends_with_nul(metric->name, sizeof(metric->name)) ||
        !ends_with_nul(metric->column, sizeof(metric->column)) ||
        !ends_with_nul(metric->unit, sizeof(metric->unit)) ||
        !ends_with_nul(metric->labels, sizeof(metric->labels)) ||
        !ends_with_nul(metric->help, sizeof(metric->help))) {
        return false;
    }
    uint64_t end = (uint64_t)metric->at + metric->words;
    bool is_pairs = metric->kind == AMB_COUNTERS_RECENT;
    bool is_block = metric->scope == AMB_COUNTERS_BROKER || metric->scope == AMB_COUNTERS_WORKER;
    if (metric->kind < AMB_COUNTERS_COUNTER || metric->kind > AMB_COUNTERS_ID ||
        metric->scope < AMB_COUNTERS_BROKER || metric->scope > AMB_COUNTERS_LOSS ||
        is_block != (metric->part == AMB_COUNTERS_IN_BLOCK) || metric->words == 0 ||
        (is_pairs && metric->words != 2 * AMB_RECENT_CELLS)) {
        return false;
    }
    switch (metric->part) {
    case AMB_COUNTERS_IN_BLOCK:
        return end <= block_bytes / 8;
    case AMB_COUNTERS_IN_NUMBERS:
        return end <= AMB_NUMBERS_FIGURES;
    case AMB_COUNTERS_IN_TEXTS:
        return metric->kind == AMB_COUNTERS_TEXT ? metric->at < AMB_TEXTS_BYTES
                                                 : end <= AMB_TEXTS_FIGURES;
    default:
        return false;
    }
}

enum amb_status amb_counters_check(const void *bytes, size_t size, struct amb_counters_image *out,
                                   char why[AMB_COUNTERS_WHY_MAX])
{
    const struct amb_counters_header *header = bytes;
    if (size < sizeof(*header) || header->magic != AMB_COUNTERS_MAGIC) {
        return refuse(why, "it is no counters file");
    }
    if (header->layout != AMB_COUNTERS_LAYOUT) {
        (void)snprintf(why, AMB_COUNTERS_WHY_MAX,
                       "its layout is %" PRIu32 ", and this program reads layout %u",
                       header->layout, AMB_COUNTERS_LAYOUT);
        return AMB_EPROTO;
    }
    if (header->file_bytes > size) {
        (void)snprintf(why, AMB_COUNTERS_WHY_MAX, "it is cut: %zu of %" PRIu64 " bytes are there",
                       size, header->file_bytes);
        return AMB_EPROTO;
    }
    size = (size_t)header->file_bytes;
    if (header->metric_count > AMB_COUNTERS_METRICS_MAX || header->block_count < 1 ||
        header->block_count > AMB_COUNTERS_BLOCKS_MAX ||
        header->slot_count > AMB_COUNTERS_SLOTS_MAX ||
        header->metric_bytes != sizeof(struct amb_counters_metric) ||
        header->numbers_bytes != sizeof(struct amb_numbers_slot) ||
        header->texts_bytes != sizeof(struct amb_texts_slot) ||
        !lies_within(header->metrics_at, header->metric_count, header->metric_bytes, size) ||
        !lies_within(header->blocks_at, header->block_count, header->block_bytes, size) ||
        !lies_within(header->numbers_at, header->slot_count, header->numbers_bytes, size) ||
        !lies_within(header->texts_at, header->slot_count, header->texts_bytes, size) ||
        header->line_count > AMB_COUNTERS_SECTION_MAX ||
        header->loss_count > AMB_COUNTERS_SECTION_MAX ||
        !lies_within(header->lines_at, header->line_count, header->texts_bytes, size) ||
        !lies_within(header->losses_at, header->loss_count, header->texts_bytes, size) ||
        !ends_with_nul(header->boot_id, sizeof(header->boot_id)) ||
        !ends_with_nul(header->name, sizeof(header->name)) ||
        !ends_with_nul(header->version, sizeof(header->version)) ||
        !ends_with_nul(header->ucx, sizeof(header->ucx))) {
        return refuse(why, "its header does not fit the file");
    }
    const struct amb_counters_metric *metrics =
        (const void *)((const uint8_t *)bytes + header->metrics_at);
    for (uint32_t i = 0; i < header->metric_count; i++) {
        if (!metric_is_whole(&metrics[i], header->block_bytes)) {
            return refuse(why, "its metric table does not fit the file");
        }
    }
    *out = (struct amb_counters_image){.base = bytes, .header = header, .metrics = metrics};
    return AMB_OK;
}

/* False: an error, or the file has ended before. */
static bool read_at(int fd, uint8_t *to, size_t size, uint64_t at)
{
    while (size > 0) {
        ssize_t got = pread(fd, to, size, (off_t)at);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            return false;
        }
        to += got;
        at += (uint64_t)got;
        size -= (size_t)got;
    }
    return true;
}

/*
 * A slot of the copy is as it was at one moment if its sequence was the same before the copy was
 * made and afterwards. Each read is a call of its own, so they come one after the other. Others are
 * read again alone, and if that does not help they are left out: their sequence is made odd.
 */
static bool settle_slot(int fd, uint8_t *slot, size_t size, uint64_t at, uint64_t before,
                        uint64_t after)
{
    for (unsigned i = 0; i < SLOT_TRIES && (before != after || before % 2 != 0); i++) {
        if (!read_at(fd, (uint8_t *)&before, sizeof(before), at) || !read_at(fd, slot, size, at) ||
            !read_at(fd, (uint8_t *)&after, sizeof(after), at)) {
            return false;
        }
    }
    bool is_whole = before == after && before % 2 == 0;
    uint64_t sequence = is_whole ? before : 1;
    memcpy(slot, &sequence, sizeof(sequence));
    return true;
}

/* Sequences of all slots, as they are in the file now. */
static bool read_sequences(int fd, uint8_t *room, uint64_t *out, uint64_t at, size_t slot_bytes,
                           uint32_t count)
{
    if (!read_at(fd, room, slot_bytes * count, at)) {
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        memcpy(&out[i], room + i * slot_bytes, sizeof(*out));
    }
    return true;
}

static bool load_slots(int fd, uint8_t *copy, uint64_t at, size_t slot_bytes, uint32_t count,
                       uint32_t *torn)
{
    uint8_t *room = malloc(slot_bytes * count + 1);
    uint64_t *before = calloc((size_t)count * 2 + 1, sizeof(*before)), *after = before + count;
    bool is_read = room != NULL && before != NULL &&
                   read_sequences(fd, room, before, at, slot_bytes, count) &&
                   read_at(fd, copy + at, slot_bytes * count, at) &&
                   read_sequences(fd, room, after, at, slot_bytes, count);
    for (uint32_t i = 0; i < count && is_read; i++) {
        uint8_t *slot = copy + at + i * slot_bytes;
        is_read = settle_slot(fd, slot, slot_bytes, at + i * slot_bytes, before[i], after[i]);
        *torn += slot[0] % 2;
    }
    free(room);
    free(before);
    return is_read;
}

/* All slots of the copy as each was at one moment. False: the file was cut meanwhile. */
static bool load_all_slots(int fd, uint8_t *copy, const struct amb_counters_header *header,
                           uint32_t *torn)
{
    const size_t texts = sizeof(struct amb_texts_slot);
    return load_slots(fd, copy, header->numbers_at, sizeof(struct amb_numbers_slot),
                      header->slot_count, torn) &&
           load_slots(fd, copy, header->texts_at, texts, header->slot_count, torn) &&
           load_slots(fd, copy, header->lines_at, texts, header->line_count, torn) &&
           load_slots(fd, copy, header->losses_at, texts, header->loss_count, torn);
}

static enum amb_status load_file(int fd, struct amb_counters_image *out,
                                 char why[AMB_COUNTERS_WHY_MAX])
{
    struct stat st;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        return refuse(why, "it is no regular file");
    }
    if (st.st_size < (off_t)sizeof(struct amb_counters_header)) {
        return refuse(why, "it is no counters file: it is too short");
    }
    if ((uint64_t)st.st_size > IMAGE_BYTES_MAX) {
        return refuse(why, "it is no counters file: it is too long");
    }
    size_t size = (size_t)st.st_size;
    uint8_t *copy = calloc(1, size);
    if (copy == NULL) {
        (void)snprintf(why, AMB_COUNTERS_WHY_MAX, "no memory for it");
        return AMB_ENOMEM;
    }
    enum amb_status status = read_at(fd, copy, size, 0)
                                 ? amb_counters_check(copy, size, out, why)
                                 : refuse(why, "it was cut while it was read");
    uint32_t torn = 0;
    if (status == AMB_OK && !load_all_slots(fd, copy, out->header, &torn)) {
        status = refuse(why, "it was cut while it was read");
    }
    /* Slots were read once more: they may lie over other parts in a file that somebody made up. */
    if (status == AMB_OK) {
        status = amb_counters_check(copy, size, out, why);
    }
    if (status != AMB_OK) {
        free(copy);
        *out = (struct amb_counters_image){0};
        return status;
    }
    out->owned = copy;
    out->torn = torn;
    return AMB_OK;
}

enum amb_status amb_counters_load(const char *path, struct amb_counters_image *out,
                                  char why[AMB_COUNTERS_WHY_MAX])
{
    *out = (struct amb_counters_image){0};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) {
        (void)snprintf(why, AMB_COUNTERS_WHY_MAX, "%s", strerror(errno));
        return errno == EACCES || errno == EPERM ? AMB_EFORBIDDEN : AMB_ENOTFOUND;
    }
    enum amb_status status = load_file(fd, out, why);
    (void)close(fd);
    return status;
}

void amb_counters_unload(struct amb_counters_image *image)
{
    free(image->owned);
    *image = (struct amb_counters_image){0};
}

/* The header's lengths are read once, when they are checked: what the image says is a copy's. */
uint64_t amb_counters_word(const struct amb_counters_image *image, uint32_t block, uint32_t word)
{
    const struct amb_counters_header *header = image->header;
    if (block >= header->block_count || word >= header->block_bytes / 8) {
        return UINT64_MAX;
    }
    const uint8_t *at = image->base + header->blocks_at + (uint64_t)block * header->block_bytes;
    const _Atomic uint64_t *words = (const void *)at;
    return atomic_load_explicit(&words[word], memory_order_relaxed);
}

uint64_t amb_counters_recent(const struct amb_counters_image *image, uint32_t block,
                             const struct amb_counters_metric *metric, uint64_t now_ns)
{
    uint64_t now_s = now_ns / 1000000000u, most = 0;
    for (uint32_t i = 0; i + 1 < metric->words; i += 2) {
        uint64_t value = amb_counters_word(image, block, metric->at + i);
        uint64_t second = amb_counters_word(image, block, metric->at + i + 1);
        bool is_recent = second <= now_s + 1 && now_s < second + AMB_RECENT_SECONDS;
        most = is_recent && value > most ? value : most;
    }
    return most;
}

uint64_t amb_counters_figure(const struct amb_counters_image *image, uint32_t block,
                             const struct amb_counters_metric *metric, uint64_t now_ns)
{
    return metric->kind == AMB_COUNTERS_RECENT ? amb_counters_recent(image, block, metric, now_ns)
                                               : amb_counters_word(image, block, metric->at);
}

/* The words are loaded with acquire, and stored with release: the second look at the sequence
 * comes behind them, and the writer's odd one before. */
static bool copy_slot(const _Atomic uint64_t *words, uint64_t *out, uint32_t count)
{
    for (unsigned i = 0; i < SLOT_TRIES; i++) {
        out[0] = atomic_load_explicit(&words[0], memory_order_acquire);
        for (uint32_t k = 1; k < count; k++) {
            out[k] = atomic_load_explicit(&words[k], memory_order_acquire);
        }
        uint64_t again = atomic_load_explicit(&words[0], memory_order_relaxed);
        if (out[0] == again && again % 2 == 0) {
            return out[AMB_SLOT_KIND] != 0;
        }
    }
    return false;
}

bool amb_counters_numbers(const struct amb_counters_image *image, uint32_t slot,
                          uint64_t out[AMB_NUMBERS_WORDS])
{
    if (slot >= image->header->slot_count) {
        return false;
    }
    const struct amb_numbers_slot *slots = (const void *)(image->base + image->header->numbers_at);
    return copy_slot(slots[slot].words, out, AMB_NUMBERS_WORDS);
}

/* The section of slots of texts that objects of that scope are in. */
static const struct amb_texts_slot *texts_section(const struct amb_counters_image *image,
                                                  enum amb_counters_scope scope, uint32_t *count)
{
    const struct amb_counters_header *header = image->header;
    uint64_t at = header->texts_at;
    *count = header->slot_count;
    if (scope == AMB_COUNTERS_LINE) {
        at = header->lines_at;
        *count = header->line_count;
    } else if (scope == AMB_COUNTERS_LOSS) {
        at = header->losses_at;
        *count = header->loss_count;
    }
    return (const void *)(image->base + at);
}

uint32_t amb_counters_slots(const struct amb_counters_image *image, enum amb_counters_scope scope)
{
    uint32_t count;
    (void)texts_section(image, scope, &count);
    return count;
}

bool amb_counters_texts(const struct amb_counters_image *image, enum amb_counters_scope scope,
                        uint32_t slot, uint64_t out[AMB_TEXTS_WORDS])
{
    uint32_t count;
    const struct amb_texts_slot *slots = texts_section(image, scope, &count);
    if (slot >= count) {
        return false;
    }
    if (!copy_slot(slots[slot].words, out, AMB_TEXTS_WORDS)) {
        return false;
    }
    ((char *)(out + AMB_TEXTS_WORDS))[-1] = '\0';
    return true;
}

const char *amb_counters_text(const uint64_t slot[AMB_TEXTS_WORDS], uint32_t number)
{
    const char *text = (const char *)(slot + AMB_SLOT_FIGURES + AMB_TEXTS_FIGURES);
    const char *end = (const char *)(slot + AMB_TEXTS_WORDS);
    while (number > 0) {
        const char *nul = memchr(text, '\0', (size_t)(end - text));
        if (nul == NULL || nul + 1 >= end) {
            return "";
        }
        text = nul + 1;
        number--;
    }
    return memchr(text, '\0', (size_t)(end - text)) == NULL ? "" : text;
}
