/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/control/service.h"

#include "broker/base/notify.h"
#include "wire/base/clock.h"
#include "wire/base/list.h"
#include "wire/base/log.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define STATUS_NS (5 * AMB_NS_PER_SEC)
/* While it drains: told this often, and so much more time is asked for each time. */
#define STOPPING_NS AMB_NS_PER_SEC
#define STOPPING_MORE_US UINT64_C(15000000)

void amb_service_init(struct amb_service *service, struct amb_notify *notify,
                      struct amb_inbox *home)
{
    memset(service, 0, sizeof(*service));
    service->notify = notify;
    service->home = home;
    service->ask_due_ns = notify->watchdog_ns == 0 ? INT64_MAX : 0;
}

void amb_service_add(struct amb_service *service, struct amb_inbox *inbox, const char *name)
{
    if (service->count == AMB_SERVICE_THREADS_MAX) {
        return;
    }
    struct amb_service_thread *thread = &service->threads[service->count++];
    thread->service = service;
    thread->inbox = inbox;
    (void)snprintf(thread->name, sizeof(thread->name), "%s", name);
}

/* The watchdog ---- */

static void feed(struct amb_service *service, int64_t took_ns)
{
    if (took_ns <= service->notify->watchdog_ns / 2) {
        amb_notify_send(service->notify, "WATCHDOG=1");
    } else {
        service->ask_due_ns = 0; /* With the next quarter the manager would lose patience. */
    }
    if (service->is_late) {
        amb_warn("all threads answer again, after %.1f s", (double)took_ns / AMB_NS_PER_SEC);
        service->is_late = false;
    }
}

/* On the control thread. */
static void answer_arrived(struct amb_mail *mail, void *owner)
{
    (void)owner;
    struct amb_service_thread *thread = AMB_CONTAINER_OF(mail, struct amb_service_thread, mail);
    struct amb_service *service = thread->service;
    thread->is_asked = false;
    service->missing--;
    if (service->missing == 0) {
        feed(service, amb_clock_monotonic_ns() - service->asked_ns);
    }
}

/* On the thread that is asked. */
static void ask_arrived(struct amb_mail *mail, void *owner)
{
    (void)owner;
    const struct amb_service_thread *thread =
        AMB_CONTAINER_OF(mail, struct amb_service_thread, mail);
    amb_mail_post(thread->service->home, mail, answer_arrived);
}

static void ask_all(struct amb_service *service, int64_t now_ns)
{
    service->asked_ns = now_ns;
    service->missing = service->count;
    for (unsigned i = 0; i < service->count; i++) {
        struct amb_service_thread *thread = &service->threads[i];
        thread->is_asked = true;
        amb_mail_post(thread->inbox, &thread->mail, ask_arrived);
    }
    if (service->count == 0) {
        feed(service, 0);
    }
}

static void say_who_is_late(struct amb_service *service)
{
    service->is_late = true;
    for (unsigned i = 0; i < service->count; i++) {
        if (service->threads[i].is_asked) {
            amb_error("thread %s has not answered for %.1f s: the watchdog is not fed",
                      service->threads[i].name,
                      (double)service->notify->watchdog_ns / 2 / AMB_NS_PER_SEC);
        }
    }
}

static void watch(struct amb_service *service, int64_t now_ns)
{
    int64_t watchdog_ns = service->notify->watchdog_ns;
    if (watchdog_ns == 0 || now_ns < service->ask_due_ns) {
        return;
    }
    service->ask_due_ns = now_ns + watchdog_ns / 4;
    if (service->missing == 0) {
        ask_all(service, now_ns);
    } else if (!service->is_late && now_ns - service->asked_ns >= watchdog_ns / 2) {
        say_who_is_late(service);
    }
}

/* The state ---- */

static void say_memory(uint64_t bytes, char *out, size_t size)
{
    const uint64_t mib = UINT64_C(1) << 20;
    if (bytes < 1024 * mib) {
        (void)snprintf(out, size, "%" PRIu64 " MiB", bytes / mib);
    } else {
        (void)snprintf(out, size, "%.1f GiB", (double)bytes / 1024 / (double)mib);
    }
}

static uint64_t rate(const struct amb_service *service, const struct amb_service_figures *figures,
                     int64_t now_ns)
{
    int64_t since_ns = now_ns - service->status_ns;
    if (service->status_ns == 0 || since_ns <= 0) {
        return 0;
    }
    double seconds = (double)since_ns / AMB_NS_PER_SEC;
    return (uint64_t)((double)(figures->messages - service->messages) / seconds + 0.5);
}

static void tell_running(struct amb_service *service, const struct amb_service_figures *figures,
                         int64_t now_ns)
{
    char used[32], max[32];
    uint64_t per_second = rate(service, figures, now_ns);
    say_memory(figures->memory, used, sizeof(used));
    say_memory(figures->memory_max, max, sizeof(max));
    amb_notify_send(service->notify,
                    "STATUS=%" PRIu64 " clients, %" PRIu64 " messages/s, memory %s of %s",
                    figures->clients, per_second, used, max);
    service->is_idle = figures->clients == 0 && per_second == 0;
    service->status_due_ns = now_ns + STATUS_NS;
    service->status_ns = now_ns;
    service->messages = figures->messages;
}

static void tell_stopping(struct amb_service *service, const struct amb_service_figures *figures,
                          int64_t now_ns)
{
    amb_notify_send(service->notify,
                    "%sSTATUS=draining: %" PRIu64 " clients, %" PRIu64
                    " messages are left\nEXTEND_TIMEOUT_USEC=%" PRIu64,
                    service->is_stopping ? "" : "STOPPING=1\n", figures->clients, figures->left,
                    STOPPING_MORE_US);
    service->is_stopping = true;
    service->is_idle = false;
    service->status_ns = now_ns;
    service->status_due_ns = now_ns + STOPPING_NS;
}

void amb_service_run(struct amb_service *service, const struct amb_service_figures *figures,
                     int64_t now_ns)
{
    bool is_due = now_ns >= service->status_due_ns;
    bool is_quiet = service->is_idle && figures->clients == 0 &&
                    figures->messages == service->messages; /* as it was told */
    if (figures->is_draining && (is_due || !service->is_stopping)) {
        tell_stopping(service, figures, now_ns);
    } else if (!figures->is_draining && is_due && !is_quiet) {
        tell_running(service, figures, now_ns);
    }
    watch(service, now_ns);
}

int64_t amb_service_due_ns(const struct amb_service *service)
{
    int64_t status_ns = service->is_idle ? INT64_MAX : service->status_due_ns;
    return status_ns < service->ask_due_ns ? status_ns : service->ask_due_ns;
}
