/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/ctl/connect.h"

#include "tools/common/rows.h"
#include "tools/common/table.h"
#include "tools/ctl/contexts.h"
#include "wire/base/clock.h"
#include "wire/codec/url.h"

#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HINT_MAX 256u

static volatile sig_atomic_t is_stopped;
/* Read by the handler, which runs on the main thread: libamb blocks signals in its own. */
static _Atomic(struct amb_conn *) stop_conn;

static void on_signal(int number)
{
    (void)number;
    is_stopped = 1;
    struct amb_conn *conn = atomic_load(&stop_conn);
    if (conn != NULL) {
        amb_stop(conn);
    }
}

bool amb_ctl_stopped(void)
{
    return is_stopped != 0;
}

enum amb_exit amb_ctl_bad(const char *option, const char *value, const char *wanted)
{
    amb_tool_error("%s '%.80s': %s", option, value, wanted);
    return AMB_EXIT_USAGE;
}

void amb_ctl_take_options(struct amb_ctl *ctl)
{
    const struct amb_cli_line *line = ctl->line;
    ctl->url = amb_cli_text(line, "url");
    ctl->credentials = amb_cli_text(line, "credentials");
    ctl->client_name = amb_cli_text(line, "client-name");
    ctl->timeout_ns = amb_cli_ns(line, "timeout", -1);
    ctl->form = (enum amb_cli_form)amb_cli_word(line, "output", AMB_CLI_FORM_TABLE);
    ctl->is_json = ctl->form != AMB_CLI_FORM_TABLE;
}

const char *amb_ctl_variable(const char *name)
{
    const char *text = getenv(name);
    return text != NULL && text[0] != '\0' ? text : NULL;
}

const char *amb_ctl_url(const struct amb_ctl *ctl)
{
    const char *url = ctl->url != NULL ? ctl->url : amb_ctl_variable("AMB_URL");
    return url != NULL ? url : "unix:///run/ambroker/broker.sock";
}

void amb_ctl_catch_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal};
    /* The second signal ends the process at once. */
    action.sa_flags = (int)SA_RESETHAND;
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
}

enum amb_status amb_ctl_open(struct amb_ctl *ctl, int64_t timeout_ns, struct amb_error *error)
{
    struct amb_options options = {
        .size = sizeof(options),
        .name = ctl->client_name != NULL ? ctl->client_name : "broker-ctl",
        .credentials = ctl->credentials,
        .connect_timeout_ns = timeout_ns,
        .reconnect_attempts = ctl->stays ? 0 : AMB_NONE, /* Else a lost broker is an answer. */
        .error = error,
        .is_interrupted = ctl->is_interrupted,
        .interrupted_arg = ctl->interrupted_arg,
    };
    enum amb_status status = amb_connect(ctl->url, &options, &ctl->conn);
    if (status == AMB_OK) {
        atomic_store(&stop_conn, ctl->conn);
        if (is_stopped) {
            amb_stop(ctl->conn);
        }
    }
    return status;
}

/* The URL of this user's own brokerd --dev. False: there is none. */
static bool has_own_dev_broker(char *out, size_t size)
{
    char error[HINT_MAX];
    struct amb_url url;
    struct stat stat;
    amb_url_format_dev(amb_ctl_variable("XDG_RUNTIME_DIR"), (unsigned)getuid(), out, size);
    /* In /tmp anybody may make such a folder: another user's socket is not named. */
    return amb_url_parse(out, &url, error, sizeof(error)) == AMB_OK &&
           lstat(url.path, &stat) == 0 && S_ISSOCK(stat.st_mode) && stat.st_uid == getuid();
}

/* Where no broker was named: that there is none, and the user's own one. Else "". */
static void format_hint(const struct amb_ctl *ctl, char *out, size_t size)
{
    static const char none[] = "there is neither --url nor $AMB_URL";
    char url[sizeof(((struct amb_url *)NULL)->path) + sizeof("unix://")];
    out[0] = '\0';
    if (ctl->url != NULL || amb_ctl_variable("AMB_URL") != NULL) {
        return;
    }
    if (has_own_dev_broker(url, sizeof(url))) {
        (void)snprintf(out, size, " (%s; brokerd --dev: AMB_URL=%s)", none, url);
    } else {
        (void)snprintf(out, size, " (%s)", none);
    }
}

enum amb_exit amb_ctl_connect(struct amb_ctl *ctl)
{
    enum amb_exit found = amb_ctl_use_context(ctl);
    if (found != AMB_EXIT_OK) {
        return found;
    }
    amb_ctl_catch_signals();
    struct amb_error error = {.status = AMB_OK};
    int64_t timeout_ns = 0;
    if (ctl->timeout_ns > 0 && ctl->timeout_ns < 10 * AMB_SEC) {
        timeout_ns = ctl->timeout_ns;
    }
    enum amb_status status = amb_ctl_open(ctl, timeout_ns, &error);
    if (status != AMB_OK) {
        const char *url = amb_ctl_url(ctl);
        const char *text = error.text[0] != '\0' ? error.text : amb_strerror(status);
        /* Of a list the library names the URL it speaks of itself. */
        bool is_named = strncmp(text, url, strlen(url)) == 0;
        (void)snprintf(ctl->why, sizeof(ctl->why), "%s%s%s", is_named ? "" : url,
                       is_named ? "" : ": ", text);
        char hint[HINT_MAX];
        format_hint(ctl, hint, sizeof(hint));
        amb_tool_error("connect %s%s%s%s", is_named ? "" : url, is_named ? "" : ": ", text, hint);
        /* A URL that is wrong is an argument; a broker that does not answer in time is none. */
        return status == AMB_ETIMEDOUT ? AMB_EXIT_UNAVAILABLE : amb_exit_of(status);
    }
    return AMB_EXIT_OK;
}

enum amb_exit amb_ctl_close(struct amb_ctl *ctl, enum amb_exit code)
{
    if (ctl->conn == NULL) {
        return code;
    }
    atomic_store(&stop_conn, NULL);
    enum amb_status status = amb_close(ctl->conn, code == AMB_EXIT_OK ? 5 * AMB_SEC : AMB_NOWAIT);
    ctl->conn = NULL;
    if (code == AMB_EXIT_OK && status != AMB_OK) {
        amb_tool_error("close: %s", amb_strerror(status));
        return amb_exit_of(status);
    }
    return code;
}

/* The text without `what: `, which the broker and the library may have put before it, too. */
static const char *behind(const char *text, const char *what)
{
    size_t len = strlen(what);
    while (len > 0 && strncmp(text, what, len) == 0 && strncmp(text + len, ": ", 2) == 0) {
        text += len + 2;
    }
    return text;
}

enum amb_exit amb_ctl_fail(const struct amb_ctl *ctl, const char *what, enum amb_status status)
{
    if (status == AMB_ESTOPPED) {
        amb_tool_error("%s: stopped by a signal", what);
        return AMB_EXIT_TIMEOUT;
    }
    struct amb_error error = amb_last_error(ctl->conn);
    if (error.status == status && error.text[0] != '\0') {
        amb_tool_error("%s: %s", what, behind(error.text, what));
    } else {
        amb_tool_error("%s: %s", what, amb_strerror(status));
    }
    return amb_exit_of(status);
}

json_t *amb_ctl_take_json(struct amb_msg *answer)
{
    json_t *value = json_loadb(amb_msg_data(answer), amb_msg_size(answer), 0, NULL);
    amb_msg_release(answer);
    return value;
}

int64_t amb_ctl_answer_ns(const struct amb_ctl *ctl)
{
    return ctl->timeout_ns >= 0 ? ctl->timeout_ns : 5 * AMB_SEC;
}

static int64_t remaining_ns(const struct amb_ctl *ctl)
{
    if (ctl->timeout_ns < 0) {
        return INT64_MAX;
    }
    int64_t now_ns = amb_clock_monotonic_ns();
    int64_t deadline_ns = amb_deadline_ns(ctl->start_ns, ctl->timeout_ns);
    return deadline_ns > now_ns ? deadline_ns - now_ns : 0;
}

int64_t amb_ctl_slice_ns(const struct amb_ctl *ctl)
{
    int64_t left_ns = remaining_ns(ctl);
    return left_ns < AMB_CTL_SLICE_NS ? left_ns : AMB_CTL_SLICE_NS;
}

bool amb_ctl_again(const struct amb_ctl *ctl, enum amb_status status)
{
    return (status == AMB_ETIMEDOUT || status == AMB_EAGAIN) && is_stopped == 0 &&
           remaining_ns(ctl) > 0;
}

/* True at the end of standard input; bytes before it are thrown away. */
static bool has_stdin_ended(void)
{
    char rest[256];
    struct pollfd pfd = {.fd = STDIN_FILENO, .events = POLLIN};
    return poll(&pfd, 1, 0) == 1 && read(STDIN_FILENO, rest, sizeof(rest)) <= 0;
}

enum amb_exit amb_ctl_hold(struct amb_ctl *ctl, bool is_stdin_free)
{
    enum amb_status status;
    (void)fflush(stdout);
    do {
        status = amb_poll(ctl->conn, amb_ctl_slice_ns(ctl));
        if (status == AMB_ESTOPPED || amb_ctl_stopped() || (is_stdin_free && has_stdin_ended())) {
            return AMB_EXIT_OK;
        }
    } while (status == AMB_OK || amb_ctl_again(ctl, status));
    return amb_ctl_fail(ctl, "hold", status);
}

static void print_rows(const struct amb_ctl *ctl, json_t *value)
{
    json_t *rows = amb_rows_of(value);
    if (rows != NULL && ctl->form == AMB_CLI_FORM_CSV) {
        amb_rows_print_csv(rows, !ctl->has_no_head, stdout);
    } else {
        amb_rows_print_jsonl(rows, stdout);
    }
    json_decref(rows);
}

size_t amb_ctl_print(const struct amb_ctl *ctl, json_t *value)
{
    size_t hidden = 0;
    if (ctl->form == AMB_CLI_FORM_JSON) {
        (void)json_dumpf(value, stdout, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(6));
        (void)fputc('\n', stdout);
    } else if (ctl->form == AMB_CLI_FORM_TABLE) {
        const struct amb_table_form form = {
            .width = ctl->width, .has_no_head = ctl->has_no_head, .units = ctl->units};
        hidden = amb_table_print_as(value, &form, stdout);
    } else {
        print_rows(ctl, value);
    }
    json_decref(value);
    return hidden;
}
