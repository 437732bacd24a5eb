/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The things that the broker's program does, and the control thread asks for: main() has the
 * configuration and the signals.
 *
 * Threads: called by the control thread; each returns at once. Memory: the program's, for as long
 * as the broker lives.
 */
#pragma once

#include "broker/base/mail.h"

#include <stdbool.h>

enum amb_config_task {
    AMB_CONFIG_TASK_SHOW,     /* the values in force */
    AMB_CONFIG_TASK_DEFAULTS, /* ... and those that hold where nothing is said */
    AMB_CONFIG_TASK_DIFF,     /* changes that a file would make */
    AMB_CONFIG_TASK_TEST,     /* faults of a file */
    AMB_CONFIG_TASK_SET,      /* one key, until the end */
};

/* Something to be done with the configuration, on the program's thread. It comes back by `done`. */
struct amb_config_job {
    struct amb_mail mail;
    enum amb_config_task task;
    const char *text; /* a path, or KEY=VALUE; lives as long as the job */
    struct amb_inbox *to;
    amb_mail_fn done;
    /* The answer, the asker's to free. */
    bool is_done;
    char *note; /* one line; NULL: no memory */
    char *rows; /* JSON; the same */
};

struct amb_control_hooks {
    void (*reload)(void *arg); /* its end comes by amb_broker_reloaded */
    void (*drain)(void *arg);
    void (*config)(void *arg, struct amb_config_job *job); /* NULL: there is none */
    void *arg;
};
