/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The URLs that listeners and clients use:
 *   unix:///path?mode=0666&group=NAME      (mode, group: listeners only)
 *   tcp://host:port?link=ucx               (host: name, IPv4, [IPv6]; port 0: listeners only)
 *   tcp://host:port?interface=ib0          (clients only)
 *   ...?expect=rdma, any number of times   (clients only: expect.h)
 *   tls://host:port?pin=sha256/...         (the same over TLS; pin: clients only)
 * Any URL may say ?link=ring|stream|ucx.
 * The host of a listener may also be the name of an interface, which only its user can tell.
 * Threads: any. Memory: the parsed URL holds copies.
 */
#pragma once

#include "wire/base/interface.h"
#include "wire/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AMB_URL_PIN_MAX 51u

enum amb_url_scheme {
    AMB_URL_UNIX,
    AMB_URL_TCP,
    AMB_URL_TLS,
};

enum amb_link_kind {
    AMB_LINK_ANY, /* the broker chooses */
    AMB_LINK_RING,
    AMB_LINK_STREAM,
    AMB_LINK_UCX,
    AMB_LINK_SIM,
};

struct amb_url {
    enum amb_url_scheme scheme;
    enum amb_link_kind link;
    char path[108]; /* UNIX: fits struct sockaddr_un */
    char host[256]; /* TCP, TLS: without brackets */
    uint16_t port;
    char interface[AMB_INTERFACE_NAME_MAX + 1]; /* TCP, TLS: to connect from; "" if not given */
    int32_t mode;                               /* UNIX: octal permissions, -1 if not given */
    char group[64];
    uint32_t expect;               /* enum amb_expect, all that are demanded */
    char pin[AMB_URL_PIN_MAX + 1]; /* TLS: "sha256/" and 44 digits of base64; "" if not given */
};

/* EINVAL; error (at least 1 byte) then holds one sentence naming the offending part. */
AMB_MUST_CHECK enum amb_status amb_url_parse(const char *text, struct amb_url *out, char *error,
                                             size_t error_size);
/* The canonical text, always NUL-terminated. */
void amb_url_format(const struct amb_url *url, char *out, size_t size);
/* Where `brokerd --dev` of that user listens: unix://FOLDER/ambroker-UID/broker.sock. FOLDER is
 * runtime_folder ($XDG_RUNTIME_DIR or NULL), and /tmp if it can be in no URL of a socket. */
void amb_url_format_dev(const char *runtime_folder, unsigned uid, char *out, size_t size);
/* "unix", "tcp", "tls" */
const char *amb_url_scheme_name(enum amb_url_scheme scheme);
const char *amb_link_kind_name(enum amb_link_kind kind);
/* "ring", "stream" or "ucx" as its kind; AMB_LINK_ANY: none of them. */
enum amb_link_kind amb_link_kind_find(const char *text, size_t len);
