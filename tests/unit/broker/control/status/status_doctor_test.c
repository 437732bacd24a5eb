/* SPDX-License-Identifier: Apache-2.0 */
/* The clients that the doctor asks /proc about, where they are too many for one question. */
#include "broker/control/status/status_doctor.h"

#include "broker/doctor/doctor_clients.h"
#include "broker/doctor/doctor_files.h"
#include "tests/support/doctor/findings_try.h"
#include "tests/support/door/stepped_control.h"

#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#define CLIENTS (2 * AMB_DOCTOR_ASKED_MAX + 10)
#define MORE (3 * AMB_DOCTOR_ASKED_MAX)
#define PATIENCE_MS 20000
/* Above the largest number of a process: there is none. */
#define FIRST_PID 5000000

static struct amb_client *clients[CLIENTS + MORE];
static int fds[CLIENTS + MORE];
static unsigned count;

/* Says nothing about its namespaces. */
static void come(void)
{
    clients[count] = stepped_connect(true, &fds[count]);
    clients[count]->pid = FIRST_PID + (pid_t)count;
    clients[count]->has_session = true;
    count++;
}

struct answer {
    bool is_here;
    struct amb_doctor_proc proc;
    json_t *rows;
};

static void answered(struct amb_mail *mail, void *owner)
{
    (void)owner;
    json_t *files;
    struct amb_doctor_proc proc;
    struct answer *answer = amb_doctor_look_take(mail, &files, &proc);
    answer->proc = proc;
    answer->rows = amb_status_doctor(stepped_control(), files, &proc);
    answer->is_here = true;
    json_decref(files);
}

static void ask(struct answer *answer)
{
    struct amb_inbox *inbox = &stepped_control()->inbox;
    struct pollfd bell = {.fd = inbox->bell, .events = POLLIN};
    *answer = (struct answer){.is_here = false};
    assert_non_null(amb_status_doctor_look(stepped_control(), answered, answer));
    while (!answer->is_here) {
        if (amb_inbox_arm(inbox)) {
            assert_int_equal(poll(&bell, 1, PATIENCE_MS), 1);
            amb_inbox_disarm(inbox, true);
        }
        (void)amb_inbox_run(inbox);
    }
}

/* Marks the clients that /proc was asked about. */
static void mark(const struct answer *answer, bool *is_seen)
{
    for (unsigned i = 0; i < answer->proc.asked; i++) {
        pid_t at = answer->proc.of[i].pid - FIRST_PID;
        assert_in_range(at, 0, CLIENTS + MORE - 1);
        is_seen[at] = true;
    }
}

static void expect_left_out(struct answer *answer, unsigned wanted)
{
    char text[64];
    (void)snprintf(text, sizeof(text), "namespaces, %u were left out", wanted);
    assert_int_equal(answer->proc.left_out, wanted);
    expect_found(answer->rows, "clients-left-out", text);
}

static unsigned unseen(const bool *is_seen, unsigned of)
{
    unsigned left = 0;
    for (unsigned i = 0; i < of; i++) {
        left += !is_seen[i];
    }
    return left;
}

static int leave(void **state)
{
    (void)state;
    for (unsigned i = 0; i < count; i++) {
        clients[i]->has_session = false;
        amb_client_end(clients[i], "the test is over");
        (void)close(fds[i]);
    }
    amb_client_bury(stepped_control());
    count = 0;
    return 0;
}

/* Questions after each other look at all of them, though more come all the time. */
static void test_silent_clients_take_turns(void **state)
{
    (void)state;
    bool is_seen[CLIENTS + MORE] = {false};
    struct answer answer;
    while (count < CLIENTS) {
        come();
    }
    ask(&answer);
    mark(&answer, is_seen);
    assert_int_equal(answer.proc.asked, AMB_DOCTOR_ASKED_MAX);
    assert_int_equal(unseen(is_seen, CLIENTS), CLIENTS - AMB_DOCTOR_ASKED_MAX);
    expect_left_out(&answer, CLIENTS - AMB_DOCTOR_ASKED_MAX);
    for (unsigned i = 0; i < 2; i++) {
        for (unsigned k = 0; k < AMB_DOCTOR_ASKED_MAX; k++) {
            come();
        }
        ask(&answer);
        mark(&answer, is_seen);
        json_decref(answer.rows);
    }
    assert_int_equal(unseen(is_seen, CLIENTS), 0);
    for (unsigned i = 0; i <= count / AMB_DOCTOR_ASKED_MAX; i++) {
        ask(&answer);
        mark(&answer, is_seen);
        json_decref(answer.rows);
    }
    assert_int_equal(unseen(is_seen, count), 0); /* Those that came later have their turns, too. */
}

#define T(test) cmocka_unit_test_teardown(test, leave)

int main(void)
{
    static const struct CMUnitTest tests[] = {
        T(test_silent_clients_take_turns),
    };
    return cmocka_run_group_tests_name("broker/status_doctor", tests, NULL, NULL);
}
