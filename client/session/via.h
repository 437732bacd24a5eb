/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The interface that a connection leaves by. It is the one of ?interface=ib0, or the scope of a
 * link-local address.
 *
 * A socket is bound to an address of that interface, and to no device: an address needs no
 * privilege on any kernel. The kernel's routes still choose the way of the packets.
 *
 * Threads: any. Memory: none; the table is the caller's.
 */
#pragma once

#include "wire/base/interface.h"
#include "wire/base/status.h"
#include "wire/codec/url.h"

#include <stdbool.h>
#include <stddef.h>

struct sockaddr_storage;

/* Does the way to this URL depend on the interfaces that there are? */
bool amb_via_asks(const struct amb_url *url);
/* EINVAL: there is no such interface, or it has no address. error then holds a sentence. */
AMB_MUST_CHECK enum amb_status amb_via_check(const struct amb_interfaces *interfaces,
                                             const struct amb_url *url, char *error,
                                             size_t error_size);
/*
 * One address of the URL's host. *to gets the scope that it lacks. *from: the address to bind to;
 * its family is AF_UNSPEC if the URL names no interface.
 * EINVAL: the interface has no address of that family, or there are two interfaces or none for a
 * link-local address. error then holds a sentence.
 */
AMB_MUST_CHECK enum amb_status amb_via_prepare(const struct amb_interfaces *interfaces,
                                               const struct amb_url *url,
                                               struct sockaddr_storage *to,
                                               struct sockaddr_storage *from, char *error,
                                               size_t error_size);
/* A host that was not found: is it the name of an interface, or is its scope none? error then holds
 * a sentence that says what to write instead. */
bool amb_via_mistaken(const struct amb_interfaces *interfaces, const struct amb_url *url,
                      char *error, size_t error_size);
