/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The configuration of one connection: the options of amb_connect, the environment and a file as
 * one. Its layers are, lowest first: built-in defaults, a libconfig file (amb_options.config,
 * $AMB_CONFIG), the environment (AMB_URL and others), and the options of the program. Every key is
 * one row of client/config/client_schema.c. The file may be a broker's, whose sections are not
 * looked at.
 *
 * libconfig is loaded only where a file is named.
 * Threads: any, after creation (nothing changes). Memory: one owner; all strings belong to it.
 */
#pragma once

#include "wire/base/status.h"
#include "wire/codec/url.h"
#include "wire/config/transports.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AMB_CLIENT_FOREVER UINT32_MAX /* reconnect.attempts: no limit */
#define AMB_CLIENT_SPIN_AUTO INT64_C(-1)
#define AMB_CLIENT_SPIN_MAX_NS INT64_C(10000000) /* server.spin has the same bound */
#define AMB_CLIENT_URLS_MAX 2047u                /* bytes of a list of URLs */

struct amb_config_store;

struct amb_client_config {
    const char *url;         /* a comma list */
    enum amb_link_kind link; /* of URLs that name none, and have it */
    const char *name;        /* "": the program's */
    const char *credentials; /* path; "": none */
    /* Of tls:// URLs: files in PEM, "": the system's authorities, and no certificate of ours. The
     * name that a broker's certificate must be for; "": the URL's host. */
    const char *ca, *certificate, *key, *server_name;
    int64_t connect_timeout_ns, timeout_ns;
    int64_t heartbeat_ns; /* 0: as the broker says */
    struct {
        int64_t min_ns, max_ns;
        uint32_t attempts; /* AMB_CLIENT_FOREVER; 0: none */
    } reconnect;
    bool retry_first;
    uint64_t memory_max, send_memory_max;
    int64_t spin_ns; /* AMB_CLIENT_SPIN_AUTO; 0: never */
    struct amb_config_transports transports;
    struct amb_config_store *store; /* origins and memory */
};

/* A key that the program itself has given, above all layers. */
struct amb_client_option {
    const char *path; /* "client.name" */
    const char *name; /* of the option, for messages; static */
    const char *text; /* copied as it is, lists apart; NULL: the program has the value itself */
};

/* Where a configuration comes from. All zero: built-in defaults alone. */
struct amb_client_source {
    const char *path; /* a file, or NULL */
    const char *text; /* its content where there is no path (tests); @include is refused */
    size_t text_len;
    const char *const *environment; /* like environ; NULL, or a set-user-ID program: none */
    const struct amb_client_option *options;
    size_t option_count;
};

/*
 * Reads and checks; opens nothing but configuration files. EINVAL: error holds "file:line: key:
 * reason (got X, allowed Y)"; the variable's or the option's name stands in place of file:line.
 * ENOTSUP: there is no libconfig to read the file with. ENOMEM. In an error shorter than
 * AMB_CONFIG_ERROR_MAX bytes a long path is cut at its front.
 */
AMB_MUST_CHECK enum amb_status amb_client_config_create(const struct amb_client_source *source,
                                                        char *error, size_t error_size,
                                                        struct amb_client_config **out);
/* NULL is allowed; sets *config to NULL. */
void amb_client_config_destroy(struct amb_client_config **config);

/* The file that $AMB_CONFIG names; NULL: none. Programs with more rights than their user ask it for
 * nothing. */
const char *amb_client_config_path(void);
/* Where the key's value comes from, as errors name it. */
void amb_client_config_place(const struct amb_client_config *config, const char *key, char *out,
                             size_t size);
/* Has anybody given the key, or is its value the default? */
bool amb_client_config_is_given(const struct amb_client_config *config, const char *key);
/* Does the key's value come from a file? Then *out has "file:line". */
bool amb_client_config_in_file(const struct amb_client_config *config, const char *key, char *out,
                               size_t size);
