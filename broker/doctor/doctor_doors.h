/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Listeners and the files of secrets, for the doctor: folders and modes of sockets, modes of token
 * files, TCP that strangers reach.
 * Threads: the control thread, or the main one before a start. Memory: JSON, the caller's.
 */
#pragma once

#include "broker/config/config.h"
#include "wire/codec/url.h"

#include <jansson.h>
#include <stdbool.h>

/* Appends rows about the listeners of the configuration; is_running: its sockets are there. */
void amb_doctor_doors(const struct amb_config *config, bool is_running, json_t *rows);
/* The mode that a Unix listener's socket gets. */
unsigned amb_doctor_socket_mode(const struct amb_url *url);
/* The folder of a Unix listener's socket. */
void amb_doctor_socket_folder(const struct amb_url *url, char out[sizeof(url->path)]);
