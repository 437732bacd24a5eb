/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A configuration while it is being made, of whichever role: its schema says what is known.
 * The stages of a value: layer -> file (config_file.c) -> tree (config_tree.c) -> field
 * (config_value.c, config_list.c) -> checks between fields, which are each role's own.
 * Threads: one at a time. Memory: everything lives in the configuration's own blocks, also values
 * that a higher layer has replaced.
 */
#pragma once

#include "wire/config/config_faults.h"
#include "wire/config/config_key.h"
#include "wire/config/config_types.h"

struct config_setting_t; /* libconfig's */

#define AMB_CONFIG_SHOWN_MAX 64u /* of a value in an error text */

enum amb_config_origin {
    AMB_CONFIG_ORIGIN_DEFAULT,
    AMB_CONFIG_ORIGIN_DEV,
    AMB_CONFIG_ORIGIN_FILE,
    AMB_CONFIG_ORIGIN_ENVIRONMENT,
    AMB_CONFIG_ORIGIN_OPTION,
    AMB_CONFIG_ORIGIN_SET, /* while it runs, by `config set` */
};

/* Where a value was written. */
struct amb_config_place {
    enum amb_config_origin origin;
    const char *name; /* the file, the variable, the option as "-o server.workers" */
    unsigned line;    /* FILE: 0 if it is about the whole file */
};

struct amb_config_spot;

struct amb_config_block {
    struct amb_config_block *next;
    max_align_t bytes[];
};

/* Memory and origins of a configuration, as long as it lives. */
struct amb_config_store {
    const struct amb_config_schema *schema;
    struct amb_config_block *blocks;
    struct amb_config_spot *spots;                       /* of elements of lists: config_spots.h */
    const struct amb_config_spot **spot_order;           /* the same by name; NULL: in no order */
    size_t spot_count;                                   /* ... so many */
    struct amb_config_place places[AMB_CONFIG_KEYS_MAX]; /* of each row's present value */
};

struct amb_config_build {
    struct amb_config_store *store;
    void *config; /* the struct that the schema's offsets are in */
    char *error;  /* never NULL */
    size_t error_size;
    unsigned includes;                /* files included so far */
    struct amb_config_faults *faults; /* NULL: the first one ends it */
};

/* A value as it was written, before its type is looked at. */
struct amb_config_value {
    enum amb_config_value_kind {
        AMB_CONFIG_VALUE_UNTYPED, /* text of a variable, an option or a default */
        AMB_CONFIG_VALUE_STRING,
        AMB_CONFIG_VALUE_INTEGER,
        AMB_CONFIG_VALUE_FLOAT,
        AMB_CONFIG_VALUE_BOOL,
        AMB_CONFIG_VALUE_GROUP,
        AMB_CONFIG_VALUE_LIST, /* or array */
    } kind;
    const char *text; /* UNTYPED, STRING */
    long long integer;
    bool boolean;
    const struct config_setting_t *setting; /* GROUP, LIST */
};

/* A value's place, and its name in errors. */
struct amb_config_target {
    struct amb_config_build *build;
    const struct amb_config_key *key;
    void *base;       /* the struct that the row's offset is in */
    const char *path; /* "topics[2].match" */
    const struct amb_config_place *place;
};

/* Zeroed; NULL without memory. Freed with the configuration. */
void *amb_config_alloc(struct amb_config_store *store, size_t size);
char *amb_config_copy(struct amb_config_store *store, const char *text);
/* Frees all of that, not the store itself. */
void amb_config_store_fini(struct amb_config_store *store);

/* Writes "place: path: reason" and answers EINVAL. path may be NULL. Of several faults the first
 * one is in the error. */
AMB_MUST_CHECK enum amb_status amb_config_fail(const struct amb_config_build *build,
                                               const struct amb_config_place *place,
                                               const char *path, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* The same with "(got X, allowed Y)" from the target's row. */
AMB_MUST_CHECK enum amb_status amb_config_refuse(const struct amb_config_target *target,
                                                 const char *reason,
                                                 const struct amb_config_value *value);
void amb_config_place_format(const struct amb_config_place *place, char *out, size_t size);
/* The place of a row's present value; asserts that there is such a row. */
const struct amb_config_place *amb_config_place_of(const struct amb_config_store *store,
                                                   const char *path);
void amb_config_place_set(struct amb_config_store *store, const char *path,
                          const struct amb_config_place *place);

/* The answer to a path without a row. prefix: what errors put before the path and the nearest. */
AMB_MUST_CHECK enum amb_status amb_config_unknown(const struct amb_config_build *build,
                                                  const struct amb_config_key *keys, size_t count,
                                                  const char *prefix, const char *path,
                                                  const struct amb_config_place *place);
AMB_MUST_CHECK enum amb_status amb_config_not_yet(const struct amb_config_build *build,
                                                  const char *path,
                                                  const struct amb_config_place *place);
