/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The maker: a thread that makes and unmakes segments, about 1 ms for each MiB, so that no worker
 * stands still for it. Other long work may be mailed to its inbox, in parts; while it stops, a part
 * is the last one.
 *
 * Segments that go have a line of their own, and go first: before a segment is made, and between
 * its parts. Memory that lies there is nobody's. So a worker that cannot wait may unmap it itself.
 *
 * The maker brings the pages, so they would lie near wherever it runs. A pool's are asked for near
 * the worker that fills them, a lease's near its publisher.
 *
 *   worker ── make ──► maker: memfd, pages, mapping, seals, registration ── mail ──► worker adopts
 *   worker ── unmake ──► maker: unmaps, and gives the budget its bytes; or limbo.h
 *
 * Threads: make, unmake, after and help on workers; init, start and stop where the broker starts
 * and stops; the rest on the maker's thread. It stops after the workers, whose mail is run once
 * more then. Memory: one allocation for each segment under way.
 */
#pragma once

#include "broker/base/mail.h"
#include "wire/base/list.h"
#include "wire/base/status.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct amb_membudget;
struct amb_segment;
struct amb_bufpool;

/* A task that tries again a little later, when limbo has been looked at. */
struct amb_maker_wait {
    struct amb_list_node node;
    struct amb_mail *mail;
    struct amb_inbox *to;
    void (*fn)(struct amb_mail *mail, void *owner);
    int64_t due_ns;
};

/* In the line of segments that go: one of them, or a mail. */
struct amb_unmaking {
    struct amb_list_node node;
    struct amb_membudget *budget;
    struct amb_segment *segment; /* NULL: the mail */
    struct amb_mail *mail;
    struct amb_inbox *to;
    void (*fn)(struct amb_mail *mail, void *owner);
};

struct amb_maker_line {
    pthread_mutex_t lock;          /* of the next four; not held while a segment is unmapped */
    pthread_cond_t unmapped;       /* one more is */
    struct amb_list_node unmaking; /* struct amb_unmaking.node */
    uint64_t done;                 /* segments that were unmapped */
    bool is_unmapping;             /* some thread has taken the first one */
    _Atomic uint32_t segments;     /* in the list, and the one that is being unmapped */
    atomic_flag is_waking;         /* `wake` is under way to the maker */
    struct amb_mail wake;
};

struct amb_maker {
    struct amb_inbox inbox;
    struct amb_membudget *budget; /* the limbo that it looks at; NULL: none */
    struct amb_mail stop;
    pthread_t thread;
    struct amb_list_node waiting; /* struct amb_maker_wait.node, due first first */
    struct amb_maker_line line;
    bool (*prefer)(int node); /* amb_numa_prefer, or a test's in its place */
    int node;                 /* that its pages come from; the maker's own */
    bool is_open;             /* between init and stop */
    bool is_running;          /* ... with a thread */
    bool is_stopping;         /* the maker's own */
};

AMB_MUST_CHECK enum amb_status amb_maker_start(struct amb_maker *maker);
/* The same without a thread, for a test that calls amb_maker_work. amb_maker_stop ends that, too.
 */
AMB_MUST_CHECK enum amb_status amb_maker_init(struct amb_maker *maker);
/* On the maker's thread: all that is there to be done. */
void amb_maker_work(struct amb_maker *maker);
/* Does what it was asked for, and ends. Harmless on a zeroed one. */
void amb_maker_stop(struct amb_maker *maker);

/* On the maker's thread: pages of the work that follows come from that node of the machine, where
 * it has room; AMB_NUMA_ANY: from any. */
void amb_maker_near(struct amb_maker *maker, int node);
/* On the maker's thread: posts the mail in some milliseconds, or when it stops. */
void amb_maker_wait(struct amb_maker *maker, struct amb_maker_wait *wait);

/* The pool adopts the segment in one of its worker's next turns, by options.inbox. The bytes are
 * taken from the budget already. False: no memory to ask with. */
bool amb_maker_make(struct amb_maker *maker, struct amb_bufpool *pool, uint64_t bytes,
                    bool is_dedicated);
/* Takes the segment over. Unmaps it at once where maker is NULL, or memory for the line lacks. */
void amb_maker_unmake(struct amb_maker *maker, struct amb_membudget *budget,
                      struct amb_segment *segment);
/* The mail goes when all segments are unmapped that were handed over before. The caller sets mail,
 * to and fn of `after`, which stays in the line until then. */
void amb_maker_after(struct amb_maker *maker, struct amb_unmaking *after);
/* For a worker that cannot wait: a segment is unmapped when this returns, by the caller or by
 * another thread. It takes as long as that. False: none was there. */
bool amb_maker_help(struct amb_maker *maker);
