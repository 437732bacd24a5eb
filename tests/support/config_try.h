/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests of broker/config*: makes a configuration from text on a machine that is always the
 * same. Checks the error where it must be refused.
 */
#pragma once

#include "broker/config/config.h"
#include "broker/config/print/config_print.h"
#include "tests/support/interfaces.h"

#include <netdb.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Of the names that could be an interface's, this one is a host's. */
static inline int try_resolve(const char *host)
{
    return strcmp(host, "node7") == 0 ? 0 : EAI_NONAME;
}

static const struct amb_config_machine try_machine = {
    .cores = 4,
    .cpus = {{0xf}},
    .ram = UINT64_C(16) << 30,
    .descriptors = 1024,
    .host = "testhost",
    .interfaces = &try_interfaces,
    .resolve = try_resolve,
};

/* The source of `text` alone. */
static inline struct amb_config_source try_source(const char *text)
{
    return (struct amb_config_source){
        .text = text,
        .text_len = text == NULL ? 0 : strlen(text),
        .machine = &try_machine,
    };
}

static inline struct amb_config *try_accept_source(const struct amb_config_source *source)
{
    char error[AMB_CONFIG_ERROR_MAX] = "";
    struct amb_config *config = NULL;
    if (amb_config_create(source, error, sizeof(error), &config) != AMB_OK) {
        fail_msg("refused: %s", error);
    }
    return config;
}

static inline struct amb_config *try_accept(const char *text)
{
    struct amb_config_source source = try_source(text);
    return try_accept_source(&source);
}

/* Refused, with exactly this error. */
static inline void try_refuse_source(const struct amb_config_source *source, const char *expected)
{
    char error[AMB_CONFIG_ERROR_MAX] = "";
    struct amb_config *config = NULL;
    enum amb_status status = amb_config_create(source, error, sizeof(error), &config);
    if (status == AMB_OK) {
        amb_config_destroy(&config);
        fail_msg("accepted, although: %s", expected);
    }
    assert_int_equal(status, AMB_EINVAL);
    assert_null(config);
    assert_string_equal(error, expected);
}

static inline void try_refuse(const char *text, const char *expected)
{
    struct amb_config_source source = try_source(text);
    try_refuse_source(&source, expected);
}

/* Refused, with an error that has this in it. */
static inline void try_refuse_with(const struct amb_config_source *source, const char *part)
{
    char error[AMB_CONFIG_ERROR_MAX] = "";
    struct amb_config *config = NULL;
    enum amb_status status = amb_config_create(source, error, sizeof(error), &config);
    amb_config_destroy(&config);
    assert_int_equal(status, AMB_EINVAL);
    if (strstr(error, part) == NULL) {
        fail_msg("\"%s\" is not in: %s", part, error);
    }
}

/* The same of a text. */
static inline void try_refuse_part(const char *text, const char *part)
{
    struct amb_config_source source = try_source(text);
    try_refuse_with(&source, part);
}

/* As it is printed; free() it. */
static inline char *try_printed(const struct amb_config *config)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    amb_config_print(config, out);
    assert_int_equal(fclose(out), 0);
    return text;
}
