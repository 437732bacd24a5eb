/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broker-ctl sub: takes messages until a count, a time or a signal ends it.
 */
#include "tools/ctl/sub.h"

#include "tools/common/output.h"
#include "tools/common/units.h"
#include "tools/ctl/connect.h"
#include "tools/ctl/deliver.h"
#include "wire/base/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MANY 256u
#define POSITION_MAX 32768u /* bytes of a position */
#define BACKOFF_MAX 16u

enum {
    OPT_OUT_DIR = 256,
    OPT_SHA256,
    OPT_STATS,
    OPT_SLOW,
    OPT_SLOW_BLOCK,
    OPT_CREDIT,
    OPT_START,
    OPT_SAVE,
    OPT_COPY,
    OPT_HOLD,
    OPT_GROUP,
    OPT_DURABLE,
    OPT_ACK,
    OPT_ACK_WAIT,
    OPT_BACKOFF,
    OPT_MAX_DELIVER,
    OPT_NAK,
    OPT_TERM,
    OPT_FILTER,
    OPT_RATE,
    OPT_RATE_BYTES,
    OPT_REPLAY,
    OPT_RECONNECT,
    OPT_LAZY,
    OPT_PIN,
    OPT_HEADERS_ONLY,
    OPT_READ,
};

struct sub {
    struct amb_ctl *ctl;
    const char *pattern;
    struct amb_sub *sub;
    uint64_t count; /* 0: no end */
    bool wants_stats, wants_hold;
    const char *save; /* where the position goes at the end, or NULL */
    uint8_t *position;
    struct amb_sub_options options;
    int64_t backoff_ns[BACKOFF_MAX];
    bool wants_nak;
    const char *term; /* why */
    struct amb_deliver_options deliver_options;
    struct amb_deliver deliver;
};

static enum amb_exit fail(const struct sub *s, enum amb_status status)
{
    char what[300];
    (void)snprintf(what, sizeof(what), "subscribe %.255s", s->pattern);
    return amb_ctl_fail(s->ctl, what, status);
}

/* Ended by time or signal: is that what was asked for? */
static enum amb_exit ended(const struct sub *s)
{
    uint64_t msgs = s->deliver.msgs;
    if (amb_ctl_stopped()) {
        return s->count == 0 ? AMB_EXIT_OK : AMB_EXIT_TIMEOUT;
    }
    if (s->count == 0 && msgs > 0) {
        return AMB_EXIT_OK;
    }
    if (s->count > 0) {
        amb_tool_error("subscribe %s: %" PRIu64 " of %" PRIu64 " messages after the time given",
                       s->pattern, msgs, s->count);
    } else {
        amb_tool_error("subscribe %s: no message within the time given", s->pattern);
    }
    return AMB_EXIT_TIMEOUT;
}

/* The acknowledgement of a message that has been printed. */
static enum amb_exit answer(const struct sub *s, struct amb_msg *msg)
{
    enum amb_status status = s->term != NULL ? amb_msg_term(msg, s->term)
                             : s->wants_nak  ? amb_msg_nak(msg, 0)
                                             : amb_msg_ack(msg);
    return status == AMB_OK ? AMB_EXIT_OK : fail(s, status);
}

/* Prints it, and tells the broker once it is on its way to the reader. */
static enum amb_exit handle(struct sub *s, struct amb_msg *msg, int64_t now_ns)
{
    enum amb_exit code = amb_deliver_message(&s->deliver, msg, now_ns);
    if (code != AMB_EXIT_OK || s->options.ack == AMB_ACK_DEFAULT) {
        return code;
    }
    return amb_output_flush() ? answer(s, msg) : AMB_EXIT_OK; /* receive() asks why not. */
}

static enum amb_exit receive(struct sub *s)
{
    struct amb_msg *msgs[MANY];
    enum amb_exit code = AMB_EXIT_OK;
    while (code == AMB_EXIT_OK && (s->count == 0 || s->deliver.msgs < s->count)) {
        if (amb_output_is_unread()) {
            return AMB_EXIT_OK;
        }
        uint64_t left = s->count == 0 ? MANY : s->count - s->deliver.msgs;
        size_t n = 0;
        enum amb_status status = amb_next_many(s->sub, amb_ctl_slice_ns(s->ctl), msgs,
                                               left < MANY ? (size_t)left : MANY, &n);
        if (status != AMB_OK) {
            if (amb_ctl_again(s->ctl, status)) {
                continue;
            }
            bool is_end = status == AMB_ETIMEDOUT || status == AMB_EAGAIN || status == AMB_ESTOPPED;
            return is_end ? ended(s) : fail(s, status);
        }
        int64_t now_ns = amb_clock_monotonic_ns();
        for (size_t i = 0; i < n; i++) {
            if (code == AMB_EXIT_OK && ferror(stdout) == 0) {
                code = handle(s, msgs[i], now_ns);
            }
            amb_msg_release(msgs[i]);
        }
        /* Lines leave as they come: the next may be long in coming. */
        if (!amb_output_flush() && code == AMB_EXIT_OK) {
            return amb_output_is_unread() ? AMB_EXIT_OK : AMB_EXIT_SOFTWARE;
        }
    }
    return code;
}

/* Where this subscription was: --start file: goes on there. */
static enum amb_exit save_position(const struct sub *s)
{
    static uint8_t position[POSITION_MAX];
    size_t len = sizeof(position);
    enum amb_status status = amb_sub_position(s->sub, position, &len);
    if (status != AMB_OK) {
        return amb_ctl_fail(s->ctl, "position", status);
    }
    FILE *file = fopen(s->save, "wb");
    bool is_written = file != NULL && fwrite(position, 1, len, file) == len;
    if ((file != NULL && fclose(file) != 0) || !is_written) {
        amb_tool_error("%s: cannot write", s->save);
        return AMB_EXIT_SOFTWARE;
    }
    return AMB_EXIT_OK;
}

static enum amb_exit subscribe(struct sub *s)
{
    enum amb_exit code = amb_deliver_init(&s->deliver, &s->deliver_options);
    if (code == AMB_EXIT_OK) {
        code = amb_ctl_connect(s->ctl);
    }
    if (code == AMB_EXIT_OK) {
        enum amb_status status = amb_subscribe(s->ctl->conn, s->pattern, &s->options, &s->sub);
        code = status == AMB_OK ? receive(s) : fail(s, status);
        if (s->wants_stats && s->sub != NULL) {
            amb_ctl_print(s->ctl, amb_deliver_stats(&s->deliver));
        }
        if (code == AMB_EXIT_OK && s->save != NULL) {
            code = save_position(s);
        }
        if (code == AMB_EXIT_OK && s->wants_hold && !amb_ctl_stopped()) {
            code = amb_ctl_hold(s->ctl, true);
        }
        (void)amb_sub_close(s->sub, AMB_SEC);
    }
    code = amb_ctl_close(s->ctl, code);
    amb_deliver_fini(&s->deliver);
    free(s->position);
    return code;
}

static enum amb_exit take_slow(struct sub *s, const char *value)
{
    static const struct {
        const char *name;
        enum amb_slow slow;
    } policies[] = {
        {"drop-oldest", AMB_SLOW_DROP_OLDEST},
        {"drop-newest", AMB_SLOW_DROP_NEWEST},
        {"latest", AMB_SLOW_LATEST},
        {"block", AMB_SLOW_BLOCK},
        {"spill", AMB_SLOW_SPILL},
        {"disconnect", AMB_SLOW_DISCONNECT},
    };
    for (size_t i = 0; i < sizeof(policies) / sizeof(policies[0]); i++) {
        if (strcmp(value, policies[i].name) == 0) {
            s->options.slow = policies[i].slow;
            return AMB_EXIT_OK;
        }
    }
    return amb_ctl_bad("--policy", value, "block, drop-oldest, drop-newest, latest or disconnect");
}

/* A position that --save has written. */
static bool read_position(struct sub *s, const char *path)
{
    FILE *file = fopen(path, "rb");
    s->position = malloc(POSITION_MAX);
    size_t len = 0;
    if (file != NULL && s->position != NULL) {
        len = fread(s->position, 1, POSITION_MAX, file);
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    s->options.start = AMB_START_POSITION;
    s->options.position = s->position;
    s->options.position_len = len;
    return len > 0;
}

static bool take_start(struct sub *s, const char *value)
{
    static const struct {
        const char *name;
        enum amb_start start;
    } places[] = {{"new", AMB_START_NEW}, {"first", AMB_START_FIRST}, {"last", AMB_START_LAST}};
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        if (strcmp(value, places[i].name) == 0) {
            s->options.start = places[i].start;
            return true;
        }
    }
    int64_t ago_ns;
    if (strncmp(value, "last:", 5) == 0) {
        s->options.start = AMB_START_LAST_N;
        return amb_units_count(value + 5, UINT64_MAX / 2, &s->options.start_at);
    }
    if (strncmp(value, "seq:", 4) == 0) {
        s->options.start = AMB_START_SEQ;
        return amb_units_count(value + 4, UINT64_MAX / 2, &s->options.start_at);
    }
    if (strncmp(value, "ago:", 4) == 0 && amb_units_duration(value + 4, &ago_ns)) {
        s->options.start = AMB_START_TIME;
        s->options.start_at = (uint64_t)(amb_clock_realtime_ns() - ago_ns);
        return true;
    }
    return strncmp(value, "file:", 5) == 0 && read_position(s, value + 5);
}

static enum amb_exit take_ack(struct sub *s, const char *value)
{
    if (strcmp(value, "explicit") == 0) {
        s->options.ack = AMB_ACK_EXPLICIT;
    } else if (strcmp(value, "cumulative") == 0) {
        s->options.ack = AMB_ACK_CUMULATIVE;
    } else {
        return amb_ctl_bad("--ack", value, "explicit or cumulative");
    }
    return AMB_EXIT_OK;
}

/* Times separated by commas. */
static enum amb_exit take_backoff(struct sub *s, const char *value)
{
    char text[32];
    s->options.backoff_ns = s->backoff_ns;
    for (const char *at = value; s->options.backoff_count < BACKOFF_MAX; at++) {
        size_t len = strcspn(at, ",");
        if (len >= sizeof(text)) {
            break;
        }
        memcpy(text, at, len);
        text[len] = '\0';
        if (!amb_units_duration(text, &s->backoff_ns[s->options.backoff_count++])) {
            break;
        }
        at += len;
        if (*at == '\0') {
            return AMB_EXIT_OK;
        }
    }
    return amb_ctl_bad("--backoff", value, "up to 16 times, as 1,10,1m");
}

/* The options of acknowledgements, groups and durable names. */
static enum amb_exit take_queue_option(struct sub *s, int option, const char *value)
{
    uint64_t count;
    switch (option) {
    case OPT_GROUP:
        s->options.group = value;
        return AMB_EXIT_OK;
    case OPT_DURABLE:
        s->options.durable = value;
        return AMB_EXIT_OK;
    case OPT_ACK:
        return take_ack(s, value);
    case OPT_ACK_WAIT:
        return amb_units_duration(value, &s->options.ack_wait_ns)
                   ? AMB_EXIT_OK
                   : amb_ctl_bad("--ack-wait", value, "a time, as 10 or 500ms");
    case OPT_BACKOFF:
        return take_backoff(s, value);
    case OPT_MAX_DELIVER:
        if (!amb_units_count(value, UINT32_MAX, &count) || count == 0) {
            return amb_ctl_bad("--max-deliver", value, "a number of deliveries, above 0");
        }
        s->options.max_deliver = (uint32_t)count;
        return AMB_EXIT_OK;
    case OPT_NAK:
        s->wants_nak = true;
        return AMB_EXIT_OK;
    default:
        s->term = value;
        return AMB_EXIT_OK;
    }
}

/* The choice of topics, and the rate at which messages come. */
static enum amb_exit take_choice(struct sub *s, int option, const char *value)
{
    switch (option) {
    case OPT_FILTER:
        s->options.filter = value;
        return AMB_EXIT_OK;
    case OPT_RATE:
        return amb_units_count(value, UINT64_MAX / 2, &s->options.rate_msgs) &&
                       s->options.rate_msgs > 0
                   ? AMB_EXIT_OK
                   : amb_ctl_bad("--rate", value, "messages a second, above 0");
    case OPT_RATE_BYTES:
        return amb_units_size(value, &s->options.rate_bytes) && s->options.rate_bytes > 0
                   ? AMB_EXIT_OK
                   : amb_ctl_bad("--rate-bytes", value, "bytes a second, as 10M");
    default:
        if (strcmp(value, "original") == 0) {
            s->options.replay = AMB_TEMPO_ORIGINAL;
            return AMB_EXIT_OK;
        }
        return strcmp(value, "at-once") == 0
                   ? AMB_EXIT_OK
                   : amb_ctl_bad("--replay", value, "at-once or original");
    }
}

/* OFFSET:LEN */
static bool take_range(struct sub *s, const char *value)
{
    char offset[32];
    uint64_t len;
    const char *colon = strchr(value, ':');
    size_t before = colon == NULL ? 0 : (size_t)(colon - value);
    if (before == 0 || before >= sizeof(offset)) {
        return false;
    }
    memcpy(offset, value, before);
    offset[before] = '\0';
    if (!amb_units_size(offset, &s->deliver_options.offset) || !amb_units_size(colon + 1, &len) ||
        len == 0 || len > SIZE_MAX / 2) {
        return false;
    }
    s->deliver_options.len = (size_t)len;
    s->deliver_options.wants_range = true;
    return true;
}

/* Messages whose payloads stay away, at first or for good. */
static enum amb_exit take_lazy(struct sub *s, int option, const char *value)
{
    if (option == OPT_READ && !take_range(s, value)) {
        return amb_ctl_bad("--read", value, "OFFSET:LEN, as 0:16 or 1M:4K");
    }
    enum amb_lazy kind = option == OPT_PIN            ? AMB_LAZY_PIN
                         : option == OPT_HEADERS_ONLY ? AMB_LAZY_HEADERS
                                                      : AMB_LAZY_ON;
    s->options.lazy = kind > s->options.lazy ? kind : s->options.lazy;
    s->deliver_options.is_lazy = true;
    return AMB_EXIT_OK;
}

static enum amb_exit take_option(struct sub *s, int option, const char *value)
{
    switch (option) {
    case 'c':
        return amb_units_count(value, UINT64_MAX / 2, &s->count) && s->count > 0
                   ? AMB_EXIT_OK
                   : amb_ctl_bad("--count", value, "a number of messages, above 0");
    case OPT_OUT_DIR:
        s->deliver_options.out_dir = value;
        return AMB_EXIT_OK;
    case OPT_SHA256:
        s->deliver_options.wants_sha256 = true;
        return AMB_EXIT_OK;
    case OPT_STATS:
        s->wants_stats = true;
        return AMB_EXIT_OK;
    case OPT_HOLD:
        s->wants_hold = true;
        return AMB_EXIT_OK;
    case OPT_RECONNECT:
        s->ctl->stays = true;
        return AMB_EXIT_OK;
    case OPT_COPY:
        s->options.copy = 1;
        return AMB_EXIT_OK;
    case OPT_GROUP:
    case OPT_DURABLE:
    case OPT_ACK:
    case OPT_ACK_WAIT:
    case OPT_BACKOFF:
    case OPT_MAX_DELIVER:
    case OPT_NAK:
    case OPT_TERM:
        return take_queue_option(s, option, value);
    case OPT_FILTER:
    case OPT_RATE:
    case OPT_RATE_BYTES:
    case OPT_REPLAY:
        return take_choice(s, option, value);
    case OPT_LAZY:
    case OPT_PIN:
    case OPT_HEADERS_ONLY:
    case OPT_READ:
        return take_lazy(s, option, value);
    case OPT_SLOW:
        return take_slow(s, value);
    case OPT_CREDIT:
        return amb_units_count(value, UINT64_MAX / 2, &s->options.credit_msgs) &&
                       s->options.credit_msgs > 0
                   ? AMB_EXIT_OK
                   : amb_ctl_bad("--credit", value, "a number of messages, above 0");
    case OPT_START:
        return take_start(s, value)
                   ? AMB_EXIT_OK
                   : amb_ctl_bad("--start", value,
                                 "new, first, last, last:N, seq:N, ago:T or file:F");
    case OPT_SAVE:
        s->save = value;
        return AMB_EXIT_OK;
    case OPT_SLOW_BLOCK:
        return amb_units_duration(value, &s->options.slow_block_ns)
                   ? AMB_EXIT_OK
                   : amb_ctl_bad("--slow-block", value, "a time, as 10 or 500ms");
    default:
        return amb_ctl_option(s->ctl, option, value) ? AMB_EXIT_OK : AMB_EXIT_USAGE;
    }
}

enum amb_exit amb_ctl_sub(struct amb_ctl *ctl, int argc, char **argv)
{
    static const struct option options[] = {
        AMB_CTL_OPTIONS,
        {"count", required_argument, NULL, 'c'},
        {"out-dir", required_argument, NULL, OPT_OUT_DIR},
        {"sha256", no_argument, NULL, OPT_SHA256},
        {"stats", no_argument, NULL, OPT_STATS},
        {"policy", required_argument, NULL, OPT_SLOW},
        {"slow", required_argument, NULL, OPT_SLOW}, /* its former name */
        {"credit", required_argument, NULL, OPT_CREDIT},
        {"start", required_argument, NULL, OPT_START},
        {"save", required_argument, NULL, OPT_SAVE},
        {"slow-block", required_argument, NULL, OPT_SLOW_BLOCK},
        {"copy", no_argument, NULL, OPT_COPY},
        {"hold", no_argument, NULL, OPT_HOLD},
        {"group", required_argument, NULL, OPT_GROUP},
        {"durable", required_argument, NULL, OPT_DURABLE},
        {"ack", required_argument, NULL, OPT_ACK},
        {"ack-wait", required_argument, NULL, OPT_ACK_WAIT},
        {"backoff", required_argument, NULL, OPT_BACKOFF},
        {"max-deliver", required_argument, NULL, OPT_MAX_DELIVER},
        {"nak", no_argument, NULL, OPT_NAK},
        {"term", required_argument, NULL, OPT_TERM},
        {"filter", required_argument, NULL, OPT_FILTER},
        {"rate", required_argument, NULL, OPT_RATE},
        {"rate-bytes", required_argument, NULL, OPT_RATE_BYTES},
        {"replay", required_argument, NULL, OPT_REPLAY},
        {"reconnect", no_argument, NULL, OPT_RECONNECT},
        {"lazy", no_argument, NULL, OPT_LAZY},
        {"pin", no_argument, NULL, OPT_PIN},
        {"headers-only", no_argument, NULL, OPT_HEADERS_ONLY},
        {"read", required_argument, NULL, OPT_READ},
        {NULL, 0, NULL, 0},
    };
    struct sub s = {.ctl = ctl, .options = AMB_INIT(amb_sub_options)};
    enum amb_exit code = AMB_EXIT_OK;
    int option;
    while (code == AMB_EXIT_OK &&
           (option = getopt_long(argc, argv, "o:c:h", options, NULL)) != -1) {
        code = take_option(&s, option, optarg);
    }
    if (code != AMB_EXIT_OK || ctl->is_help_wanted) {
        return code;
    }
    if (optind + 1 != argc) {
        amb_tool_error("sub takes one pattern");
        return AMB_EXIT_USAGE;
    }
    bool wants_bytes = s.deliver_options.wants_range || s.deliver_options.wants_sha256 ||
                       s.deliver_options.out_dir != NULL;
    if (s.options.lazy == AMB_LAZY_HEADERS && wants_bytes) {
        amb_tool_error("--headers-only has no payloads for --read, --sha256 or --out-dir");
        return AMB_EXIT_USAGE;
    }
    if ((s.wants_nak || s.term != NULL) && s.options.ack == AMB_ACK_DEFAULT) {
        s.options.ack = AMB_ACK_EXPLICIT;
    }
    s.pattern = argv[optind];
    s.deliver_options.is_json = ctl->is_json && !s.wants_stats;
    if (s.deliver_options.wants_sha256 && ctl->is_json) {
        s.deliver_options.is_json = true;
    }
    s.deliver_options.wants_payload = !ctl->is_json && !s.wants_stats &&
                                      !s.deliver_options.wants_sha256 &&
                                      s.deliver_options.out_dir == NULL;
    if (!s.deliver_options.wants_payload) {
        /* A reader of the lines sees each as it is there. */
        (void)setvbuf(stdout, NULL, _IOLBF, 0);
    }
    return subscribe(&s);
}
