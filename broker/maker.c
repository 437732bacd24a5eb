/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/maker.h"

#include "broker/bufpool.h"
#include "broker/segment.h"
#include "broker/shard.h"
#include "wire/base/log.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>

struct making {
    struct amb_mail mail;
    struct amb_bufpool *pool;
    uint64_t bytes;
    bool is_dedicated;
    struct amb_segment *segment; /* NULL: could not be made */
};

struct unmaking {
    struct amb_mail mail;
    struct amb_membudget *budget;
    struct amb_segment *segment;
};

/* On the worker. */
static void making_came_back(struct amb_mail *mail, void *owner)
{
    struct making *making = AMB_CONTAINER_OF(mail, struct making, mail);
    (void)owner;
    if (making->segment != NULL) {
        amb_bufpool_adopt(making->pool, making->segment, making->is_dedicated);
    } else {
        amb_bufpool_not_made(making->pool, making->bytes, making->is_dedicated);
    }
    free(making);
}

/* On the maker. Of pool and shard it reads only what is set once. */
static void making_arrived(struct amb_mail *mail, void *owner)
{
    (void)owner;
    struct making *making = AMB_CONTAINER_OF(mail, struct making, mail);
    const struct amb_bufpool_options *options = &making->pool->options;
    struct amb_shard *shard = options->arg;
    enum amb_status status =
        amb_segment_create(amb_membudget_next_id(options->budget), making->bytes, &making->segment);
    if (status == AMB_OK && options->on_create != NULL) {
        status = options->on_create(options->arg, making->segment);
    }
    if (status != AMB_OK) {
        amb_warn("a segment of %" PRIu64 " bytes cannot be made: %s", making->bytes,
                 amb_status_text(status));
        amb_segment_destroy(&making->segment);
    }
    amb_mail_post(&shard->inbox, &making->mail, making_came_back);
}

bool amb_maker_make(struct amb_maker *maker, struct amb_bufpool *pool, uint64_t bytes,
                    bool is_dedicated)
{
    struct making *making = calloc(1, sizeof(*making));
    if (making == NULL) {
        return false;
    }
    making->pool = pool;
    making->bytes = bytes;
    making->is_dedicated = is_dedicated;
    amb_mail_post(&maker->inbox, &making->mail, making_arrived);
    return true;
}

static void segment_unmake(struct amb_membudget *budget, struct amb_segment *segment)
{
    uint64_t bytes = segment->size;
    amb_segment_destroy(&segment);
    amb_membudget_give(budget, bytes);
}

static void unmaking_arrived(struct amb_mail *mail, void *owner)
{
    (void)owner;
    struct unmaking *unmaking = AMB_CONTAINER_OF(mail, struct unmaking, mail);
    segment_unmake(unmaking->budget, unmaking->segment);
    free(unmaking);
}

void amb_maker_unmake(struct amb_maker *maker, struct amb_membudget *budget,
                      struct amb_segment *segment)
{
    struct unmaking *unmaking = maker == NULL ? NULL : malloc(sizeof(*unmaking));
    if (unmaking == NULL) {
        segment_unmake(budget, segment);
        return;
    }
    unmaking->budget = budget;
    unmaking->segment = segment;
    amb_mail_post(&maker->inbox, &unmaking->mail, unmaking_arrived);
}

static void *maker_main(void *arg)
{
    struct amb_maker *maker = arg;
    (void)pthread_setname_np(pthread_self(), "amb-maker");
    while (!maker->is_stopping) {
        struct pollfd bell = {.fd = maker->inbox.bell, .events = POLLIN};
        bool rang = amb_inbox_arm(&maker->inbox) && poll(&bell, 1, -1) > 0;
        amb_inbox_disarm(&maker->inbox, rang);
        (void)amb_inbox_run(&maker->inbox);
    }
    (void)amb_inbox_run(&maker->inbox); /* Work that was cut in parts: nobody goes on with it. */
    return NULL;
}

enum amb_status amb_maker_start(struct amb_maker *maker)
{
    enum amb_status status = amb_inbox_init(&maker->inbox, maker);
    if (status != AMB_OK) {
        return status;
    }
    int error = pthread_create(&maker->thread, NULL, maker_main, maker);
    if (error != 0) {
        amb_inbox_fini(&maker->inbox);
        return amb_status_from_errno(error);
    }
    maker->is_running = true;
    return AMB_OK;
}

static void stop_arrived(struct amb_mail *mail, void *owner)
{
    (void)mail;
    ((struct amb_maker *)owner)->is_stopping = true;
}

void amb_maker_stop(struct amb_maker *maker)
{
    if (!maker->is_running) {
        return;
    }
    amb_mail_post(&maker->inbox, &maker->stop, stop_arrived);
    (void)pthread_join(maker->thread, NULL);
    maker->is_running = false;
    amb_inbox_fini(&maker->inbox);
}
