/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Questions and commands of broker-ctl. The words of a command are read, written and read again as
 * the same. Then an administrator says them to the control thread, which answers once, whatever
 * they are. Two other clients may end by that; nobody is left behind.
 */
#include "broker/control/admin/admin.h"
#include "broker/control/admin/command.h"
#include "broker/control/clients/client_io.h"
#include "broker/control/clients/hooks.h"
#include "broker/control/clients/renew.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/door/stepped_control.h"
#include "wire/base/assert.h"

#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#define CLIENTS 3u

static unsigned reloads;

static void on_reload(void *arg)
{
    (void)arg;
    reloads++;
}

static void on_drain(void *arg)
{
    (void)arg;
}

static const struct amb_control_hooks hooks = {on_reload, on_drain, NULL, NULL};

static void check_words(const char *query)
{
    struct amb_command one, again;
    char text[2 * AMB_COMMAND_WORD_MAX + 32];
    const char *why = NULL;
    bool is_good = amb_command_parse(query, &one, &why);
    if (!is_good) {
        amb_assert(why != NULL && one.kind != AMB_COMMAND_NONE);
        return;
    }
    bool is_command = one.kind != AMB_COMMAND_NONE;
    amb_assert(amb_command_format(&one, text, sizeof(text)) == is_command);
    if (is_command) {
        amb_assert(strcmp(text, query) == 0);
        amb_assert(amb_command_parse(text, &again, &why) && again.kind == one.kind &&
                   strcmp(again.word, one.word) == 0 && strcmp(again.second, one.second) == 0);
    }
}

/* Is there something of the broker's to read? */
static bool has_words(int fd)
{
    struct pollfd poller = {.fd = fd, .events = POLLIN};
    return poll(&poller, 1, 0) == 1 && (poller.revents & POLLIN) != 0;
}

/* One answer, in one piece or in several. */
static void hear_answer(int fd)
{
    bool is_last = false;
    while (!is_last) {
        amb_assert(has_words(fd));
        Amb__Control__Control *message = stepped_hear(fd);
        bool is_reply = message->body_case == AMB__CONTROL__CONTROL__BODY_ADMIN_REPLY;
        amb_assert(is_reply || message->body_case == AMB__CONTROL__CONTROL__BODY_ERROR);
        amb_assert(message->id == 9);
        is_last = !is_reply || message->admin_reply->last != 0;
        amb_control_free(message);
    }
}

static void enter(struct amb_client **client, int *fd, const char *name)
{
    *client = stepped_connect(true, fd);
    stepped_log_in(*client, *fd);
    while (has_words(*fd)) {
        amb_control_free(stepped_hear(*fd));
    }
    (void)snprintf((*client)->name, sizeof((*client)->name), "%s", name);
}

static void leave_all(struct amb_client *const *clients, const int *fds)
{
    for (unsigned i = 0; i < CLIENTS; i++) {
        (void)shutdown(fds[i], SHUT_WR);
        stepped_settle(clients[i]);
        (void)close(fds[i]);
    }
    amb_client_bury(stepped_control());
    amb_assert(stepped_control()->client_count == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct amb_control *control = stepped_control();
    struct amb_client *clients[CLIENTS];
    int fds[CLIENTS];
    char *query = fuzz_text(data, len);
    check_words(query);
    atomic_store(&control->hooks, &hooks);
    enter(&clients[0], &fds[0], "admin");
    enter(&clients[1], &fds[1], "a");
    enter(&clients[2], &fds[2], "b");
    clients[0]->uid = geteuid();
    reloads = 0;
    amb_admin_request(clients[0], 9, query);
    if (reloads > 0) {
        amb_assert(!amb_list_is_empty(&control->reloads));
        amb_admin_reloaded(control, UINT64_MAX, (len & 1) != 0, "fuzz", "[]");
    }
    stepped_settle(clients[0]);
    hear_answer(fds[0]); /* Also if it has ended itself. */
    amb_renew_some(control);
    amb_assert(amb_list_is_empty(&control->reloads) && clients[0]->work == 0);
    leave_all(clients, fds);
    amb_blocklist_fini(&control->blocked);
    free(query);
    return 0;
}
