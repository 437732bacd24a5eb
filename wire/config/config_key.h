/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One row of the schema, and the questions to a row or to a table of them.
 * Threads: any. Memory: pure functions on constants.
 */
#pragma once

#include "wire/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define AMB_CONFIG_PATH_MAX 64u
#define AMB_CONFIG_KEYS_MAX 96u /* of one schema */

struct amb_config_elements;

/* The kind of a row's field, and so the way in which its text is read. */
enum amb_config_type {
    AMB_CONFIG_BOOL,     /* bool */
    AMB_CONFIG_COUNT,    /* uint32_t */
    AMB_CONFIG_SIZE,     /* uint64_t, bytes */
    AMB_CONFIG_TIME,     /* int64_t, ns */
    AMB_CONFIG_WORD,     /* int: one of the row's words */
    AMB_CONFIG_TEXT,     /* const char * */
    AMB_CONFIG_STRINGS,  /* struct amb_config_strings */
    AMB_CONFIG_URLS,     /* struct amb_config_urls */
    AMB_CONFIG_PAIRS,    /* struct amb_config_pairs: a group with free names */
    AMB_CONFIG_ELEMENTS, /* a list of groups: config_elements.h */
};

enum amb_config_apply {
    AMB_CONFIG_RESTART,
    AMB_CONFIG_NEW_SESSIONS,
    AMB_CONFIG_LIVE,
};

/* A word and what it stands for; where the type is no WORD it is allowed beside numbers. */
struct amb_config_word {
    const char *word; /* NULL ends the table */
    int64_t value;
    bool not_yet;
};

struct amb_config_key {
    const char *path; /* "memory.host.size" */
    enum amb_config_type type;
    bool not_yet;   /* known, refused; covers everything below its path too. No field */
    bool elsewhere; /* another role's, not looked at in a file; the same */
    bool secret;    /* never shown */
    bool power_of_two;
    enum amb_config_apply apply;
    size_t offset;             /* of the field */
    const char *default_text;  /* "" is the empty string or list; NULL: required (elements only) */
    const char *dev_text;      /* of the --dev profile; NULL: the same */
    const char *example_value; /* of a row without a field or a default, for the documents */
    uint64_t min, max;         /* of numbers; of the length of texts; of the number of items */
    const struct amb_config_word *words;
    const struct amb_config_elements *elements; /* of the kind ELEMENTS */
    /* Of STRINGS: the fault of one, static; NULL: none. NULL: they are names of interfaces. */
    const char *(*item_fault)(const char *item);
    const char *help; /* one sentence */
};

/* The rows of one role's configuration: offsets into one struct. */
struct amb_config_schema {
    const struct amb_config_key *keys;
    size_t count;        /* at most AMB_CONFIG_KEYS_MAX */
    const char *listing; /* the command that shows all keys */
};

static inline bool amb_config_has_field(const struct amb_config_key *key)
{
    return !key->not_yet && !key->elsewhere;
}

/* NULL: none. A row without a field is found by any path below it, too. */
const struct amb_config_key *amb_config_key_find(const struct amb_config_key *keys, size_t count,
                                                 const char *path);
/* Is it a group with rows below? */
bool amb_config_is_group(const struct amb_config_key *keys, size_t count, const char *path);
/* The path that was probably meant; NULL: none is near. */
const char *amb_config_nearest(const struct amb_config_key *keys, size_t count, const char *path);
/* The same of an outermost group: *out is its name. False: none is near. */
bool amb_config_nearest_group(const struct amb_config_key *keys, size_t count, const char *path,
                              char out[AMB_CONFIG_PATH_MAX]);
/* "AMBROKER_MEMORY_HOST_SIZE". */
void amb_config_env_name(const char *path, char *out, size_t size);
const char *amb_config_apply_name(enum amb_config_apply apply);
/* "a size as "64M", 1M to 1T": what is allowed, for errors and the reference. */
void amb_config_allowed(const struct amb_config_key *key, char *out, size_t size);
/* NULL: not one of them. */
const struct amb_config_word *amb_config_word_find(const struct amb_config_word *words,
                                                   const char *text);
const struct amb_config_word *amb_config_word_of(const struct amb_config_word *words,
                                                 int64_t value);
