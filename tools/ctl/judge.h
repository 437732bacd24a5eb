/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The checks of broker-ctl check: a figure out of a view of the broker, held against two limits.
 * The form is that which Nagios and its kin read. A figure above a limit is beyond it.
 *
 *   view ─► value ─► state: 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN
 *
 * Threads: any. Memory: the caller's.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

enum amb_judge {
    AMB_JUDGE_READY,  /* it answers */
    AMB_JUDGE_HEALTH, /* the longest turn of a worker in the last 10 s, in seconds */
    AMB_JUDGE_LAG,    /* bytes that wait for the subscription that is most behind */
    AMB_JUDGE_MEMORY, /* percent of the limit of host memory that is in use */
    AMB_JUDGE_LOSS,   /* messages that subscriptions have lost */
    AMB_JUDGE_QUEUES, /* dead letters */
};

enum amb_judge_state {
    AMB_JUDGE_OK,
    AMB_JUDGE_WARNING,
    AMB_JUDGE_CRITICAL,
    AMB_JUDGE_UNKNOWN,
};

struct amb_judgement {
    enum amb_judge_state state;
    double value, warn, critical;
    char text[256]; /* "LOSS WARNING - 12 messages lost | lost=12c;0;1000;0" */
};

/* The check of that name, "loss", which the table of command lines has found good. */
enum amb_judge amb_judge_named(const char *name);
/* "WARNING", static. */
const char *amb_judge_state(enum amb_judge_state state);
/* The question to the broker, "workers". */
const char *amb_judge_query(enum amb_judge judge);
/* The limits that hold where none is given. */
void amb_judge_limits(enum amb_judge judge, double *warn, double *critical);
/* A limit in the check's unit: a time, a size or a number. False: it is none. */
bool amb_judge_limit(enum amb_judge judge, const char *text, double *out);
/* The check's unit, for people: "a time, as 500ms". */
const char *amb_judge_takes(enum amb_judge judge);
/* The broker's answer, judged. One without the figure is UNKNOWN. */
void amb_judge(enum amb_judge judge, const json_t *answer, double warn, double critical,
               struct amb_judgement *out);
/* No answer came, and why. */
void amb_judge_silence(enum amb_judge judge, bool is_forbidden, const char *why,
                       struct amb_judgement *out);
