/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The broker as a service of systemd: a line about its state, and a watchdog that is fed only while
 * its threads answer.
 *
 *   control ── ask ──► worker, maker, copier ── the same mail ──► control: all are back
 *   control ── WATCHDOG=1, if that took less than half of the watchdog's time ──► the manager
 *
 * The control thread asks every quarter of that time. So it is one of those that must turn, and a
 * thread that hangs is seen before the manager loses patience. After answers that came too late all
 * are asked again at once.
 *
 * Threads: init and add before the control thread has it, run and due_ns on the control thread.
 * Memory: mail embedded here; inboxes outlive it.
 */
#pragma once

#include "broker/base/mail.h"

#include <stdbool.h>
#include <stdint.h>

#define AMB_SERVICE_THREADS_MAX 130u /* workers, copiers, the maker */

struct amb_notify;
struct amb_service;

struct amb_service_thread {
    struct amb_mail mail;
    struct amb_service *service;
    struct amb_inbox *inbox; /* its own */
    char name[16];
    bool is_asked; /* and has not answered yet */
};

/* The broker, in numbers. */
struct amb_service_figures {
    uint64_t clients, messages;  /* messages: in, since it began */
    uint64_t memory, memory_max; /* in use, of memory.host.size */
    bool is_draining;
    uint64_t left; /* ... messages that are not delivered yet */
};

struct amb_service {
    struct amb_notify *notify;
    struct amb_inbox *home; /* the control thread's */
    struct amb_service_thread threads[AMB_SERVICE_THREADS_MAX];
    unsigned count;
    /* Of the watchdog. */
    int64_t asked_ns; /* 0: never */
    int64_t ask_due_ns;
    unsigned missing; /* answers */
    bool is_late;     /* and the log has it */
    /* Of the state. */
    int64_t status_ns, status_due_ns;
    uint64_t messages; /* then */
    bool is_idle;      /* nobody was there: it is not told again until that changes */
    bool is_stopping;  /* and the manager knows */
};

void amb_service_init(struct amb_service *service, struct amb_notify *notify,
                      struct amb_inbox *home);
/* Name: at most 15 bytes. More than AMB_SERVICE_THREADS_MAX threads are not asked. */
void amb_service_add(struct amb_service *service, struct amb_inbox *inbox, const char *name);
/* Tells and asks what is due. */
void amb_service_run(struct amb_service *service, const struct amb_service_figures *figures,
                     int64_t now_ns);
/* When it wants to run again. INT64_MAX: with the next thing that happens. */
int64_t amb_service_due_ns(const struct amb_service *service);
