/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control plane's load for heap.py and scale.py: very many clients, topics and subscriptions,
 * from one process.
 *
 *     heap-bench TCP_PORT
 *
 * A command a line on standard input, each answered by "done SECONDS":
 *     connect N           N clients more, on TCP, that have said Hello and nothing after Welcome
 *     topics N PREFIX     N topics more, opened by publishers of clients that do nothing else
 *     subscribe N PATTERN N subscriptions more, 10 of a client that reads what comes
 *     publish N           a message into each of the first N topics, which then have come to all
 *     leave PART          every PART-th client hangs up; 1: all
 *     unsubscribe         all subscriptions' clients hang up
 *     close               all publishers and their clients
 *
 * Threads: one. Memory: the publishers' clients; of the others a descriptor is kept.
 */
#include "tests/support/hostile/hostile_client.h"
#include "wire/base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CLIENTS_MAX 20000u
#define OWNERS_MAX 256u
#define HANDLES 1000u /* of one client */
#define READERS_MAX 1024u
#define READER_HANDLES 10u

static int clients[CLIENTS_MAX];
static unsigned client_count;
static struct hostile *owners[OWNERS_MAX];
static unsigned owner_count, topics_of_owner = HANDLES;
static struct hostile *readers[READERS_MAX];
static unsigned reader_count;
static uint16_t port;
static uint64_t seed;

static void connect_some(unsigned count)
{
    struct hostile *h = malloc(sizeof(*h));
    for (unsigned i = 0; h != NULL && i < count && client_count < CLIENTS_MAX; i++) {
        hostile_init(h, NULL, port, ++seed);
        if (!hostile_handshake(h, AMB_LINK_STREAM)) {
            hostile_fail("client %u is not taken", client_count);
        }
        amb_control_reader_fini(&h->reader);
        clients[client_count++] = h->control;
    }
    free(h);
}

static struct hostile *owner(void)
{
    if (topics_of_owner == HANDLES) {
        struct hostile *h = owner_count < OWNERS_MAX ? malloc(sizeof(*h)) : NULL;
        if (h == NULL) {
            hostile_fail("no more publishers");
        }
        hostile_init(h, NULL, port, ++seed);
        if (!hostile_login(h, AMB_LINK_STREAM)) {
            hostile_fail("a publisher is not taken");
        }
        owners[owner_count++] = h;
        topics_of_owner = 0;
    }
    return owners[owner_count - 1];
}

static void open_topics(unsigned count, const char *prefix)
{
    for (unsigned i = 0; i < count; i++) {
        struct hostile *h = owner();
        char topic[160];
        (void)snprintf(topic, sizeof(topic), "%s.%u", prefix, i);
        (void)hostile_pub_open(h, topics_of_owner++, topic, false);
        /* Some requests are under way at once. */
        uint64_t spare = topics_of_owner == HANDLES || i + 1 == count ? 0 : 32;
        while (!h->is_over && h->answers + spare < topics_of_owner) {
            hostile_live(h, 1);
        }
        if (h->is_over || h->errors != 0) {
            hostile_fail("topic %s: %s", topic, h->is_over ? h->over_text : h->refused_text);
        }
    }
}

/* Clients have done what was asked of them, and nothing is refused. */
static void await(struct hostile *h, uint64_t answers)
{
    while (!h->is_over && h->answers < answers) {
        hostile_live(h, 1);
    }
    if (h->is_over || h->errors != 0) {
        hostile_fail("%s", h->is_over ? h->over_text : h->refused_text);
    }
}

static void subscribe(unsigned count, const char *pattern)
{
    for (unsigned i = 0; i < count; i += READER_HANDLES) {
        struct hostile *h = reader_count < READERS_MAX ? malloc(sizeof(*h)) : NULL;
        if (h == NULL) {
            hostile_fail("no more readers");
        }
        hostile_init(h, NULL, port, ++seed);
        if (!hostile_login(h, AMB_LINK_STREAM)) {
            hostile_fail("a reader is not taken");
        }
        readers[reader_count++] = h;
        for (unsigned j = 0; j < READER_HANDLES; j++) {
            (void)hostile_subscribe(h, j, pattern, AMB_SLOW_BLOCK, UINT64_C(1) << 20, true);
        }
        await(h, READER_HANDLES);
    }
}

/* To all readers; each of their subscriptions numbers its own. */
static uint64_t deliveries(void)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < reader_count; i++) {
        for (unsigned j = 0; j < READER_HANDLES; j++) {
            sum += readers[i]->subs[j].delivered;
        }
    }
    return sum;
}

static void publish(unsigned count)
{
    uint64_t before = deliveries(), wanted = (uint64_t)count * reader_count * READER_HANDLES;
    for (unsigned i = 0; i < count; i++) {
        struct hostile *h = owners[i / HANDLES];
        while (!h->is_over && !hostile_publish(h, i % HANDLES, 64)) {
            hostile_live(h, 1);
        }
        hostile_live(h, 0);
    }
    while (deliveries() - before < wanted) {
        for (unsigned i = 0; i < reader_count; i++) {
            hostile_live(readers[i], 0);
            await(readers[i], 0);
        }
    }
}

static void unsubscribe(void)
{
    for (unsigned i = 0; i < reader_count; i++) {
        (void)!amb_link_close(readers[i]->link);
        amb_control_reader_fini(&readers[i]->reader);
        (void)close(readers[i]->control);
        free(readers[i]);
    }
    reader_count = 0;
}

static void leave(unsigned part)
{
    unsigned left = 0;
    for (unsigned i = 0; i < client_count; i++) {
        if (i % part == 0) {
            (void)close(clients[i]);
        } else {
            clients[left++] = clients[i];
        }
    }
    client_count = left;
}

static void close_owners(void)
{
    for (unsigned i = 0; i < owner_count; i++) {
        (void)!amb_link_close(owners[i]->link);
        amb_control_reader_fini(&owners[i]->reader);
        (void)close(owners[i]->control);
        free(owners[i]);
    }
    owner_count = 0;
    topics_of_owner = HANDLES;
}

int main(int argc, char **argv)
{
    char line[160], prefix[100] = "";
    unsigned count = 0;
    if (argc != 2) {
        (void)fprintf(stderr, "usage: heap-bench TCP_PORT\n");
        return 64;
    }
    port = (uint16_t)strtoul(argv[1], NULL, 10);
    while (fgets(line, sizeof(line), stdin) != NULL) {
        int64_t start_ns = amb_clock_monotonic_ns();
        if (sscanf(line, "connect %u", &count) == 1) {
            connect_some(count);
        } else if (sscanf(line, "topics %u %99s", &count, prefix) == 2) {
            open_topics(count, prefix);
        } else if (sscanf(line, "subscribe %u %99s", &count, prefix) == 2) {
            subscribe(count, prefix);
        } else if (sscanf(line, "publish %u", &count) == 1) {
            publish(count);
        } else if (strcmp(line, "unsubscribe\n") == 0) {
            unsubscribe();
        } else if (sscanf(line, "leave %u", &count) == 1 && count != 0) {
            leave(count);
        } else if (strcmp(line, "close\n") == 0) {
            close_owners();
        } else {
            return 64;
        }
        (void)printf("done %.3f\n", (double)(amb_clock_monotonic_ns() - start_ns) / 1e9);
        (void)fflush(stdout);
    }
    return 0;
}
