/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ways that the payloads of a session went. They are counted where a batch comes in or leaves,
 * by class of its messages. So what broker-ctl says of a path is what happened, and no guess.
 *
 *   in place   the payload was read, or written, where it lies in the broker's memory
 *   copied     the link copied it once, between that memory and the client's
 *   staged     it lay on a GPU, and host memory was a stop on its way
 *
 * Rates are those of bursts. A window of at least AMB_PATH_WINDOW_NS begins with a batch, and the
 * first batch behind its end closes it. If that batch came after a pause of AMB_PATH_PAUSE_NS, the
 * pause does not count. Shorter pauses count, and pauses within a window.
 *
 * Threads: the session's worker. Memory: none.
 */
#pragma once

#include "wire/base/clock.h"

#include <stdbool.h>
#include <stdint.h>

#define AMB_PATH_LARGE_MIN (UINT64_C(64) << 10) /* bytes of a large message */
#define AMB_PATH_WINDOW_NS (100 * AMB_NS_PER_MS)
#define AMB_PATH_PAUSE_NS (20 * AMB_NS_PER_MS)
#define AMB_PATH_BURST_NS AMB_NS_PER_MS /* a shorter one has no rate */

enum amb_path_class {
    AMB_PATH_SMALL, /* they travel in batches */
    AMB_PATH_LARGE,
    AMB_PATH_GPU, /* they lie on a GPU when they are published */
    AMB_PATH_CLASSES,
};

enum amb_path_way {
    AMB_PATH_IN_PLACE,
    AMB_PATH_COPIED,
    AMB_PATH_STAGED,
    AMB_PATH_WAYS,
};

/* Why a batch did not go in place. */
enum amb_path_why {
    AMB_PATH_BEST,       /* it did */
    AMB_PATH_LINK,       /* the client's link shares no memory with the broker */
    AMB_PATH_ASKED,      /* the subscription asks for copies */
    AMB_PATH_ROOM,       /* the client holds as much in place as it may */
    AMB_PATH_FOREIGN,    /* a publisher of another user can still write there */
    AMB_PATH_MAPPING,    /* the client was mapping the segment */
    AMB_PATH_REFUSED,    /* the client cannot map the segment */
    AMB_PATH_PRIVATE,    /* no client maps memory of replies */
    AMB_PATH_GROUP,      /* its user may not read all of the topic's trust group */
    AMB_PATH_BATCH,      /* small messages are copied into a batch */
    AMB_PATH_UNLEASED,   /* its publisher has leased no memory for it */
    AMB_PATH_VERIFIED,   /* its topic copies what comes in leased memory */
    AMB_PATH_LAZY,       /* a lazy reader asked for these bytes */
    AMB_PATH_WANTS_HOST, /* the subscription asks for host memory */
    AMB_PATH_HOST_ALONE, /* it lies in host memory alone */
    AMB_PATH_EAGER,      /* a link that takes GPU memory sent it with its head */
    AMB_PATH_BY_LINK,    /* a link that takes GPU memory copied it */
    AMB_PATH_WHYS,
};

/* Of one class and direction. As large as a cache line: it is found by a shift. */
struct amb_path {
    uint64_t msgs[AMB_PATH_WAYS], bytes[AMB_PATH_WAYS];
    uint64_t seen; /* bytes when the window began */
    uint64_t rate; /* bytes a second in the best window; 0: none was long enough */
};

/* Of one direction. */
struct amb_paths {
    struct amb_path of[AMB_PATH_CLASSES];
    int64_t until_ns;                   /* the window's end, */
    int64_t since_ns, last_ns;          /* ... its first batch, its last one; 0: none */
    uint8_t way[AMB_PATH_CLASSES];      /* enum amb_path_way, of the last batch */
    uint8_t not_best[AMB_PATH_CLASSES]; /* enum amb_path_why, of the last one not in place */
    uint8_t why, gpu_why;               /* noted by who chose a copy, for who counts it */
};

/* Ends the window, and notes its rates. A batch of that moment, if there is one, begins the next.
 */
void amb_paths_measure(struct amb_paths *paths, int64_t now_ns, bool is_batch);

static inline enum amb_path_class amb_path_class_of(uint32_t msgs, uint64_t bytes)
{
    return bytes >= msgs * AMB_PATH_LARGE_MIN ? AMB_PATH_LARGE : AMB_PATH_SMALL;
}

/* Counts a batch, or a part of one. now_ns: by the shard's clock. */
static inline void amb_path_count(struct amb_paths *paths, enum amb_path_class class,
                                  enum amb_path_way way, enum amb_path_why why, uint32_t msgs,
                                  uint64_t bytes, int64_t now_ns)
{
    struct amb_path *path = &paths->of[class];
    if (__builtin_expect(now_ns >= paths->until_ns, 0)) {
        amb_paths_measure(paths, now_ns, true);
    }
    paths->last_ns = now_ns;
    path->msgs[way] += msgs;
    path->bytes[way] += bytes;
    paths->way[class] = (uint8_t)way;
    if (way != AMB_PATH_IN_PLACE) {
        paths->not_best[class] = (uint8_t)why;
    }
}

static inline uint64_t amb_path_msgs(const struct amb_path *path)
{
    return path->msgs[AMB_PATH_IN_PLACE] + path->msgs[AMB_PATH_COPIED] +
           path->msgs[AMB_PATH_STAGED];
}

static inline uint64_t amb_path_bytes(const struct amb_path *path)
{
    return path->bytes[AMB_PATH_IN_PLACE] + path->bytes[AMB_PATH_COPIED] +
           path->bytes[AMB_PATH_STAGED];
}

/* Of all classes. */
uint64_t amb_paths_msgs(const struct amb_paths *paths);
uint64_t amb_paths_bytes(const struct amb_paths *paths);

/* "zero-copy", "one copy", "staged". */
const char *amb_path_way_name(enum amb_path_way way);
/* "small", "large", "gpu". */
const char *amb_path_class_name(enum amb_path_class class);
/* A sentence without its subject's name, for people; "": AMB_PATH_BEST. */
const char *amb_path_why_text(enum amb_path_why why);
