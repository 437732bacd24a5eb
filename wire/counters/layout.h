/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The counters file: figures of one life of a broker, mapped by it, and read by anybody who may.
 *
 *   header │ metrics: one record each │ blocks: the broker's, one a worker │ numbers │ texts
 *          │ log lines │ losses
 *
 * The file describes itself: a reader takes names, places and units of figures from its records,
 * not from the version of a program. The unit of everything is a word, a little-endian uint64_t at
 * a multiple of eight, which is never seen half written.
 *
 * An object (a topic, subscription, queue or client) has a slot of texts, which the broker's
 * control thread writes. Each worker that has figures of it has a slot of numbers. They belong
 * together by scope and id. A slot's first word is a sequence: odd while the slot is written.
 * Distinct log lines and losses have slots of texts alone, in sections of their own.
 *
 * Threads: a block and a slot have one writer each. Memory: the file's.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#define AMB_COUNTERS_MAGIC UINT64_C(0x3130544e43424d41) /* "AMBCNT01" */
#define AMB_COUNTERS_LAYOUT 2u
#define AMB_COUNTERS_SUFFIX ".counters" /* behind the name of the socket that it lies beside */
#define AMB_COUNTERS_BOOT_ID "/proc/sys/kernel/random/boot_id" /* of header.boot_id */
#define AMB_COUNTERS_PAGE 4096u
#define AMB_COUNTERS_METRICS_MAX 512u
#define AMB_COUNTERS_BLOCKS_MAX 65u                  /* the broker, and 64 workers */
#define AMB_COUNTERS_SLOTS_MAX ((1u << 20u) + 1024u) /* of each kind */
#define AMB_COUNTERS_SECTION_MAX 65536u              /* slots of a section of its own */

enum amb_counters_scope {
    AMB_COUNTERS_BROKER = 1,
    AMB_COUNTERS_WORKER,
    AMB_COUNTERS_TOPIC,
    AMB_COUNTERS_SUBSCRIPTION,
    AMB_COUNTERS_QUEUE,
    AMB_COUNTERS_CLIENT,
    AMB_COUNTERS_CLOSED, /* clients that have gone */
    AMB_COUNTERS_LINE,   /* distinct log lines: a section of their own */
    AMB_COUNTERS_LOSS,   /* losses of subscriptions, by reason: the same */
};

enum amb_counters_part {
    AMB_COUNTERS_IN_BLOCK,
    AMB_COUNTERS_IN_NUMBERS,
    AMB_COUNTERS_IN_TEXTS,
};

enum amb_counters_kind {
    AMB_COUNTERS_COUNTER = 1, /* only grows */
    AMB_COUNTERS_GAUGE,
    AMB_COUNTERS_HISTOGRAM, /* `words` buckets, AMB_DELAY_SHIFT says which; no sum among them */
    AMB_COUNTERS_RECENT,    /* the largest of the last ten seconds: AMB_RECENT_CELLS pairs */
    AMB_COUNTERS_TEXT,
    AMB_COUNTERS_FLAG, /* 0 or 1 */
    AMB_COUNTERS_ID,   /* a number that names something; UINT64_MAX: nothing */
};

/* One record of the metric table. Texts end with a NUL. */
struct amb_counters_metric {
    char name[64];   /* of its time series: ambroker_..._total */
    char column[32]; /* in a view; "": none */
    char unit[16];   /* "messages", "bytes", "ns", ... */
    char labels[24]; /* names of labels, by commas */
    char help[160];
    uint16_t scope, part, kind;
    uint8_t is_summed; /* over all workers that have the object */
    uint8_t is_id;     /* the id of the slot itself */
    uint32_t at; /* the word in the block, or of the slot's figures; of a text of IN_TEXTS: its
                    number among them */
    uint32_t words;
    uint64_t spare;
};

/* Histograms: bucket i counts what took less than 2^(AMB_DELAY_SHIFT + i) ns; the last one the
 * rest, too. */
#define AMB_DELAY_SHIFT 10u
#define AMB_DELAY_BUCKETS 24u

/* RECENT: cell i has the largest of a second whose number has the rest i, and that number. */
#define AMB_RECENT_CELLS 12u
#define AMB_RECENT_SECONDS 10u

/* A slot: its first words, then figures. */
enum {
    AMB_SLOT_SEQUENCE, /* odd: it is being written */
    AMB_SLOT_KIND,     /* its scope, 0: it is free; and the worker, from bit 16 on */
    AMB_SLOT_ID,
    AMB_SLOT_FIGURES,
};
#define AMB_NUMBERS_WORDS 32u
#define AMB_NUMBERS_FIGURES (AMB_NUMBERS_WORDS - AMB_SLOT_FIGURES)
#define AMB_TEXTS_WORDS 72u
#define AMB_TEXTS_FIGURES 10u /* behind them texts, one after the other, each with its NUL */
#define AMB_TEXTS_BYTES ((AMB_TEXTS_WORDS - AMB_SLOT_FIGURES - AMB_TEXTS_FIGURES) * 8u)

struct amb_numbers_slot {
    _Atomic uint64_t words[AMB_NUMBERS_WORDS];
};

struct amb_texts_slot {
    _Atomic uint64_t words[AMB_TEXTS_WORDS];
};

struct amb_counters_header {
    uint64_t magic;
    uint32_t layout, header_bytes;
    uint64_t file_bytes;
    uint32_t metric_count, metric_bytes;
    uint64_t metrics_at;
    uint32_t block_count, block_bytes;
    uint64_t blocks_at;
    uint32_t slot_count, spare; /* so many of numbers, and as many of texts */
    uint32_t numbers_bytes, texts_bytes;
    uint64_t numbers_at, texts_at;
    uint64_t pid, epoch;
    int64_t started_real_ns, started_ns;
    char boot_id[40];
    char name[64], version[32], ucx[32];
    /* Written while the broker lives. */
    _Atomic uint64_t beat_real_ns, beat_ns; /* the last sign of life of any thread */
    _Atomic uint64_t has_ended;             /* 1: in order */
    /* Sections of slots of texts (texts_bytes each). */
    uint64_t lines_at, losses_at;
    uint32_t line_count, loss_count;
};

_Static_assert(sizeof(struct amb_counters_metric) == 320, "as it is in files");
_Static_assert(sizeof(struct amb_counters_header) <= AMB_COUNTERS_PAGE, "one page");
