/* SPDX-License-Identifier: Apache-2.0 */
/*
 * amb_connect: which broker, which options, and everything a connection needs before its first
 * message.
 */
#include "client/session/connect.h"

#include "client/conn/conn.h"
#include "client/conn/options.h"
#include "client/drive/lock.h"
#include "client/publish/implicit.h"
#include "client/session/backoff.h"
#include "client/session/fork.h"
#include "client/session/io.h"
#include "client/session/life.h"
#include "wire/base/cpus.h"
#include "wire/base/text.h"

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

#define URL_DEFAULT "unix:///run/ambroker/broker.sock"
#define URL_LIST_MAX 2048u
#define SPIN_NS (200 * AMB_NS_PER_US)
#define SHOWN_MAX 32u /* of a value in an error */

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

static void take_options(struct amb_conn *conn, const struct amb_options *options)
{
    conn->settings.is_poll_mode = options->progress == AMB_PROGRESS_POLL;
    conn->events.on_event = options->on_event;
    conn->events.arg = options->event_arg;
    conn->settings.timeout_ns = options->timeout_ns;
    conn->control.heartbeat_ns = options->heartbeat_ns;
    conn->settings.memory_max = options->memory_max;
    conn->batches.bytes_max = options->send_memory_max;
    amb_buffers_init(&conn->receive.buffers, options->memory_max);
    amb_buffers_init(&conn->leases.buffers, options->memory_max);
    amb_spin_init(&conn->driver.spin, options->spin_ns == AMB_SPIN_NEVER ? 0 : options->spin_ns);
    const char *name = options->name != NULL ? options->name : program_invocation_short_name;
    (void)snprintf(conn->settings.name, sizeof(conn->settings.name), "%s", name);
}

static const char *option_or_environment(const char *option, const char *variable)
{
    const char *value = option != NULL ? option : getenv(variable);
    return value != NULL && value[0] != '\0' ? value : NULL;
}

/* How long waits spin: the option, else the environment, else our own. Where one core is all there
 * is, a thread that looks keeps the other side from its work. A thread that has bound itself to one
 * core says nothing of the broker's. */
static enum amb_status choose_spin(struct amb_options *options, struct amb_error *error)
{
    const char *text = option_or_environment(NULL, "AMB_SPIN");
    if (options->spin_ns == 0 && text != NULL && strcmp(text, "auto") != 0) {
        if (!amb_text_parse_time(text, &options->spin_ns) || options->spin_ns > AMB_SPIN_MAX_NS) {
            char shown[SHOWN_MAX];
            error->status = AMB_EINVAL;
            (void)snprintf(error->text, sizeof(error->text),
                           "AMB_SPIN: \"%s\" is neither \"auto\" nor a time, 0 to 10ms",
                           amb_text_show(text, shown, sizeof(shown)));
            return AMB_EINVAL;
        }
        options->spin_ns = options->spin_ns == 0 ? AMB_SPIN_NEVER : options->spin_ns;
    } else if (options->spin_ns == 0) {
        options->spin_ns = amb_cpus_around() > 1 ? SPIN_NS : AMB_SPIN_NEVER;
    }
    return AMB_OK;
}

/* Whether this URL may come to a ucx link. A Unix socket means shared memory, and no port. */
static bool may_use_ucx(const struct amb_url *url)
{
    return url->link == AMB_LINK_UCX || (url->link == AMB_LINK_ANY && url->scheme != AMB_URL_UNIX);
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
    const struct amb_options *options;
    const struct amb_former *former;
    int64_t deadline_ns;
    int cancel_fd;
};

/* One broker. On failure nothing is left, and *error says why. */
static enum amb_status connect_one(const struct amb_url *url, const struct reach *reach,
                                   struct amb_error *error, struct amb_conn **out)
{
    const struct amb_options *options = reach->options;
    struct amb_handshake with = {
        .url = url,
        .credentials = option_or_environment(options->credentials, "AMB_CREDENTIALS"),
        .trusted = may_use_ucx(url) ? option_or_environment(options->trusted_network, "AMB_TRUSTED")
                                    : NULL,
        .former = reach->former,
    };
    if (url->link == AMB_LINK_UCX && with.trusted == NULL) {
        set_error(error, AMB_EFORBIDDEN,
                  "link=ucx opens a UCX port, which gives whoever reaches it this process: name "
                  "the trusted interfaces in options.trusted_network or AMB_TRUSTED");
        return AMB_EFORBIDDEN;
    }
    struct amb_conn *conn = amb_conn_create();
    if (conn == NULL) {
        set_error(error, AMB_ENOMEM, "no memory for a connection");
        return AMB_ENOMEM;
    }
    take_options(conn, options);
    with.name = conn->settings.name;
    struct amb_dial dial;
    enum amb_status status = amb_dial_open(&dial, url, reach->deadline_ns, reach->cancel_fd, error);
    if (status == AMB_EINVAL && reach->former != NULL) {
        status = error->status = AMB_EUNREACHABLE; /* The interface was there, and may come back. */
    }
    if (status == AMB_OK) {
        status = amb_handshake_run(conn, &dial, &with);
    }
    amb_dial_close(&dial);
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

/* A bare "host" or "host:port" in a list takes over what it lacks from the URL before it. */
static enum amb_status parse_next(const char *text, const struct amb_url *before, bool has_before,
                                  struct amb_url *url, struct amb_error *error)
{
    char full[URL_LIST_MAX];
    if (strstr(text, "://") != NULL || !has_before || before->scheme != AMB_URL_TCP) {
        (void)snprintf(full, sizeof(full), "%s", text);
    } else {
        bool has_port =
            strchr(text, ']') != NULL ? strstr(text, "]:") != NULL : strchr(text, ':') != NULL;
        char port[16] = "";
        if (!has_port) {
            (void)snprintf(port, sizeof(port), ":%u", before->port);
        }
        bool has_link = before->link != AMB_LINK_ANY, has_interface = before->interface[0] != '\0';
        (void)snprintf(full, sizeof(full), "tcp://%s%s%s%s%s%s", text, port,
                       has_link ? "?link=" : "", has_link ? amb_link_kind_name(before->link) : "",
                       !has_interface ? ""
                       : has_link     ? "&interface="
                                      : "?interface=",
                       before->interface);
    }
    enum amb_status status = amb_url_parse(full, url, error->text, sizeof(error->text));
    error->status = status;
    return status;
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
        if (result == AMB_OK) {
            before = url;
            has_before = true;
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

enum amb_status amb_connect_session(const char *urls, const struct amb_options *options,
                                    const struct amb_former *former, int64_t deadline_ns,
                                    int cancel_fd, struct amb_error *error, struct amb_conn **out)
{
    char list[URL_LIST_MAX];
    int len = snprintf(list, sizeof(list), "%s", urls);
    if (len >= (int)sizeof(list)) {
        set_error(error, AMB_EINVAL, "the URL is longer than 2047 bytes");
        return AMB_EINVAL;
    }
    const struct reach reach = {
        .options = options, .former = former, .deadline_ns = deadline_ns, .cancel_fd = cancel_fd};
    return connect_any(list, &reach, error, out);
}

/* Until it is reached or time is up, where the program wants that. */
static enum amb_status connect_first(const char *urls, const struct amb_options *options,
                                     struct amb_error *error, struct amb_conn **out)
{
    int64_t deadline = amb_deadline_ns(amb_clock_monotonic_ns(), options->connect_timeout_ns);
    struct amb_backoff backoff;
    amb_backoff_init(&backoff, options->reconnect_min_ns, options->reconnect_max_ns);
    for (;;) {
        enum amb_status status = amb_connect_session(urls, options, NULL, deadline, -1, error, out);
        bool may_retry = status == AMB_EUNREACHABLE || status == AMB_EBUSY || status == AMB_ELOST;
        if (options->retry_first == 0 || !may_retry) {
            return status;
        }
        uint64_t chance = 0;
        (void)!getrandom(&chance, sizeof(chance), GRND_NONBLOCK);
        int64_t wait_ns = amb_backoff_next(&backoff, chance);
        if (amb_clock_monotonic_ns() > deadline - wait_ns) {
            return status;
        }
        const struct timespec ts = {.tv_sec = wait_ns / AMB_NS_PER_SEC,
                                    .tv_nsec = wait_ns % AMB_NS_PER_SEC};
        (void)nanosleep(&ts, NULL);
    }
}

/* The parts of a connection beside its session. On failure nothing is left. */
static enum amb_status complete(struct amb_conn *conn, const char *urls,
                                const struct amb_options *options, struct amb_error *error)
{
    enum amb_status status = open_fds(conn, error);
    if (status == AMB_OK) {
        status = amb_implicit_init(conn);
    }
    if (status == AMB_OK) {
        status = amb_again_init(&conn->again, urls, conn->settings.name, options);
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
        status = choose_spin(&checked, &error);
    }
    if (status == AMB_OK) {
        const char *text = option_or_environment(url, "AMB_URL");
        const char *urls = text != NULL ? text : URL_DEFAULT;
        struct amb_conn *conn = NULL;
        status = connect_first(urls, &checked, &error, &conn);
        if (status == AMB_OK) {
            status = complete(conn, urls, &checked, &error);
        }
        if (status == AMB_OK) {
            *out = conn;
        }
    }
    if (status != AMB_OK && checked.error != NULL) {
        *checked.error = error;
    }
    return status;
}
