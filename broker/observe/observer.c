/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/observe/observer.h"

#include "broker/count/counters.h"
#include "wire/base/clock.h"
#include "wire/base/list.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* Messages go first, where there are fewer processors than threads. */
#define NICE 5

static void ask_guest(struct amb_observer *observer, struct amb_observer_job *job)
{
    const struct amb_observer_guest *guest = &observer->guest;
    if (guest->visit != NULL) {
        job->status = guest->visit(guest->arg, &job->text, job->why);
    } else {
        job->status = AMB_EINVAL;
        (void)snprintf(job->why, sizeof(job->why), "this broker has no HTTP (http.listen)");
    }
}

static void job_arrived(struct amb_mail *mail, void *owner)
{
    struct amb_observer *observer = owner;
    struct amb_observer_job *job = AMB_CONTAINER_OF(mail, struct amb_observer_job, mail);
    job->text = NULL;
    job->is_last = true;
    job->status = AMB_OK;
    if (job->make != NULL || strcmp(job->query, "page") == 0) {
        if (job->make != NULL) {
            job->make(job);
        } else {
            ask_guest(observer, job);
        }
        amb_mail_post(job->to, &job->mail, job->done);
        return;
    }
    if (job->view == NULL) {
        job->status = amb_counters_view_open(
            &observer->image, job->query, job->is_shared ? &job->share : NULL,
            (uint64_t)amb_clock_monotonic_ns(), &job->view, job->why);
    }
    if (job->status == AMB_OK) {
        job->text = amb_counters_view_page(job->view, AMB_COUNTERS_PAGE_ROWS, &job->is_last);
        job->status = job->text == NULL ? AMB_ENOMEM : AMB_OK;
    }
    amb_mail_post(job->to, &job->mail, job->done);
}

static void stop_arrived(struct amb_mail *mail, void *owner)
{
    struct amb_observer *observer = owner;
    (void)mail;
    observer->is_stopping = true;
}

static void *observer_main(void *arg)
{
    struct amb_observer *observer = arg;
    (void)pthread_setname_np(pthread_self(), "amb-observer");
    (void)setpriority(PRIO_PROCESS, (id_t)gettid(), NICE); /* Of this thread alone. */
    const struct amb_observer_guest *guest = &observer->guest;
    int wait_ms = guest->turn != NULL ? 0 : -1;
    while (!observer->is_stopping) {
        struct pollfd fds[] = {{.fd = observer->inbox.bell, .events = POLLIN},
                               {.fd = guest->turn != NULL ? guest->fd : -1, .events = POLLIN}};
        bool rang =
            amb_inbox_arm(&observer->inbox) && poll(fds, 2, wait_ms) > 0 && fds[0].revents != 0;
        amb_inbox_disarm(&observer->inbox, rang);
        (void)amb_inbox_run(&observer->inbox);
        if (guest->turn != NULL) {
            wait_ms = guest->turn(guest->arg);
        }
    }
    return NULL;
}

enum amb_status amb_observer_start(struct amb_observer *observer,
                                   const struct amb_counters *counters)
{
    amb_counters_view(counters, &observer->image);
    enum amb_status status = amb_inbox_init(&observer->inbox, observer);
    if (status != AMB_OK) {
        return status;
    }
    int error = pthread_create(&observer->thread, NULL, observer_main, observer);
    if (error != 0) {
        amb_inbox_fini(&observer->inbox);
        return amb_status_from_errno(error);
    }
    observer->is_running = true;
    return AMB_OK;
}

void amb_observer_stop(struct amb_observer *observer)
{
    if (!observer->is_running) {
        return;
    }
    amb_mail_post(&observer->inbox, &observer->stop, stop_arrived);
    (void)pthread_join(observer->thread, NULL);
    amb_inbox_fini(&observer->inbox);
    observer->is_running = false;
}

void amb_observer_page(struct amb_observer *observer, struct amb_observer_job *job)
{
    amb_mail_post(&observer->inbox, &job->mail, job_arrived);
}
