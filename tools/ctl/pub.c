/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broker-ctl pub: messages come from files, from the command line, from a generator, or from
 * standard input. A file is read, not mapped: one that shrinks meanwhile must not kill this
 * process.
 */
#include "tools/ctl/pub.h"

#include "tools/cli/limits.h"
#include "tools/common/line_source.h"
#include "tools/ctl/connect.h"
#include "tools/ctl/outbox.h"
#include "tools/ctl/progress.h"
#include "wire/base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define PROPS_MAX (AMB_PUB_PROPS_MAX + 1) /* [0] is kept for the file's name */
#define READ_STEP ((size_t)1 << 16)
#define MESSAGE_MAX AMB_PUB_SIZE_MAX /* no broker takes a larger one: not worth reading */
#define PACE_MAX_NS 1e18

/* The broker's word on the messages. */
struct told {
    uint64_t messages, delivered, dropped;
    uint32_t matched;
};

enum source {
    SOURCE_INPUT, /* all of standard input */
    SOURCE_LINES, /* of standard input */
    SOURCE_FILES,
    SOURCE_TEXT,
    SOURCE_GENERATED,
};

struct pub {
    struct amb_ctl *ctl;
    const char *topic, *text;
    enum source source;
    uint64_t count; /* how often each file or message is sent */
    uint64_t size;  /* of a text, or of a generated message */
    bool has_name, wants_stats, wants_hold;
    int64_t ttl_ns; /* 0: for ever */
    const char *key, *name;
    enum amb_confirm confirm; /* DEFAULT: nothing is printed of it */
    enum amb_priority priority;
    uint64_t expect_seq; /* of the next message; 0: any */
    struct told told;
    double rate; /* messages a second, 0: as fast as they go */
    uint32_t wait_subscribers;
    struct amb_prop props[PROPS_MAX];
    char *names[PROPS_MAX]; /* of properties, copies */
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

/* Before each message of a source that never has to wait: has a signal come, or the end? */
static enum amb_status may_go_on(const struct pub *p)
{
    if (amb_ctl_stopped()) {
        return AMB_ESTOPPED;
    }
    return amb_ctl_slice_ns(p->ctl) == 0 ? AMB_ETIMEDOUT : AMB_OK;
}

/* Until there is something to read, which may be an error or the end. */
static enum amb_status await_bytes(const struct pub *p, int fd)
{
    struct pollfd pfd = {.fd = fd, .events = POLLIN};
    enum amb_status status;
    int ready = 0;
    while ((status = may_go_on(p)) == AMB_OK && ready == 0) {
        ready = poll(&pfd, 1, (int)(amb_ctl_slice_ns(p->ctl) / AMB_MS) + 1);
        ready = ready < 0 && errno == EINTR ? 0 : ready;
    }
    return status;
}

/* All of fd; hint: how much is expected. Says what failed. */
static enum amb_exit slot_read(const struct pub *p, struct amb_outbox_slot *slot, int fd,
                               size_t hint, const char *shown)
{
    for (;;) {
        enum amb_status status = await_bytes(p, fd);
        if (status != AMB_OK) {
            return fail(p, status);
        }
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
        if (n < 0 && (errno == EINTR || errno == EAGAIN)) {
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
    enum amb_exit code = slot_read(p, slot, fd, hint, shown);
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
    enum amb_exit code = AMB_EXIT_OK;
    for (uint64_t r = 0; r < p->count && code == AMB_EXIT_OK; r++) {
        size_t at = 0;
        const char *path;
        while (code == AMB_EXIT_OK && (path = amb_cli_next(p->ctl->line, "file", &at)) != NULL) {
            code = publish_file(p, path);
        }
    }
    return code;
}

/* A message of other memory: copied by the library, or kept in the outbox where properties go
 * along. */
static enum amb_status send_copy(struct pub *p, const uint8_t *data, size_t len)
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

/* The same message `count` times. number: the part of it that counts them from 0, or NULL. */
static enum amb_exit publish_copies(struct pub *p, const uint8_t *data, uint8_t *number)
{
    enum amb_status status = AMB_OK;
    for (uint64_t i = 0; i < p->count && status == AMB_OK; i++) {
        if (number != NULL) {
            memcpy(number, &i, sizeof(i));
        }
        status = may_go_on(p);
        if (status == AMB_OK) {
            status = send_copy(p, data, (size_t)p->size);
        }
    }
    return status == AMB_OK ? AMB_EXIT_OK : fail(p, status);
}

/* The first 8 bytes count the messages, the others are a fixed pattern. */
static enum amb_exit publish_generated(struct pub *p)
{
    size_t len = (size_t)p->size;
    uint8_t *data = malloc(len + 1);
    if (data == NULL) {
        amb_tool_error("--size: no memory for %zu bytes", len);
        return AMB_EXIT_SOFTWARE;
    }
    fill(data, len);
    enum amb_exit code = publish_copies(p, data, len >= sizeof(uint64_t) ? data : NULL);
    free(data);
    return code;
}

/* A person at a terminal may not know that this program waits for words. */
static void tell_of_terminal(const char *how)
{
    if (isatty(STDIN_FILENO) == 1) {
        amb_tool_error("standard input: %s, to its end (Ctrl-D)", how);
    }
}

/* Says why there is no further line. */
static enum amb_exit no_line(enum amb_line_is is)
{
    if (is == AMB_LINE_END) {
        return AMB_EXIT_OK;
    }
    if (is == AMB_LINE_TOO_LONG) {
        amb_tool_error("standard input: a line of more than a message can have, %u bytes",
                       MESSAGE_MAX);
    } else {
        amb_tool_error("standard input: %s", strerror(errno));
    }
    return AMB_EXIT_DATA;
}

static enum amb_exit publish_lines(struct pub *p)
{
    struct amb_line_source source;
    enum amb_status status = AMB_OK;
    enum amb_exit code = AMB_EXIT_OK;
    amb_line_source_init(&source, STDIN_FILENO, MESSAGE_MAX);
    tell_of_terminal("each line is a message");
    for (;;) {
        const uint8_t *line;
        size_t len;
        status = may_go_on(p);
        if (status != AMB_OK) {
            break;
        }
        int wait_ms = (int)(amb_ctl_slice_ns(p->ctl) / AMB_MS);
        enum amb_line_is is = amb_line_source_next(&source, wait_ms, &line, &len);
        if (is == AMB_LINE_HERE) {
            status = send_copy(p, line, len);
        } else if (is != AMB_LINE_NOT_YET) {
            code = no_line(is);
            break;
        }
        if (status != AMB_OK) {
            break;
        }
    }
    amb_line_source_fini(&source);
    return status == AMB_OK ? code : fail(p, status);
}

static uint64_t expected_bytes(const struct pub *p)
{
    if (p->source == SOURCE_TEXT || p->source == SOURCE_GENERATED) {
        return p->count * p->size;
    }
    uint64_t sum = 0;
    size_t at = 0;
    const char *path;
    while ((path = amb_cli_next(p->ctl->line, "file", &at)) != NULL) {
        struct stat st;
        if (stat(path, &st) == 0 && S_ISREG(st.st_mode)) {
            sum += (uint64_t)st.st_size;
        }
    }
    return sum * p->count;
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
    enum amb_exit code = AMB_EXIT_OK;
    amb_progress_start(&p->bar, expected_bytes(p));
    switch (p->source) {
    case SOURCE_FILES:
        code = publish_files(p);
        break;
    case SOURCE_GENERATED:
        code = publish_generated(p);
        break;
    case SOURCE_TEXT:
        code = publish_copies(p, (const uint8_t *)p->text, NULL);
        break;
    case SOURCE_LINES:
        code = publish_lines(p);
        break;
    case SOURCE_INPUT:
        tell_of_terminal("all of it is one message");
        code = publish_fd(p, STDIN_FILENO, 0, "standard input", NULL);
        break;
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
        code = amb_ctl_hold(p->ctl, p->source != SOURCE_INPUT && p->source != SOURCE_LINES);
    }
    /* After a failure nothing is waited for: messages that are still lent come back here. */
    (void)amb_pub_close(p->box.pub, code == AMB_EXIT_OK ? AMB_SEC : AMB_NOWAIT);
    amb_outbox_fini(&p->box);
    return code;
}

/* The form NAME=VALUE has been checked. False: no memory. */
static bool add_prop(struct pub *p, const char *text)
{
    const char *equals = strchr(text, '=');
    char *name = strndup(text, (size_t)(equals - text));
    if (name == NULL) {
        return false;
    }
    p->has_name = p->has_name || strcmp(name, "name") == 0;
    p->names[p->prop_count] = name;
    p->props[p->prop_count++] =
        (struct amb_prop){.name = name, .value = equals + 1, .len = strlen(equals + 1)};
    return true;
}

static bool add_props(struct pub *p)
{
    size_t at = 0;
    const char *text;
    while ((text = amb_cli_next(p->ctl->line, "prop", &at)) != NULL) {
        if (!add_prop(p, text)) {
            amb_tool_error("pub --prop: no memory");
            return false;
        }
    }
    return true;
}

static void take_options(struct pub *p)
{
    const struct amb_cli_line *line = p->ctl->line;
    p->topic = line->args[0];
    p->text = line->arg_count > 1 ? line->args[1] : amb_cli_text(line, "text");
    p->source = amb_cli_has(line, "file")                                 ? SOURCE_FILES
                : p->text != NULL                                         ? SOURCE_TEXT
                : amb_cli_has(line, "lines")                              ? SOURCE_LINES
                : amb_cli_has(line, "count") || amb_cli_has(line, "size") ? SOURCE_GENERATED
                                                                          : SOURCE_INPUT;
    p->count = amb_cli_number(line, "count", 1);
    p->size = p->source == SOURCE_TEXT ? strlen(p->text) : amb_cli_number(line, "size", 64);
    p->rate = amb_cli_rate(line, "rate", 0);
    p->wait_subscribers = (uint32_t)amb_cli_number(line, "wait-subscribers", 0);
    p->key = amb_cli_text(line, "key");
    p->confirm = (enum amb_confirm)amb_cli_word(line, "confirm", AMB_CONFIRM_DEFAULT);
    p->name = amb_cli_text(line, "name");
    p->priority = (enum amb_priority)amb_cli_word(line, "priority", AMB_PRIORITY_NORMAL);
    p->expect_seq = amb_cli_number(line, "expect-seq", 0);
    p->ttl_ns = amb_cli_ns(line, "ttl", 0);
    p->wants_stats = amb_cli_has(line, "stats");
    p->wants_hold = amb_cli_has(line, "hold");
    /* Sending again what a lost session leaves open needs another session. */
    p->ctl->stays = p->name != NULL || amb_cli_has(line, "reconnect");
}

/* Is the argument TEXT the only source? Else it has been said. */
static bool is_text_alone(const struct amb_cli_line *line)
{
    static const char *const others[] = {"text", "lines", "file", "size"};
    for (size_t i = 0; line->arg_count > 1 && i < sizeof(others) / sizeof(others[0]); i++) {
        if (amb_cli_has(line, others[i])) {
            amb_tool_error("pub TEXT: does not go with --%s", others[i]);
            return false;
        }
    }
    return true;
}

enum amb_exit amb_ctl_pub(struct amb_ctl *ctl)
{
    struct pub p = {.ctl = ctl, .prop_count = 1};
    if (!is_text_alone(ctl->line)) {
        return AMB_EXIT_USAGE;
    }
    take_options(&p);
    enum amb_exit code = add_props(&p) ? amb_ctl_connect(ctl) : AMB_EXIT_SOFTWARE;
    if (code == AMB_EXIT_OK) {
        code = publish(&p);
    }
    code = amb_ctl_close(ctl, code);
    for (uint32_t i = 0; i < p.prop_count; i++) {
        free(p.names[i]);
    }
    return code;
}
