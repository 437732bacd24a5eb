/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broker-ctl pub: messages come from files, from a generator, or from standard input. A file is
 * read, not mapped: one that shrinks meanwhile must not kill this process.
 */
#include "tools/ctl/pub.h"

#include "tools/common/units.h"
#include "tools/ctl/connect.h"
#include "tools/ctl/outbox.h"
#include "tools/ctl/progress.h"
#include "wire/base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define PROPS_MAX 16u
#define READ_STEP ((size_t)1 << 16)
#define MESSAGE_MAX UINT32_MAX /* no broker takes a larger one: not worth reading */
#define PACE_MAX_NS 1e18

enum {
    OPT_SIZE = 256,
    OPT_RATE,
    OPT_WAIT,
    OPT_PROP,
    OPT_TTL,
    OPT_STATS,
    OPT_HOLD,
    OPT_KEY,
    OPT_NAME,
    OPT_CONFIRM,
    OPT_EXPECT,
    OPT_PRIORITY,
    OPT_RECONNECT,
};

/* The broker's word on the messages. */
struct told {
    uint64_t messages, delivered, dropped;
    uint32_t matched;
};

struct pub {
    struct amb_ctl *ctl;
    const char *topic;
    char **files; /* texts borrowed from argv */
    size_t file_count;
    uint64_t count, size; /* count: of generated messages, or how often the files are sent */
    bool has_count, has_size, has_name, wants_stats, wants_hold;
    int64_t ttl_ns; /* 0: for ever */
    const char *key, *name;
    enum amb_confirm confirm; /* DEFAULT: nothing is printed of it */
    enum amb_priority priority;
    uint64_t expect_seq; /* of the next message; 0: any */
    struct told told;
    double rate; /* messages a second, 0: as fast as they go */
    uint32_t wait_subscribers;
    struct amb_prop props[PROPS_MAX]; /* [0] is kept for the file's name */
    uint32_t prop_count;

    struct amb_outbox box;
    uint64_t sent_msgs, sent_bytes;
    int64_t first_ns, next_ns;
    struct amb_progress_bar bar;
};

static enum amb_exit fail(const struct pub *p, enum amb_status status)
{
    char what[300];
    (void)snprintf(what, sizeof(what), "publish %.255s", p->topic);
    if (status == AMB_ETIMEDOUT || status == AMB_EAGAIN) {
        /* EAGAIN: nothing of the time was left. */
        status = amb_ctl_stopped() ? AMB_ESTOPPED : AMB_ETIMEDOUT;
    }
    return amb_ctl_fail(p->ctl, what, status);
}

/* Sleeps until the next message is due under --rate. */
static void pace(struct pub *p)
{
    if (p->rate <= 0) {
        return;
    }
    int64_t now_ns = amb_clock_monotonic_ns();
    if (p->next_ns == 0) {
        p->next_ns = now_ns;
    }
    while (p->next_ns > now_ns && !amb_ctl_stopped()) {
        int64_t wait_ns = p->next_ns - now_ns;
        /* Timers are not finer than this: above 1,000 a second messages leave in small groups. */
        if (wait_ns < AMB_MS) {
            break;
        }
        wait_ns = wait_ns < AMB_CTL_SLICE_NS ? wait_ns : AMB_CTL_SLICE_NS;
        struct timespec ts = {.tv_sec = (time_t)(wait_ns / AMB_SEC), .tv_nsec = wait_ns % AMB_SEC};
        (void)nanosleep(&ts, NULL);
        now_ns = amb_clock_monotonic_ns();
    }
    double step_ns = (double)AMB_SEC / p->rate;
    p->next_ns += (int64_t)(step_ns < PACE_MAX_NS ? step_ns : PACE_MAX_NS);
}

static void sent(struct pub *p, size_t len)
{
    p->sent_msgs++;
    p->sent_bytes += len;
    amb_progress_add(&p->bar, len);
}

/* Publishes what is in the slot taken last. */
static enum amb_status post(struct pub *p, const struct amb_outbox_slot *slot, const char *name)
{
    size_t len = slot->len;
    struct amb_out out = {
        .size = sizeof(out),
        .props = &p->props[1],
        .prop_count = p->prop_count - 1,
        .ttl_ns = p->ttl_ns,
        .key = p->key,
        .expect_seq = p->expect_seq,
    };
    if (name != NULL && !p->has_name) {
        p->props[0] = (struct amb_prop){.name = "name", .value = name, .len = strlen(name)};
        out.props = p->props;
        out.prop_count = p->prop_count;
    }
    pace(p);
    enum amb_status status = amb_outbox_post(&p->box, &out);
    if (status == AMB_OK) {
        p->expect_seq += p->expect_seq != 0;
        sent(p, len);
    }
    return status;
}

/* All of fd; hint: how much is expected. Says what failed. */
static enum amb_exit slot_read(struct amb_outbox_slot *slot, int fd, size_t hint, const char *shown)
{
    for (;;) {
        if (hint > MESSAGE_MAX || slot->len > MESSAGE_MAX) {
            amb_tool_error("%s: more than a message can have, %u bytes", shown, MESSAGE_MAX);
            return AMB_EXIT_DATA;
        }
        /* One byte more than expected, so that the end is seen without growing. */
        size_t want = slot->len <= hint ? hint + 1 : slot->len + slot->len / 2 + READ_STEP;
        want = want <= MESSAGE_MAX ? want : (size_t)MESSAGE_MAX + 1;
        if (!amb_outbox_reserve(slot, want)) {
            amb_tool_error("%s: no memory for %zu bytes", shown, want);
            return AMB_EXIT_SOFTWARE;
        }
        ssize_t n = read(fd, slot->data + slot->len, slot->cap - slot->len);
        if (n < 0 && errno == EINTR && !amb_ctl_stopped()) {
            continue;
        }
        if (n < 0) {
            amb_tool_error("%s: %s", shown, strerror(errno));
            return AMB_EXIT_DATA;
        }
        if (n == 0) {
            return AMB_EXIT_OK;
        }
        slot->len += (size_t)n;
    }
}

static enum amb_exit publish_fd(struct pub *p, int fd, size_t hint, const char *shown,
                                const char *name)
{
    struct amb_outbox_slot *slot;
    enum amb_status status = amb_outbox_take(&p->box, hint, &slot);
    if (status != AMB_OK) {
        return fail(p, status);
    }
    enum amb_exit code = slot_read(slot, fd, hint, shown);
    if (code != AMB_EXIT_OK) {
        return code;
    }
    status = post(p, slot, name);
    return status == AMB_OK ? AMB_EXIT_OK : fail(p, status);
}

static enum amb_exit publish_file(struct pub *p, const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) != 0) {
        amb_tool_error("%s: %s", path, strerror(errno));
        if (fd >= 0) {
            (void)close(fd);
        }
        return AMB_EXIT_DATA;
    }
    const char *slash = strrchr(path, '/');
    size_t hint = S_ISREG(st.st_mode) && st.st_size > 0 ? (size_t)st.st_size : 0;
    enum amb_exit code = publish_fd(p, fd, hint, path, slash != NULL ? slash + 1 : path);
    (void)close(fd);
    return code;
}

static enum amb_exit publish_files(struct pub *p)
{
    uint64_t rounds = p->has_count ? p->count : 1;
    enum amb_exit code = AMB_EXIT_OK;
    for (uint64_t r = 0; r < rounds && code == AMB_EXIT_OK; r++) {
        for (size_t i = 0; i < p->file_count && code == AMB_EXIT_OK; i++) {
            code = publish_file(p, p->files[i]);
        }
    }
    return code;
}

/* One generated message: copied by the library, or kept in the outbox where properties go along. */
static enum amb_status send_generated(struct pub *p, const uint8_t *data, size_t len)
{
    enum amb_status status;
    if (p->prop_count > 1 || p->ttl_ns != 0 || p->key != NULL || p->expect_seq != 0) {
        struct amb_outbox_slot *slot;
        status = amb_outbox_take(&p->box, len, &slot);
        if (status != AMB_OK) {
            return status;
        }
        if (!amb_outbox_reserve(slot, len + 1)) {
            return AMB_ENOMEM;
        }
        memcpy(slot->data, data, len);
        slot->len = len;
        return post(p, slot, NULL);
    }
    pace(p);
    do {
        status = amb_pub_send(p->box.pub, data, len, amb_ctl_slice_ns(p->ctl));
    } while (amb_ctl_again(p->ctl, status));
    if (status == AMB_OK) {
        sent(p, len);
    }
    return status;
}

/* The alphabet, again and again. Bytes that are there already are copied: that is fast for a GiB,
 * too. */
static void fill(uint8_t *data, size_t len)
{
    size_t done = len < 26 ? len : 26;
    for (size_t i = 0; i < done; i++) {
        data[i] = (uint8_t)('a' + i);
    }
    while (done < len) {
        size_t more = done < len - done ? done : len - done;
        memcpy(data + done, data, more);
        done += more;
    }
}

/* The first 8 bytes count the messages from 0, the others are a fixed pattern. */
static enum amb_exit publish_generated(struct pub *p)
{
    size_t len = (size_t)p->size;
    uint8_t *data = malloc(len + 1);
    if (data == NULL) {
        amb_tool_error("--size: no memory for %zu bytes", len);
        return AMB_EXIT_SOFTWARE;
    }
    fill(data, len);
    enum amb_status status = AMB_OK;
    for (uint64_t i = 0; i < p->count && status == AMB_OK; i++) {
        if (len >= sizeof(i)) {
            memcpy(data, &i, sizeof(i));
        }
        if (amb_ctl_stopped()) {
            status = AMB_ESTOPPED;
        } else if (amb_ctl_slice_ns(p->ctl) == 0) {
            /* A publisher that never has to wait ends in time, too. */
            status = AMB_ETIMEDOUT;
        } else {
            status = send_generated(p, data, len);
        }
    }
    free(data);
    return status == AMB_OK ? AMB_EXIT_OK : fail(p, status);
}

static uint64_t expected_bytes(const struct pub *p)
{
    if (p->file_count == 0) {
        return p->has_count || p->has_size ? p->count * p->size : 0;
    }
    uint64_t sum = 0;
    for (size_t i = 0; i < p->file_count; i++) {
        struct stat st;
        if (stat(p->files[i], &st) == 0 && S_ISREG(st.st_mode)) {
            sum += (uint64_t)st.st_size;
        }
    }
    return sum * (p->has_count ? p->count : 1);
}

static enum amb_exit wait_for_subscribers(struct pub *p)
{
    if (p->wait_subscribers == 0) {
        return AMB_EXIT_OK;
    }
    enum amb_status status;
    do {
        status =
            amb_pub_wait_subscribers(p->box.pub, p->wait_subscribers, amb_ctl_slice_ns(p->ctl));
    } while (amb_ctl_again(p->ctl, status));
    if (status == AMB_OK) {
        return AMB_EXIT_OK;
    }
    if (status != AMB_ETIMEDOUT || amb_ctl_stopped()) {
        return fail(p, status);
    }
    struct amb_pub_info info = AMB_INIT(amb_pub_info);
    (void)amb_pub_stat(p->box.pub, &info);
    amb_tool_error("publish %s: %u of %u subscribers after the time given", p->topic,
                   info.subscribers, p->wait_subscribers);
    return AMB_EXIT_TIMEOUT;
}

static void print_stats(const struct pub *p)
{
    struct amb_pub_info info = AMB_INIT(amb_pub_info);
    (void)amb_pub_stat(p->box.pub, &info);
    double seconds = (double)(amb_clock_monotonic_ns() - p->first_ns) / (double)AMB_SEC;
    json_t *stats =
        json_pack("{s:I, s:I, s:f, s:f, s:f, s:I, s:I, s:i}", "messages", (json_int_t)p->sent_msgs,
                  "bytes", (json_int_t)p->sent_bytes, "seconds", seconds, "messages_per_s",
                  (double)p->sent_msgs / seconds, "gb_per_s", (double)p->sent_bytes / seconds / 1e9,
                  "settled", (json_int_t)info.settled, "failed", (json_int_t)info.failed,
                  "subscribers", (int)info.subscribers);
    amb_ctl_print(p->ctl, stats);
}

static void on_settled(struct amb_pub *pub, const struct amb_settled *settled, void *arg)
{
    struct told *told = arg;
    (void)pub;
    if (settled->status == AMB_OK) {
        told->messages += settled->last - settled->first + 1;
        told->matched = settled->matched;
        told->delivered += settled->delivered;
        told->dropped += settled->dropped;
    }
}

/* Everything is settled; amb_poll tells the outcome. */
static void print_confirmed(struct pub *p)
{
    struct amb_pub_info info = AMB_INIT(amb_pub_info);
    (void)amb_pub_stat(p->box.pub, &info);
    while (p->told.messages + info.failed < p->sent_msgs &&
           amb_poll(p->ctl->conn, AMB_SEC) == AMB_OK) {
    }
    json_t *told = json_pack("{s:I, s:I}", "confirmed", (json_int_t)p->told.messages, "matched",
                             (json_int_t)p->told.matched);
    if (p->confirm == AMB_CONFIRM_DELIVERED) {
        (void)json_object_set_new(told, "delivered", json_integer((json_int_t)p->told.delivered));
        (void)json_object_set_new(told, "dropped", json_integer((json_int_t)p->told.dropped));
    }
    amb_ctl_print(p->ctl, told);
}

static enum amb_exit publish_all(struct pub *p)
{
    enum amb_exit code;
    amb_progress_start(&p->bar, expected_bytes(p));
    if (p->file_count > 0) {
        code = publish_files(p);
    } else if (p->has_count || p->has_size) {
        code = publish_generated(p);
    } else {
        code = publish_fd(p, STDIN_FILENO, 0, "standard input", NULL);
    }
    amb_progress_end(&p->bar);
    if (code == AMB_EXIT_OK) {
        enum amb_status status = amb_outbox_settle(&p->box, 0);
        code = status == AMB_OK ? AMB_EXIT_OK : fail(p, status);
    }
    return code;
}

static enum amb_exit publish(struct pub *p)
{
    p->box.ctl = p->ctl;
    struct amb_pub_options options = {
        .size = sizeof(options),
        .name = p->name,
        .confirm = p->confirm,
        .priority = p->priority,
        .arg = &p->told,
    };
    options.on_settled = p->confirm == AMB_CONFIRM_DEFAULT ? NULL : on_settled;
    enum amb_status status = amb_pub_open(p->ctl->conn, p->topic, &options, &p->box.pub);
    if (status != AMB_OK) {
        return fail(p, status);
    }
    enum amb_exit code = wait_for_subscribers(p);
    if (code == AMB_EXIT_OK) {
        p->first_ns = amb_clock_monotonic_ns();
        code = publish_all(p);
        if (code == AMB_EXIT_OK && p->confirm != AMB_CONFIRM_DEFAULT) {
            print_confirmed(p);
        }
        if (p->wants_stats) {
            print_stats(p);
        }
    }
    if (code == AMB_EXIT_OK && p->wants_hold) {
        code = amb_ctl_hold(p->ctl, p->file_count > 0 || p->has_count || p->has_size);
    }
    /* After a failure nothing is waited for: messages that are still lent come back here. */
    (void)amb_pub_close(p->box.pub, code == AMB_EXIT_OK ? AMB_SEC : AMB_NOWAIT);
    amb_outbox_fini(&p->box);
    return code;
}

static bool add_prop(struct pub *p, char *text)
{
    char *equals = strchr(text, '=');
    if (equals == NULL || equals == text || p->prop_count == PROPS_MAX) {
        return false;
    }
    *equals = '\0';
    p->has_name = p->has_name || strcmp(text, "name") == 0;
    p->props[p->prop_count++] =
        (struct amb_prop){.name = text, .value = equals + 1, .len = strlen(equals + 1)};
    return true;
}

static enum amb_exit take_confirm(struct pub *p, const char *value)
{
    if (strcmp(value, "accepted") == 0) {
        p->confirm = AMB_CONFIRM_ACCEPTED;
    } else if (strcmp(value, "delivered") == 0) {
        p->confirm = AMB_CONFIRM_DELIVERED;
    } else {
        return amb_ctl_bad("--confirm", value, "accepted or delivered");
    }
    return AMB_EXIT_OK;
}

static enum amb_exit take_priority(struct pub *p, const char *value)
{
    if (strcmp(value, "high") == 0) {
        p->priority = AMB_PRIORITY_HIGH;
    } else if (strcmp(value, "low") == 0) {
        p->priority = AMB_PRIORITY_LOW;
    } else if (strcmp(value, "normal") == 0) {
        p->priority = AMB_PRIORITY_NORMAL;
    } else {
        return amb_ctl_bad("--priority", value, "high, normal or low");
    }
    return AMB_EXIT_OK;
}

static enum amb_exit take_option(struct pub *p, int option, char *value)
{
    uint64_t number;
    switch (option) {
    case OPT_PRIORITY:
        return take_priority(p, value);
    case OPT_KEY:
        p->key = value;
        return AMB_EXIT_OK;
    case OPT_NAME: /* Sending again what a lost session leaves open needs another session. */
        p->name = value;
        p->ctl->stays = true;
        return AMB_EXIT_OK;
    case OPT_RECONNECT:
        p->ctl->stays = true;
        return AMB_EXIT_OK;
    case OPT_CONFIRM:
        return take_confirm(p, value);
    case OPT_EXPECT:
        return amb_units_count(value, UINT64_MAX / 2, &p->expect_seq) && p->expect_seq != 0
                   ? AMB_EXIT_OK
                   : amb_ctl_bad("--expect-seq", value, "a sequence, from 1");
    case 'f':
        p->files[p->file_count++] = value;
        return AMB_EXIT_OK;
    case 'c':
        p->has_count = amb_units_count(value, UINT64_MAX / 2, &p->count);
        return p->has_count ? AMB_EXIT_OK : amb_ctl_bad("--count", value, "a number of messages");
    case OPT_SIZE:
        p->has_size = amb_units_size(value, &p->size) && p->size <= MESSAGE_MAX;
        return p->has_size ? AMB_EXIT_OK
                           : amb_ctl_bad("--size", value, "bytes below 4 GiB, as 64k or 1MiB");
    case OPT_RATE:
        return amb_units_rate(value, &p->rate)
                   ? AMB_EXIT_OK
                   : amb_ctl_bad("--rate", value, "messages a second, above 0");
    case OPT_WAIT:
        if (!amb_units_count(value, UINT32_MAX, &number)) {
            return amb_ctl_bad("--wait-subscribers", value, "a number of subscriptions");
        }
        p->wait_subscribers = (uint32_t)number;
        return AMB_EXIT_OK;
    case OPT_PROP:
        return add_prop(p, value) ? AMB_EXIT_OK
                                  : amb_ctl_bad("--prop", value, "NAME=VALUE, at most 15 times");
    case OPT_TTL:
        return amb_units_duration(value, &p->ttl_ns) && p->ttl_ns > 0
                   ? AMB_EXIT_OK
                   : amb_ctl_bad("--ttl", value, "a time, as 10 or 500ms");
    case OPT_STATS:
        p->wants_stats = true;
        return AMB_EXIT_OK;
    case OPT_HOLD:
        p->wants_hold = true;
        return AMB_EXIT_OK;
    default:
        return amb_ctl_option(p->ctl, option, value) ? AMB_EXIT_OK : AMB_EXIT_USAGE;
    }
}

static enum amb_exit check_arguments(struct pub *p, int argc, char **argv)
{
    if (optind + 1 != argc) {
        amb_tool_error("pub takes one topic");
        return AMB_EXIT_USAGE;
    }
    p->topic = argv[optind];
    if (p->has_size && p->file_count > 0) {
        amb_tool_error("--size goes without --file");
        return AMB_EXIT_USAGE;
    }
    if (p->has_size && !p->has_count) {
        p->count = 1;
    }
    if (p->has_count && !p->has_size) {
        p->size = 64;
    }
    return AMB_EXIT_OK;
}

enum amb_exit amb_ctl_pub(struct amb_ctl *ctl, int argc, char **argv)
{
    static const struct option options[] = {
        AMB_CTL_OPTIONS,
        {"file", required_argument, NULL, 'f'},
        {"count", required_argument, NULL, 'c'},
        {"size", required_argument, NULL, OPT_SIZE},
        {"rate", required_argument, NULL, OPT_RATE},
        {"wait-subscribers", required_argument, NULL, OPT_WAIT},
        {"prop", required_argument, NULL, OPT_PROP},
        {"ttl", required_argument, NULL, OPT_TTL},
        {"key", required_argument, NULL, OPT_KEY},
        {"name", required_argument, NULL, OPT_NAME},
        {"confirm", required_argument, NULL, OPT_CONFIRM},
        {"expect-seq", required_argument, NULL, OPT_EXPECT},
        {"priority", required_argument, NULL, OPT_PRIORITY},
        {"reconnect", no_argument, NULL, OPT_RECONNECT},
        {"stats", no_argument, NULL, OPT_STATS},
        {"hold", no_argument, NULL, OPT_HOLD},
        {NULL, 0, NULL, 0},
    };
    struct pub p = {.ctl = ctl, .prop_count = 1};
    p.files = calloc((size_t)argc, sizeof(*p.files));
    if (p.files == NULL) {
        amb_tool_error("pub: no memory");
        return AMB_EXIT_SOFTWARE;
    }
    enum amb_exit code = AMB_EXIT_OK;
    int option;
    while (code == AMB_EXIT_OK &&
           (option = getopt_long(argc, argv, "o:f:c:h", options, NULL)) != -1) {
        code = take_option(&p, option, optarg);
    }
    if (code == AMB_EXIT_OK && !ctl->is_help_wanted) {
        code = check_arguments(&p, argc, argv);
        if (code == AMB_EXIT_OK) {
            code = amb_ctl_connect(ctl);
        }
        if (code == AMB_EXIT_OK) {
            code = publish(&p);
        }
        code = amb_ctl_close(ctl, code);
    }
    free(p.files);
    return code;
}
