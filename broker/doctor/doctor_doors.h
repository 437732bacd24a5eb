/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Listeners and the files of secrets, for the doctor: folders and modes of sockets, modes of token
 * files, TCP that strangers reach.
 * Threads: that of doctor_files.h, or the main one before a start. Blocks for the file system.
 * Memory: JSON, the caller's.
 */
#pragma once

#include "broker/config/config.h"
#include "wire/codec/url.h"

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

/* The file of a Unix socket that the broker has made. */
struct amb_doctor_socket {
    const char *path;
    uint64_t inode; /* 0: not known */
};

/* Appends rows about the listeners of the configuration. sockets: of a broker that runs, `count` of
 * them; NULL: it does not run yet. */
void amb_doctor_doors(const struct amb_config *config, const struct amb_doctor_socket *sockets,
                      size_t count, json_t *rows);
/* The mode that a Unix listener's socket gets. */
unsigned amb_doctor_socket_mode(const struct amb_url *url);
/* The folder of a Unix listener's socket. */
void amb_doctor_socket_folder(const struct amb_url *url, char out[sizeof(url->path)]);
