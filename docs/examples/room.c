/* SPDX-License-Identifier: Apache-2.0 */
/* An event loop that publishes and never waits: a source that finds no room rests until it has. */
#include <amb/amb.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#define SOURCES_MAX 500
#define ROUND 64 /* messages of a source before it is the next one's turn */

struct source {
    struct amb_pub *pub;
    uint64_t sent, rests;
    int rests_now;
};

static struct source sources[SOURCES_MAX];
static int source_count;

static void on_event(struct amb_conn *conn, const struct amb_event *event, void *arg)
{
    (void)conn;
    (void)arg;
    for (int i = 0; event->type == AMB_EVENT_ROOM && i < source_count; i++) {
        if (sources[i].pub == event->pub) {
            sources[i].rests_now = 0;
        }
    }
}

/* Of a source whose turn it is. */
static enum amb_status publish(struct source *source, uint64_t count)
{
    static const char sample[1000];
    enum amb_status status = AMB_OK;
    for (int i = 0; status == AMB_OK && i < ROUND && source->sent < count; i++) {
        status = amb_pub_send(source->pub, sample, sizeof(sample), AMB_NOWAIT);
        source->sent += status == AMB_OK;
    }
    if (status == AMB_EAGAIN) { /* AMB_EVENT_ROOM will follow. */
        source->rests_now = 1;
        source->rests++;
        return AMB_OK;
    }
    return status;
}

/* room [SOURCES] [MESSAGES]: so many of each source */
int main(int argc, char **argv)
{
    source_count = argc > 1 ? atoi(argv[1]) : 3;
    uint64_t count = argc > 2 ? strtoull(argv[2], NULL, 10) : 100000, rests = 0;
    struct amb_conn *conn;
    if (source_count < 1 || source_count > SOURCES_MAX ||
        amb_connect(NULL, AMB_OPTIONS(.on_event = on_event), &conn) != AMB_OK) {
        return 1;
    }
    enum amb_status status = AMB_OK;
    for (int i = 0; status == AMB_OK && i < source_count; i++) {
        char topic[32];
        snprintf(topic, sizeof(topic), "source.%d", i);
        status = amb_pub_open(conn, topic, NULL, &sources[i].pub);
    }
    struct pollfd fd = {.fd = amb_fd(conn), .events = POLLIN};
    for (int at_work = 1; status == AMB_OK && at_work;) {
        int ready = 0;
        at_work = 0;
        for (int i = 0; status == AMB_OK && i < source_count; i++) {
            if (!sources[i].rests_now) {
                status = publish(&sources[i], count);
            }
            at_work |= sources[i].sent < count;
            ready |= sources[i].sent < count && !sources[i].rests_now;
        }
        /* All of them rest: so does this thread. */
        if (poll(&fd, 1, ready || !at_work ? 0 : -1) == 1) {
            amb_poll(conn, AMB_NOWAIT);
        }
    }
    for (int i = 0; i < source_count; i++) {
        rests += sources[i].rests;
    }
    status = status == AMB_OK ? amb_flush(conn, 30 * AMB_SEC) : status;
    printf("%" PRIu64 " of each of %d, %" PRIu64 " rests, %s\n", count, source_count, rests,
           amb_strerror(status));
    return amb_close(conn, AMB_SEC) != AMB_OK || status != AMB_OK;
}
