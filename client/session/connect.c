/* SPDX-License-Identifier: Apache-2.0 */
/*
 * amb_connect: which broker, which options, and everything a connection needs before its first
 * message.
 */
#include "client/session/connect.h"

#include "client/config/client_config.h"
#include "client/conn/conn.h"
#include "client/conn/options.h"
#include "client/drive/lock.h"
#include "client/drive/ucx.h"
#include "client/publish/implicit.h"
#include "client/session/backoff.h"
#include "client/session/fork.h"
#include "client/session/insist.h"
#include "client/session/io.h"
#include "client/session/life.h"
#include "client/session/own.h"
#include "client/session/secure.h"
#include "wire/config/transports.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define URL_LIST_MAX (AMB_CLIENT_URLS_MAX + 1)
#define WHERE_MAX 64u                       /* of a place in an error */
#define FIRST_LEAST_NS (20 * AMB_NS_PER_MS) /* with less left no other attempt is begun */

static void set_error(struct amb_error *error, enum amb_status status, const char *text)
{
    error->status = status;
    (void)snprintf(error->text, sizeof(error->text), "%s", text);
}

static bool watch(int epoll_fd, int fd)
{
    struct epoll_event event = {.events = EPOLLIN};
    return fd >= 0 && epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

/* The descriptors that threads sleep on and that amb_fd shows. */
static enum amb_status open_fds(struct amb_conn *conn, struct amb_error *error)
{
    conn->driver.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    conn->notify.event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    bool is_good = conn->driver.wake_fd >= 0 && conn->notify.event_fd >= 0;
    if (conn->settings.is_poll_mode) {
        conn->notify.user_fd = epoll_create1(EPOLL_CLOEXEC);
        conn->notify.timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
        is_good = is_good && conn->notify.user_fd >= 0 &&
                  watch(conn->notify.user_fd, conn->notify.event_fd) &&
                  watch(conn->notify.user_fd, conn->notify.timer_fd) &&
                  watch(conn->notify.user_fd, conn->control.fd) &&
                  watch(conn->notify.user_fd, conn->link_state.epoll_fd);
    } else {
        conn->notify.user_fd = conn->notify.event_fd;
        conn->io.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        is_good = is_good && conn->io.wake_fd >= 0;
    }
    if (!is_good) {
        enum amb_status status = amb_status_from_errno(errno);
        set_error(error, status, strerrordesc_np(errno));
        return status;
    }
    return AMB_OK;
}

static struct amb_interrupt interrupt_of(const struct amb_options *options)
{
    return (struct amb_interrupt){.ask = options->is_interrupted, .arg = options->interrupted_arg};
}

static void take_options(struct amb_conn *conn, const struct amb_options *options)
{
    conn->settings.is_poll_mode = options->progress == AMB_PROGRESS_POLL;
    conn->events.on_event = options->on_event;
    conn->events.arg = options->event_arg;
    conn->settings.timeout_ns = options->timeout_ns;
    conn->control.heartbeat_ns = options->heartbeat_ns;
    conn->settings.memory_max = options->memory_max;
    conn->settings.interrupt = interrupt_of(options);
    conn->batches.bytes_max = options->send_memory_max;
    amb_buffers_init(&conn->receive.buffers, options->memory_max);
    amb_buffers_init(&conn->leases.buffers, options->memory_max);
    amb_spin_init(&conn->driver.spin, options->spin_ns == AMB_SPIN_NEVER ? 0 : options->spin_ns);
    const char *name = options->name != NULL ? options->name : program_invocation_short_name;
    (void)snprintf(conn->settings.name, sizeof(conn->settings.name), "%s", name);
}

/* Whether this URL may come to a ucx link. A Unix socket means shared memory, and no port; TLS
 * means bytes that nobody reads. */
static bool may_use_ucx(const struct amb_url *url)
{
    return url->link == AMB_LINK_UCX || (url->link == AMB_LINK_ANY && url->scheme == AMB_URL_TCP);
}

static void discard(struct amb_conn *conn)
{
    amb_conn_lock(conn);
    amb_conn_teardown(conn);
    amb_conn_unlock(conn);
    amb_implicit_fini(conn);
    amb_conn_unref(conn);
}

/* How to reach it, beside the URL. */
struct reach {
    const struct amb_client_config *config;
    const struct amb_options *options;
    const struct amb_former *former;
    const struct amb_own *own;
    struct amb_dial_until until;
};

/* The devices that UCX may use for this URL; none where it does not come to UCX. An interface that
 * is gone at a reconnect may come back. */
static enum amb_status choose_devices(const struct amb_url *url, const struct reach *reach,
                                      struct amb_transports *transports, struct amb_error *error)
{
    const struct amb_client_config *config = reach->config;
    enum amb_status status = AMB_OK;
    transports->net_devices[0] = '\0';
    if (may_use_ucx(url)) {
        status = amb_transports_choose(transports, &config->transports, config->store, "",
                                       error->text, sizeof(error->text));
    }
    if (status == AMB_EINVAL && reach->former != NULL) {
        status = AMB_EUNREACHABLE;
    }
    transports->options.use_environment = false; /* It is the program's. */
    error->status = status;
    if (status != AMB_OK || url->link != AMB_LINK_UCX || transports->net_devices[0] != '\0') {
        return status;
    }
    if (config->transports.trusted.count != 0) {
        set_error(error, AMB_ENOTSUP,
                  "link=ucx: the switches of transports leave no device for it");
        return AMB_ENOTSUP;
    }
    set_error(error, AMB_EFORBIDDEN,
              "link=ucx opens a UCX port, which gives whoever reaches it this process: name the "
              "trusted interfaces in options.trusted_network, AMB_TRUSTED or transports.trusted");
    return AMB_EFORBIDDEN;
}

/* Connection, TLS, session. On failure conn may have some of them. */
static enum amb_status reach_one(struct amb_conn *conn, struct amb_handshake *with,
                                 const struct reach *reach, struct amb_error *error)
{
    struct amb_secure secure;
    enum amb_status status = amb_secure_init(&secure, with->url, reach->config, reach->own, error);
    if (status == AMB_OK) {
        struct amb_dial dial;
        with->secure = &secure;
        status = amb_dial_open(&dial, with->url, &reach->until, error);
        if (status == AMB_OK) {
            status = amb_secure_shake(&secure, &dial, with->url, AMB_TLS_ALPN_CONTROL);
        }
        if (status == AMB_OK) {
            status = amb_handshake_run(conn, &dial, with);
        }
        amb_dial_close(&dial);
    }
    amb_secure_fini(&secure);
    if (status == AMB_EINVAL && reach->former != NULL) {
        /* The interface or the file was there, and may come back. */
        status = error->status = AMB_EUNREACHABLE;
    }
    return status;
}

/* One broker. On failure nothing is left, and *error says why. */
static enum amb_status connect_one(const struct amb_url *url, const struct reach *reach,
                                   struct amb_error *error, struct amb_conn **out)
{
    struct amb_transports transports;
    enum amb_status status = amb_insist_url(url, error);
    if (status == AMB_OK) {
        status = choose_devices(url, reach, &transports, error);
    }
    if (status != AMB_OK) {
        return status;
    }
    struct amb_handshake with = {
        .url = url,
        .own = reach->own,
        .trusted = transports.net_devices[0] != '\0' ? transports.net_devices : NULL,
        .former = reach->former,
    };
    const struct amb_client_ucx ucx = {.options = &transports.options,
                                       .library = reach->config->transports.library};
    with.ucx = with.trusted != NULL ? &ucx : NULL;
    struct amb_conn *conn = amb_conn_create();
    if (conn == NULL) {
        set_error(error, AMB_ENOMEM, "no memory for a connection");
        return AMB_ENOMEM;
    }
    take_options(conn, reach->options);
    with.name = conn->settings.name;
    status = reach_one(conn, &with, reach, error);
    if (status != AMB_OK) {
        if (error->status != status) {
            set_error(error, status, amb_status_text(status));
        }
        discard(conn);
        return status;
    }
    *out = conn;
    return AMB_OK;
}

/* The options of the URL before it, behind what is in `out`. */
static void take_over(const struct amb_url *before, char *out, size_t size)
{
    char text[URL_LIST_MAX];
    amb_url_format(before, text, sizeof(text));
    const char *options = strchr(text, '?');
    size_t len = strlen(out);
    (void)snprintf(out + len, size - len, "%s", options == NULL ? "" : options);
}

/* A bare "host" or "host:port" in a list takes over what it lacks from the URL before it. */
static enum amb_status parse_next(const char *text, const struct amb_url *before, bool has_before,
                                  struct amb_url *url, struct amb_error *error)
{
    char full[URL_LIST_MAX];
    if (strstr(text, "://") != NULL || !has_before || before->scheme == AMB_URL_UNIX) {
        (void)snprintf(full, sizeof(full), "%s", text);
    } else {
        bool has_port =
            strchr(text, ']') != NULL ? strstr(text, "]:") != NULL : strchr(text, ':') != NULL;
        char port[16] = "";
        if (!has_port) {
            (void)snprintf(port, sizeof(port), ":%u", before->port);
        }
        (void)snprintf(full, sizeof(full), "%s://%s%s", amb_url_scheme_name(before->scheme), text,
                       port);
        take_over(before, full, sizeof(full));
    }
    enum amb_status status = amb_url_parse(full, url, error->text, sizeof(error->text));
    error->status = status;
    return status;
}

/* A URL that names no link has the file's, if it can have that. A Unix socket means shared memory,
 * also where the file says "ucx". */
static void add_link(const struct amb_client_config *config, struct amb_url *url)
{
    bool is_unix = url->scheme == AMB_URL_UNIX;
    bool is_possible = config->link == AMB_LINK_STREAM ||
                       (config->link == AMB_LINK_RING && is_unix) ||
                       (config->link == AMB_LINK_UCX && url->scheme == AMB_URL_TCP);
    if (url->link == AMB_LINK_ANY && is_possible) {
        url->link = config->link;
    }
}

/* A URL of a file is wrong there. */
static void add_place(const struct amb_client_config *config, struct amb_error *error)
{
    char where[WHERE_MAX], text[sizeof(error->text)];
    if (amb_client_config_in_file(config, "client.url", where, sizeof(where))) {
        (void)snprintf(text, sizeof(text), "%s: client.url: %.*s", where,
                       (int)(sizeof(text) - sizeof(where) - sizeof(": client.url: ")), error->text);
        memcpy(error->text, text, sizeof(text));
    }
}

/* Each of a comma list until one answers; the first error that says most is kept. */
static enum amb_status connect_any(char *list, const struct reach *reach, struct amb_error *error,
                                   struct amb_conn **out)
{
    enum amb_status status = AMB_EINVAL;
    set_error(error, status, "the URL is empty");
    struct amb_url url, before = {.scheme = AMB_URL_UNIX};
    bool has_before = false;
    char *rest = NULL;
    for (char *one = strtok_r(list, ", ", &rest); one != NULL; one = strtok_r(NULL, ", ", &rest)) {
        struct amb_error own = {.status = AMB_OK};
        enum amb_status result = parse_next(one, &before, has_before, &url, &own);
        bool is_wrong = result != AMB_OK; /* The list is; an interface that is away is not. */
        if (is_wrong) {
            add_place(reach->config, &own);
        } else {
            before = url;
            has_before = true;
            add_link(reach->config, &url);
            result = connect_one(&url, reach, &own, out);
        }
        if (result == AMB_OK) {
            return AMB_OK;
        }
        if (status == AMB_EINVAL || status == AMB_EUNREACHABLE) {
            status = result;
            *error = own;
        }
        if (is_wrong) {
            break;
        }
    }
    return status;
}

/* The credentials' URL serves where no other is given. */
static enum amb_status connect_list(const struct reach *reach, struct amb_error *error,
                                    struct amb_conn **out)
{
    char list[URL_LIST_MAX];
    const char *own = reach->own->credentials.url;
    bool is_own = own != NULL && !amb_client_config_is_given(reach->config, "client.url");
    int len = snprintf(list, sizeof(list), "%s", is_own ? own : reach->config->url);
    if (len >= (int)sizeof(list)) {
        set_error(error, AMB_EINVAL, "the URL is longer than 2047 bytes");
        return AMB_EINVAL;
    }
    return connect_any(list, reach, error, out);
}

enum amb_status amb_connect_session(const struct amb_client_config *config,
                                    const struct amb_options *options,
                                    const struct amb_former *former, int64_t deadline_ns,
                                    int cancel_fd, struct amb_error *error, struct amb_conn **out)
{
    struct amb_own own;
    amb_tls_outlive_exit(); /* Before the first use of libcrypto: credentials may have a key. */
    enum amb_status status = amb_own_read(&own, config, error);
    if (status == AMB_EINVAL && former != NULL) {
        status = error->status = AMB_EUNREACHABLE; /* The file was right, and may be again. */
    }
    if (status == AMB_OK) {
        struct reach reach = {.config = config,
                              .options = options,
                              .former = former,
                              .own = &own,
                              .until = {.deadline_ns = deadline_ns, .cancel_fd = cancel_fd}};
        if (former == NULL) { /* A reconnect runs on a thread of the library's. */
            reach.until.interrupt = interrupt_of(options);
        }
        status = connect_list(&reach, error, out);
    }
    amb_own_fini(&own);
    return status;
}

/* Between two attempts. False: the program wants no other one. */
static bool pause_for(int64_t wait_ns, const struct amb_options *options)
{
    const struct amb_interrupt interrupt = interrupt_of(options);
    for (int64_t left = wait_ns; left > 0;) {
        int64_t slice = amb_interrupt_slice(&interrupt, left);
        const struct timespec ts = {.tv_sec = slice / AMB_NS_PER_SEC,
                                    .tv_nsec = slice % AMB_NS_PER_SEC};
        (void)nanosleep(&ts, NULL);
        if (amb_is_interrupted(&interrupt)) {
            return false;
        }
        left -= slice;
    }
    return true;
}

/* Until it is reached or time is up, where the program wants that. */
static enum amb_status connect_first(const struct amb_client_config *config,
                                     const struct amb_options *options, struct amb_error *error,
                                     struct amb_conn **out)
{
    int64_t deadline = amb_deadline_ns(amb_clock_monotonic_ns(), options->connect_timeout_ns);
    struct amb_backoff backoff;
    amb_backoff_init(&backoff, options->reconnect_min_ns, options->reconnect_max_ns);
    for (;;) {
        enum amb_status status =
            amb_connect_session(config, options, NULL, deadline, -1, error, out);
        bool may_retry = status == AMB_EUNREACHABLE || status == AMB_EBUSY || status == AMB_ELOST;
        if (options->retry_first == 0 || !may_retry) {
            return status;
        }
        uint64_t chance = 0;
        (void)!getrandom(&chance, sizeof(chance), GRND_NONBLOCK);
        int64_t wait_ns = amb_backoff_next(&backoff, chance);
        int64_t left = deadline - amb_clock_monotonic_ns();
        if (left < FIRST_LEAST_NS) {
            return status;
        }
        wait_ns = wait_ns < left / 2 ? wait_ns : left / 2; /* A long pause must not end it early. */
        if (!pause_for(wait_ns, options)) {
            set_error(error, AMB_ECANCELED, "interrupted");
            return AMB_ECANCELED;
        }
    }
}

/* The parts of a connection beside its session. On failure nothing is left. */
static enum amb_status complete(struct amb_conn *conn, struct amb_client_config **config,
                                const struct amb_options *options, struct amb_error *error)
{
    enum amb_status status = open_fds(conn, error);
    if (status == AMB_OK) {
        status = amb_implicit_init(conn);
    }
    if (status == AMB_OK) {
        status = amb_again_init(&conn->again, config, conn->settings.name, options);
    }
    if (status == AMB_OK) {
        amb_fork_register(conn);
        amb_conn_lock(conn);
        status = conn->settings.is_poll_mode ? AMB_OK : amb_io_start(conn);
        amb_conn_unlock(conn);
    }
    if (status != AMB_OK) {
        if (error->status != status) {
            set_error(error, status, amb_status_text(status));
        }
        discard(conn);
    }
    return status;
}

/* File, environment and options as one. */
static enum amb_status read_config(const char *url, const struct amb_options *options,
                                   struct amb_error *error, struct amb_client_config **out)
{
    const struct amb_client_option all[] = {
        {"client.url", "the URL", url != NULL && url[0] != '\0' ? url : NULL},
        {"client.credentials", "options.credentials", options->credentials},
        {"client.ca", "options.ca", options->ca},
        {"client.server_name", "options.server_name", options->server_name},
        {"client.certificate", "options.certificate", options->certificate},
        {"client.key", "options.key", options->key},
        {"transports.trusted", "options.trusted_network", options->trusted_network},
    };
    const struct {
        int64_t value;
        struct amb_client_option option;
    } numbers[] = {
        {options->spin_ns, {"client.spin", "options.spin_ns", NULL}},
        {options->reconnect_min_ns, {"client.reconnect.min", "options.reconnect_min_ns", NULL}},
        {options->reconnect_max_ns, {"client.reconnect.max", "options.reconnect_max_ns", NULL}},
    };
    struct amb_client_option
        given[sizeof(all) / sizeof(all[0]) + sizeof(numbers) / sizeof(numbers[0])];
    struct amb_client_source source = {
        .path = options->config != NULL ? options->config : amb_client_config_path(),
        .environment = (const char *const *)environ,
        .options = given,
    };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        if (all[i].text != NULL) {
            given[source.option_count++] = all[i];
        }
    }
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        if (numbers[i].value != 0) {
            given[source.option_count++] = numbers[i].option;
        }
    }
    error->status = amb_client_config_create(&source, error->text, sizeof(error->text), out);
    return error->status;
}

static enum amb_status connect_with(const char *url, struct amb_options *checked,
                                    struct amb_error *error, struct amb_conn **out)
{
    struct amb_client_config *config = NULL;
    struct amb_conn *conn = NULL;
    enum amb_status status = read_config(url, checked, error, &config);
    if (status == AMB_OK) {
        amb_options_complete(checked, config);
        status = connect_first(config, checked, error, &conn);
    }
    if (status == AMB_OK) {
        status = complete(conn, &config, checked, error);
    }
    if (status == AMB_OK) {
        *out = conn;
    }
    amb_client_config_destroy(&config);
    return status;
}

enum amb_status amb_connect(const char *url, const struct amb_options *options,
                            struct amb_conn **out)
{
    if (out == NULL) {
        return AMB_EINVAL;
    }
    *out = NULL;
    struct amb_options checked;
    struct amb_complaint complaint;
    struct amb_error error = {.status = AMB_OK};
    enum amb_status status = amb_options_read(options, &checked, &complaint);
    if (status != AMB_OK) {
        set_error(&error, status, complaint.text);
    } else {
        status = connect_with(url, &checked, &error, out);
    }
    if (status != AMB_OK && checked.error != NULL) {
        *checked.error = error;
    }
    return status;
}
