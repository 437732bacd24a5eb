/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts that the files of status share. status.c asks all workers, status_rows.c puts their
 * rows together, and status_answer.c sends them, on the control thread. status_worker.c makes the
 * rows of one shard, on its worker.
 */
#pragma once

#include "wire/base/list.h"
#include "wire/codec/topic.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct amb_client;
struct amb_control;
struct amb_doctor_look;
struct amb_doctor_proc;
struct amb_shard;
struct amb_status_query;
struct amb_status_walk;

static inline json_int_t amb_status_num(uint64_t value)
{
    return (json_int_t)value;
}

/* A table of a shard, and the list of an answer that its rows go to. */
struct amb_status_table {
    const char *list;
    uint64_t (*end)(const struct amb_shard *shard);
    /* Makes the rows of that place, and returns the next. */
    uint64_t (*at)(struct amb_status_walk *walk, uint64_t at);
};

/* A question, and the function that answers it. */
struct amb_status_view {
    const char *name;
    const struct amb_status_table *table;             /* the table whose rows each worker makes; or
                                                       * NULL */
    json_t *(*worker)(const struct amb_shard *shard); /* the one row of a worker; or NULL */
    /* On the control thread: rows, or the answer itself. */
    json_t *(*gather)(struct amb_status_query *query, struct amb_control *control);
    /* Up to which id there are rows of a tenant; NULL: all. */
    uint64_t (*last_id)(const struct amb_control *control, uint32_t tenant);
    bool has_files;     /* its query waits for a look at files */
    bool is_of_tenants; /* users of a tenant may ask, and see their own; else operators alone */
};

/* One question under way. */
struct amb_status_query {
    struct amb_client *client; /* NULL: it is for `ask` */
    struct amb_status_ask *ask;
    uint64_t id;
    const struct amb_status_view *view;
    uint32_t tenant;                 /* the one that is asked for; AMB_TENANT_ANY */
    uint64_t last_id;                /* of its rows: others are left out; UINT64_MAX: none is */
    char pattern[AMB_TOPIC_MAX + 1]; /* a client's or a user's name; "": all */
    size_t pattern_len;
    unsigned unanswered; /* orders, and the look at files */
    uint64_t omitted;    /* rows */
    json_t **shards;     /* the answer of each worker */
    /* Files, at which a thread of its own looks: broker/doctor/doctor_files.h. */
    struct amb_list_node of_looks; /* of control->looks, while it waits for them */
    struct amb_doctor_look *look;  /* NULL: it does not wait */
    int64_t look_until_ns;
    json_t *files;                /* rows; NULL: they were not looked at */
    struct amb_doctor_proc *proc; /* NULL: there was no look, or no memory for it */
};

extern const struct amb_status_table amb_status_sessions, amb_status_session_paths,
    amb_status_session_left;
