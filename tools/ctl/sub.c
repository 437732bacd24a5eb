/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broker-ctl sub: takes messages until a count, a time or a signal ends it.
 */
#include "tools/ctl/sub.h"

#include "tools/cli/forms.h"
#include "tools/common/output.h"
#include "tools/ctl/connect.h"
#include "tools/ctl/deliver.h"
#include "wire/base/clock.h"
#include "wire/base/file.h"
#include "wire/base/temp_file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MANY 256u
#define POSITION_MAX 32768u /* bytes of a position */
#define PAYLOAD_MAX 65536u  /* bytes of a payload in JSON */

struct sub {
    struct amb_ctl *ctl;
    char shown[300];       /* the patterns */
    struct amb_sub **subs; /* one a pattern */
    size_t sub_count;
    enum amb_exit code; /* of callbacks */
    uint64_t count;     /* 0: no end */
    bool wants_stats, wants_hold, has_meter_head;
    const char *save; /* where the position goes at the end, or NULL */
    uint8_t *position;
    struct amb_sub_options options;
    int64_t backoff_ns[AMB_FORM_BACKOFF_MAX];
    bool wants_nak;
    const char *term; /* why */
    struct amb_deliver_options deliver_options;
    struct amb_deliver deliver;
};

static enum amb_exit fail(const struct sub *s, enum amb_status status)
{
    char what[sizeof(s->shown) + 16];
    (void)snprintf(what, sizeof(what), "subscribe %s", s->shown);
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
                       s->shown, msgs, s->count);
    } else {
        amb_tool_error("subscribe %s: no message within the time given", s->shown);
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

static bool is_through(const struct sub *s)
{
    return s->code != AMB_EXIT_OK || (s->count > 0 && s->deliver.msgs >= s->count);
}

/* Of one of several subscriptions. Messages beyond the count go unacknowledged. */
static void on_message(struct amb_msg *msg, void *arg)
{
    struct sub *s = arg;
    if (!is_through(s) && ferror(stdout) == 0) {
        s->code = handle(s, msg, amb_clock_monotonic_ns());
    }
}

/* Takes what is there, or waits a slice. */
static enum amb_status take_some(struct sub *s)
{
    int64_t slice_ns = amb_ctl_slice_ns(s->ctl);
    if (s->sub_count > 1) {
        return amb_poll(s->ctl->conn, slice_ns);
    }
    struct amb_msg *msgs[MANY];
    uint64_t left = s->count == 0 ? MANY : s->count - s->deliver.msgs;
    size_t n = 0;
    enum amb_status status =
        amb_next_many(s->subs[0], slice_ns, msgs, left < MANY ? (size_t)left : MANY, &n);
    int64_t now_ns = amb_clock_monotonic_ns();
    for (size_t i = 0; i < n; i++) {
        if (s->code == AMB_EXIT_OK && ferror(stdout) == 0) {
            s->code = handle(s, msgs[i], now_ns);
        }
        amb_msg_release(msgs[i]);
    }
    return status;
}

static void print_meter(struct sub *s, bool is_last)
{
    json_t *row = amb_deliver_meter(&s->deliver, amb_clock_monotonic_ns(), is_last);
    if (row != NULL && s->ctl->is_json) {
        amb_ctl_print(s->ctl, row);
    } else if (row != NULL) {
        amb_meter_print(row, !s->has_meter_head, stdout);
        json_decref(row);
        s->has_meter_head = true;
    }
}

static enum amb_exit receive(struct sub *s)
{
    while (!is_through(s)) {
        if (amb_output_is_unread()) {
            return AMB_EXIT_OK;
        }
        enum amb_status status = take_some(s);
        print_meter(s, false);
        if (status != AMB_OK && !amb_ctl_again(s->ctl, status)) {
            bool is_end = status == AMB_ETIMEDOUT || status == AMB_EAGAIN || status == AMB_ESTOPPED;
            return is_end ? ended(s) : fail(s, status);
        }
        /* Lines leave as they come: the next may be long in coming. */
        if (!amb_output_flush() && s->code == AMB_EXIT_OK) {
            return amb_output_is_unread() ? AMB_EXIT_OK : AMB_EXIT_SOFTWARE;
        }
    }
    return s->code;
}

/* A pipe, a terminal or a device is no file to be replaced. */
static bool write_in_place(const char *path, const uint8_t *bytes, size_t len)
{
    FILE *file = fopen(path, "wb");
    bool is_written = file != NULL && fwrite(bytes, 1, len, file) == len;
    return (file == NULL || fclose(file) == 0) && is_written;
}

/* As a whole, so a disk that is full leaves the former position. Its mode stays. */
static bool replace(const char *path, const struct stat *former, const uint8_t *bytes, size_t len)
{
    const struct amb_temp_file_end end = {.mode = former == NULL ? 0 : former->st_mode & 07777u};
    struct amb_temp_file temp;
    if (!amb_temp_file_create(&temp, path, former == NULL ? 0666 : 0600)) {
        /* Its folder is not ours to write to. */
        return former != NULL && (errno == EACCES || errno == EPERM) &&
               write_in_place(path, bytes, len);
    }
    if (!amb_file_write(temp.fd, bytes, len)) {
        amb_temp_file_drop(&temp);
        return false;
    }
    /* EBUSY: a file system is mounted there, as in a container, and it keeps its name. */
    return amb_temp_file_rename(&temp, &end) ||
           (errno == EBUSY && write_in_place(path, bytes, len));
}

/* Links stay, and lead to the new position. */
static bool write_position(const char *path, const uint8_t *bytes, size_t len)
{
    struct stat at, to;
    if (lstat(path, &at) != 0) {
        return replace(path, NULL, bytes, len);
    }
    char *real = stat(path, &to) == 0 && S_ISREG(to.st_mode) ? realpath(path, NULL) : NULL;
    bool is_written =
        real != NULL ? replace(real, &to, bytes, len) : write_in_place(path, bytes, len);
    free(real);
    return is_written;
}

/* Where this subscription was: --start file: goes on there. */
static enum amb_exit save_position(const struct sub *s)
{
    static uint8_t position[POSITION_MAX];
    size_t len = sizeof(position);
    enum amb_status status = amb_sub_position(s->subs[0], position, &len);
    if (status != AMB_OK) {
        return amb_ctl_fail(s->ctl, "position", status);
    }
    if (!write_position(s->save, position, len)) {
        amb_tool_error("%s: cannot write", s->save);
        return AMB_EXIT_SOFTWARE;
    }
    return AMB_EXIT_OK;
}

/* A subscription for each pattern. Of several, messages come by callback. */
static enum amb_exit open_all(struct sub *s)
{
    const struct amb_cli_line *line = s->ctl->line;
    s->subs = calloc(line->arg_count, sizeof(struct amb_sub *));
    if (s->subs == NULL) {
        return fail(s, AMB_ENOMEM);
    }
    if (line->arg_count > 1) {
        s->options.on_message = on_message;
        s->options.arg = s;
    }
    for (; s->sub_count < line->arg_count; s->sub_count++) {
        const char *pattern = line->args[s->sub_count];
        enum amb_status status =
            amb_subscribe(s->ctl->conn, pattern, &s->options, &s->subs[s->sub_count]);
        if (status != AMB_OK) {
            (void)snprintf(s->shown, sizeof(s->shown), "%.255s", pattern);
            return fail(s, status);
        }
    }
    return AMB_EXIT_OK;
}

static void close_all(struct sub *s)
{
    while (s->sub_count > 0) {
        (void)amb_sub_close(s->subs[--s->sub_count], AMB_SEC);
    }
    free(s->subs);
    s->subs = NULL;
}

static enum amb_exit run(struct sub *s)
{
    enum amb_exit code = open_all(s);
    if (code != AMB_EXIT_OK) {
        return code;
    }
    code = receive(s);
    print_meter(s, true);
    if (s->wants_stats) {
        amb_ctl_print(s->ctl, amb_deliver_stats(&s->deliver));
    }
    if (code == AMB_EXIT_OK && s->save != NULL) {
        code = save_position(s);
    }
    if (code == AMB_EXIT_OK && s->wants_hold && !amb_ctl_stopped()) {
        code = amb_ctl_hold(s->ctl, true);
    }
    return code;
}

static enum amb_exit subscribe(struct sub *s)
{
    enum amb_exit code = amb_deliver_init(&s->deliver, &s->deliver_options);
    if (code == AMB_EXIT_OK) {
        code = amb_ctl_connect(s->ctl);
    }
    if (code == AMB_EXIT_OK) {
        code = run(s);
        close_all(s);
    }
    code = amb_ctl_close(s->ctl, code);
    amb_deliver_fini(&s->deliver);
    free(s->position);
    return code;
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

static enum amb_exit take_start(struct sub *s)
{
    struct amb_form_place place;
    const char *text = amb_cli_text(s->ctl->line, "start");
    if (text == NULL || !amb_form_place_read(text, &place)) {
        return AMB_EXIT_OK;
    }
    s->options.start = place.start;
    s->options.start_at = place.number;
    if (place.start == AMB_START_TIME) {
        s->options.start_at = amb_form_place_since(&place, amb_clock_realtime_ns());
    }
    if (place.start == AMB_START_POSITION && !read_position(s, place.file)) {
        return amb_ctl_bad("sub --start", text, "a file that --save has written is needed");
    }
    return AMB_EXIT_OK;
}

/* The options of acknowledgements, groups and durable names. */
static void take_queue_options(struct sub *s)
{
    const struct amb_cli_line *line = s->ctl->line;
    s->options.group = amb_cli_text(line, "group");
    s->options.durable = amb_cli_text(line, "durable");
    s->options.ack = (enum amb_ack)amb_cli_word(line, "ack", AMB_ACK_DEFAULT);
    s->options.ack_wait_ns = amb_cli_ns(line, "ack-wait", s->options.ack_wait_ns);
    s->options.max_deliver = (uint32_t)amb_cli_number(line, "max-deliver", 0);
    s->wants_nak = amb_cli_has(line, "nak");
    s->term = amb_cli_text(line, "term");
    const char *backoff = amb_cli_text(line, "backoff");
    if (backoff != NULL &&
        amb_form_backoff_read(backoff, s->backoff_ns, &s->options.backoff_count)) {
        s->options.backoff_ns = s->backoff_ns;
    }
    if ((s->wants_nak || s->term != NULL) && s->options.ack == AMB_ACK_DEFAULT) {
        s->options.ack = AMB_ACK_EXPLICIT;
    }
}

/* Messages whose payloads stay away, at first or for good. */
static void take_lazy(struct sub *s)
{
    const struct amb_cli_line *line = s->ctl->line;
    struct amb_deliver_options *deliver = &s->deliver_options;
    const char *range = amb_cli_text(line, "read");
    uint64_t len;
    if (range != NULL && amb_form_range_read(range, &deliver->offset, &len)) {
        deliver->len = (size_t)len;
        deliver->wants_range = true;
    }
    enum amb_lazy kind = amb_cli_has(line, "lazy") || range != NULL ? AMB_LAZY_ON : AMB_LAZY_OFF;
    kind = amb_cli_has(line, "pin") && kind < AMB_LAZY_PIN ? AMB_LAZY_PIN : kind;
    kind = amb_cli_has(line, "headers-only") && kind < AMB_LAZY_HEADERS ? AMB_LAZY_HEADERS : kind;
    s->options.lazy = kind;
    deliver->is_lazy = kind != AMB_LAZY_OFF;
}

/* As many as errors have room for. */
static void show_patterns(struct sub *s)
{
    const struct amb_cli_line *line = s->ctl->line;
    size_t len = 0;
    for (size_t i = 0; i < line->arg_count && len < sizeof(s->shown); i++) {
        len += (size_t)snprintf(s->shown + len, sizeof(s->shown) - len, "%s%.255s",
                                i == 0 ? "" : " ", line->args[i]);
    }
}

static void take_options(struct sub *s)
{
    const struct amb_cli_line *line = s->ctl->line;
    struct amb_sub_options *options = &s->options;
    show_patterns(s);
    s->count = amb_cli_number(line, "count", 0);
    s->save = amb_cli_text(line, "save");
    s->wants_stats = amb_cli_has(line, "stats");
    s->wants_hold = amb_cli_has(line, "hold");
    s->ctl->stays = amb_cli_has(line, "reconnect");
    options->copy = amb_cli_has(line, "copy");
    options->slow = (enum amb_slow)amb_cli_word(line, "policy", AMB_SLOW_DEFAULT);
    options->slow_block_ns = amb_cli_ns(line, "slow-block", options->slow_block_ns);
    options->credit_msgs = amb_cli_number(line, "credit", options->credit_msgs);
    options->filter = amb_cli_text(line, "filter");
    options->rate_msgs = amb_cli_number(line, "rate", 0);
    options->rate_bytes = amb_cli_number(line, "rate-bytes", 0);
    options->replay = (enum amb_tempo)amb_cli_word(line, "replay", AMB_TEMPO_AT_ONCE);
}

/* The form in which each message is told. */
static void take_form(struct sub *s)
{
    const struct amb_cli_line *line = s->ctl->line;
    struct amb_deliver_options *deliver = &s->deliver_options;
    deliver->out_dir = amb_cli_text(line, "out-dir");
    deliver->wants_sha256 = amb_cli_has(line, "sha256");
    deliver->wants_meter = amb_cli_has(line, "meter");
    deliver->is_raw = amb_cli_has(line, "raw");
    deliver->format = amb_cli_text(line, "format");
    deliver->payload_max = (size_t)amb_cli_number(line, "payload-max", PAYLOAD_MAX);
    bool is_kept = deliver->out_dir != NULL || deliver->wants_sha256;
    bool is_counted = s->wants_stats || deliver->wants_meter;
    if (s->ctl->is_json && (!is_counted || deliver->wants_sha256)) {
        deliver->form = AMB_DELIVER_JSON;
        deliver->has_json_payload = !is_kept && !deliver->is_lazy;
    } else if (!is_kept && !is_counted) {
        deliver->form = deliver->is_lazy               ? AMB_DELIVER_HEADER
                        : deliver->format != NULL      ? AMB_DELIVER_FORMAT
                        : amb_cli_has(line, "verbose") ? AMB_DELIVER_VERBOSE
                                                       : AMB_DELIVER_PAYLOAD;
    }
    if (deliver->form == AMB_DELIVER_NOT || deliver->form == AMB_DELIVER_JSON) {
        /* A reader of the lines sees each as it is there. */
        (void)setvbuf(stdout, NULL, _IOLBF, 0);
    }
}

/* Options that the table cannot hold against each other. False: it has been said. */
static bool is_possible(const struct sub *s)
{
    static const char *const of_text[] = {"verbose", "format", "raw"};
    static const char *const of_one[] = {"durable", "save", "start"};
    const struct amb_cli_line *line = s->ctl->line;
    for (size_t i = 0; i < sizeof(of_text) / sizeof(of_text[0]); i++) {
        if (s->ctl->is_json && amb_cli_has(line, of_text[i])) {
            amb_tool_error("sub --%s: does not go with --output json or jsonl", of_text[i]);
            return false;
        }
    }
    for (size_t i = 0; i < sizeof(of_one) / sizeof(of_one[0]); i++) {
        const char *text = line->arg_count > 1 ? amb_cli_text(line, of_one[i]) : NULL;
        bool is_file = text != NULL && strncmp(text, "file:", 5) == 0;
        if (text != NULL && (is_file || strcmp(of_one[i], "start") != 0)) {
            amb_tool_error("sub --%s: goes only with one PATTERN", of_one[i]);
            return false;
        }
    }
    return true;
}

enum amb_exit amb_ctl_sub(struct amb_ctl *ctl)
{
    struct sub s = {.ctl = ctl, .options = AMB_INIT(amb_sub_options)};
    if (ctl->form == AMB_CLI_FORM_CSV) {
        return amb_ctl_bad("sub --output", "csv", "takes table, json or jsonl");
    }
    if (!is_possible(&s)) {
        return AMB_EXIT_USAGE;
    }
    take_options(&s);
    take_queue_options(&s);
    take_lazy(&s);
    take_form(&s);
    enum amb_exit code = take_start(&s);
    if (code != AMB_EXIT_OK) {
        free(s.position);
        return code;
    }
    return subscribe(&s);
}
