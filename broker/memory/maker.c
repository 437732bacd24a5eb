/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/memory/maker.h"

#include "broker/memory/bufpool.h"
#include "broker/memory/limbo.h"
#include "broker/memory/segment.h"
#include "wire/base/assert.h"
#include "wire/base/clock.h"
#include "wire/base/log.h"
#include "wire/base/numa.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>

/* So long whoever finds limbo full of what may come back waits for the next try. */
#define WAIT_NS (5 * AMB_NS_PER_MS)

struct making {
    struct amb_mail mail;
    struct amb_maker_wait wait;
    struct amb_bufpool *pool;
    uint64_t bytes;
    bool is_dedicated;
    int node;                    /* of the worker */
    struct amb_segment *segment; /* NULL: could not be made */
};

enum unmade {
    UNMADE_NOTHING,
    UNMADE_SEGMENT,
    UNMADE_MAIL
};

/* The first one of the line leaves it, on any thread. One at a time: a mail goes when all that is
 * before it is unmapped. */
static enum unmade unmake_first(struct amb_maker_line *line)
{
    (void)pthread_mutex_lock(&line->lock);
    while (line->is_unmapping) {
        (void)pthread_cond_wait(&line->unmapped, &line->lock);
    }
    struct amb_list_node *node = amb_list_pop_front(&line->unmaking);
    struct amb_unmaking *first =
        node == NULL ? NULL : AMB_CONTAINER_OF(node, struct amb_unmaking, node);
    bool is_segment = first != NULL && first->segment != NULL;
    line->is_unmapping = is_segment;
    (void)pthread_mutex_unlock(&line->lock);
    if (first == NULL) {
        return UNMADE_NOTHING;
    }
    if (!is_segment) {
        amb_mail_post(first->to, first->mail, first->fn);
        return UNMADE_MAIL;
    }
    amb_limbo_drop(first->budget, first->segment);
    free(first);
    (void)pthread_mutex_lock(&line->lock);
    line->is_unmapping = false;
    line->done++;
    (void)atomic_fetch_sub_explicit(&line->segments, 1, memory_order_relaxed);
    (void)pthread_cond_broadcast(&line->unmapped);
    (void)pthread_mutex_unlock(&line->lock);
    return UNMADE_SEGMENT;
}

static void unmake_all(struct amb_maker *maker)
{
    while (unmake_first(&maker->line) != UNMADE_NOTHING) {
    }
}

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

/* Between parts of a segment that is made. */
static void making_pauses(void *arg)
{
    unmake_all(arg);
}

/* On the maker. Of the pool it reads only what is set once. */
static void making_arrived(struct amb_mail *mail, void *owner)
{
    struct making *making = AMB_CONTAINER_OF(mail, struct making, mail);
    const struct amb_bufpool_options *options = &making->pool->options;
    const struct amb_segment_pause pause = {making_pauses, owner};
    amb_maker_near(owner, making->node);
    enum amb_status status = amb_segment_create_in_parts(amb_membudget_next_id(options->budget),
                                                         making->bytes, &pause, &making->segment);
    if (status == AMB_OK && options->on_create != NULL) {
        status = options->on_create(options->arg, making->segment);
    }
    if (status != AMB_OK) {
        amb_warn("a segment of %" PRIu64 " bytes cannot be made: %s", making->bytes,
                 amb_status_text(status));
        amb_segment_destroy(&making->segment);
        /* A pool that wants it asks again at once. */
        making->wait =
            (struct amb_maker_wait){.mail = mail, .to = options->inbox, .fn = making_came_back};
        amb_maker_wait(owner, &making->wait);
        return;
    }
    amb_mail_post(options->inbox, mail, making_came_back);
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
    making->node = amb_numa_here();
    amb_mail_post(&maker->inbox, &making->mail, making_arrived);
    return true;
}

/* The maker looks at the line when its mail is done. */
static void line_woken(struct amb_mail *mail, void *owner)
{
    (void)owner;
    atomic_flag_clear(&AMB_CONTAINER_OF(mail, struct amb_maker_line, wake)->is_waking);
}

static void line_enter(struct amb_maker *maker, struct amb_unmaking *unmaking)
{
    struct amb_maker_line *line = &maker->line;
    amb_list_init(&unmaking->node);
    (void)pthread_mutex_lock(&line->lock);
    amb_list_push_back(&line->unmaking, &unmaking->node);
    (void)pthread_mutex_unlock(&line->lock);
    if (!atomic_flag_test_and_set(&line->is_waking)) {
        amb_mail_post(&maker->inbox, &line->wake, line_woken);
    }
}

void amb_maker_unmake(struct amb_maker *maker, struct amb_membudget *budget,
                      struct amb_segment *segment)
{
    struct amb_unmaking *unmaking = maker == NULL ? NULL : malloc(sizeof(*unmaking));
    if (unmaking == NULL) {
        amb_limbo_drop(budget, segment);
        return;
    }
    *unmaking = (struct amb_unmaking){.budget = budget, .segment = segment};
    (void)atomic_fetch_add_explicit(&maker->line.segments, 1, memory_order_relaxed);
    line_enter(maker, unmaking);
}

void amb_maker_after(struct amb_maker *maker, struct amb_unmaking *after)
{
    after->segment = NULL;
    line_enter(maker, after);
}

/* Somebody is unmapping a segment: until it is done. False: nobody is. */
static bool line_await(struct amb_maker_line *line)
{
    (void)pthread_mutex_lock(&line->lock);
    bool is_unmapping = line->is_unmapping;
    for (uint64_t done = line->done; is_unmapping && line->done == done;) {
        (void)pthread_cond_wait(&line->unmapped, &line->lock);
    }
    (void)pthread_mutex_unlock(&line->lock);
    return is_unmapping;
}

bool amb_maker_help(struct amb_maker *maker)
{
    if (maker == NULL || atomic_load_explicit(&maker->line.segments, memory_order_relaxed) == 0) {
        return false;
    }
    if (line_await(&maker->line)) {
        return true;
    }
    enum unmade unmade;
    do {
        unmade = unmake_first(&maker->line);
    } while (unmade == UNMADE_MAIL);
    return unmade == UNMADE_SEGMENT;
}

void amb_maker_near(struct amb_maker *maker, int node)
{
    if (node != maker->node) {
        (void)maker->prefer(node); /* False: the pages lie where the maker runs. */
        maker->node = node;
    }
}

void amb_maker_wait(struct amb_maker *maker, struct amb_maker_wait *wait)
{
    wait->due_ns = amb_clock_monotonic_ns() + WAIT_NS;
    amb_list_init(&wait->node);
    amb_list_push_back(&maker->waiting, &wait->node);
}

/* Posts what is due. In how many milliseconds the next is; -1: nobody waits. */
static int maker_wake(struct amb_maker *maker, int64_t now_ns)
{
    while (!amb_list_is_empty(&maker->waiting)) {
        struct amb_maker_wait *wait =
            AMB_CONTAINER_OF(maker->waiting.next, struct amb_maker_wait, node);
        if (wait->due_ns > now_ns && !maker->is_stopping) {
            return (int)((wait->due_ns - now_ns) / AMB_NS_PER_MS) + 1;
        }
        amb_list_remove(&wait->node);
        amb_mail_post(wait->to, wait->mail, wait->fn);
    }
    return -1;
}

/* One round of the maker. Returns how long it may sleep, in milliseconds; -1: until there is mail.
 */
static int maker_look(struct amb_maker *maker)
{
    int64_t now_ns = amb_clock_monotonic_ns();
    int look_ms = maker->budget == NULL ? -1 : amb_limbo_look(maker->budget, now_ns);
    int wait_ms = maker_wake(maker, now_ns);
    return look_ms < 0 || (wait_ms >= 0 && wait_ms < look_ms) ? wait_ms : look_ms;
}

static void *maker_main(void *arg)
{
    struct amb_maker *maker = arg;
    (void)pthread_setname_np(pthread_self(), "amb-maker");
    while (!maker->is_stopping) {
        struct pollfd bell = {.fd = maker->inbox.bell, .events = POLLIN};
        int ms = maker_look(maker);
        bool rang = amb_inbox_arm(&maker->inbox) && poll(&bell, 1, ms) > 0;
        amb_inbox_disarm(&maker->inbox, rang);
        amb_maker_work(maker);
    }
    amb_maker_work(maker); /* Work that was cut in parts: nobody goes on with it. */
    (void)maker_wake(maker, INT64_MAX);
    return NULL;
}

void amb_maker_work(struct amb_maker *maker)
{
    unmake_all(maker);
    (void)amb_inbox_run(&maker->inbox);
    unmake_all(maker);
}

enum amb_status amb_maker_init(struct amb_maker *maker)
{
    amb_list_init(&maker->waiting);
    amb_list_init(&maker->line.unmaking);
    atomic_flag_clear(&maker->line.is_waking);
    maker->node = AMB_NUMA_ANY;
    maker->prefer = maker->prefer == NULL ? amb_numa_prefer : maker->prefer;
    enum amb_status status = amb_inbox_init(&maker->inbox, maker);
    if (status == AMB_OK) {
        int error = pthread_mutex_init(&maker->line.lock, NULL);
        amb_assert(error == 0);
        error = pthread_cond_init(&maker->line.unmapped, NULL);
        amb_assert(error == 0);
        maker->is_open = true;
    }
    return status;
}

static void maker_fini(struct amb_maker *maker)
{
    (void)pthread_mutex_destroy(&maker->line.lock);
    (void)pthread_cond_destroy(&maker->line.unmapped);
    amb_inbox_fini(&maker->inbox);
    maker->is_open = false;
}

enum amb_status amb_maker_start(struct amb_maker *maker)
{
    enum amb_status status = amb_maker_init(maker);
    if (status != AMB_OK) {
        return status;
    }
    int error = pthread_create(&maker->thread, NULL, maker_main, maker);
    if (error != 0) {
        maker_fini(maker);
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
    if (!maker->is_open) {
        return;
    }
    if (maker->is_running) {
        amb_mail_post(&maker->inbox, &maker->stop, stop_arrived);
        (void)pthread_join(maker->thread, NULL);
        maker->is_running = false;
    } else {
        amb_maker_work(maker);
    }
    maker_fini(maker);
}
