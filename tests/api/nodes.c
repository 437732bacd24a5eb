/* SPDX-License-Identifier: Apache-2.0 */
/*
 * getaddrinfo for program 10, which has its brokers' names built in: node1 and node2 are this
 * machine, at the ports that $NODE1_PORT and $NODE2_PORT say. It stands before libc's for libamb
 * too, since the program is asked first.
 * Threads: any. Memory: none.
 */
#define _GNU_SOURCE /* RTLD_NEXT */
#include <dlfcn.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>

typedef int (*lookup_fn)(const char *, const char *, const struct addrinfo *, struct addrinfo **);

__attribute__((visibility("default"))) int getaddrinfo(const char *node, const char *service,
                                                       const struct addrinfo *hints,
                                                       struct addrinfo **out)
{
    lookup_fn lookup;
    void *next = dlsym(RTLD_NEXT, "getaddrinfo");
    memcpy(&lookup, &next, sizeof(lookup));
    const char *port = NULL;
    if (node != NULL && strcmp(node, "node1") == 0) {
        port = getenv("NODE1_PORT");
    } else if (node != NULL && strcmp(node, "node2") == 0) {
        port = getenv("NODE2_PORT");
    }
    return port != NULL ? lookup("127.0.0.1", port, hints, out) : lookup(node, service, hints, out);
}
