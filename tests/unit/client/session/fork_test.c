/* SPDX-License-Identifier: Apache-2.0 */
/* A child process with its parent's handles: it may do nothing, and it costs the parent nothing.
 */
#include "tests/unit/client/session.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static atomic_bool has_forker;
static atomic_int looks, losses;
static _Thread_local bool is_inside;

/* As another thread may: it gets the number that was closed, and forks. Its child has it. */
static void take_and_fork(int fd)
{
    is_inside = true;
    int own = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, fd);
    pid_t pid = own == fd ? fork() : -1;
    if (pid == 0) {
        _exit(fcntl(own, F_GETFD) < 0);
    }
    int status = 0;
    if (pid > 0 && waitpid(pid, &status, 0) == pid) {
        atomic_fetch_add(&looks, 1);
        atomic_fetch_add(&losses, status != 0);
    }
    (void)syscall(SYS_close, own);
    is_inside = false;
}

int close(int fd)
{
    int result = (int)syscall(SYS_close, fd);
    if (atomic_load(&has_forker) && !is_inside) {
        take_and_fork(fd);
    }
    return result;
}

static int child(struct session *s, struct amb_pub *pub, struct amb_sub *sub, struct amb_msg *held)
{
    struct amb_msg *msg;
    struct amb_pub *pub2;
    bool good = amb_pub_send(pub, "x", 1, AMB_FOREVER) == AMB_EFORKED &&
                amb_publish(s->conn, "a", "x", 1, AMB_FOREVER) == AMB_EFORKED &&
                amb_next(sub, AMB_FOREVER, &msg) == AMB_EFORKED &&
                amb_poll(s->conn, AMB_FOREVER) == AMB_EFORKED &&
                amb_flush(s->conn, AMB_FOREVER) == AMB_EFORKED &&
                amb_pub_open(s->conn, "b", NULL, &pub2) == AMB_EFORKED && amb_fd(s->conn) == -1 &&
                amb_last_error(s->conn).status == AMB_EFORKED;
    amb_stop(s->conn);
    amb_msg_release(held);
    good = good && amb_pub_close(pub, AMB_FOREVER) == AMB_EFORKED &&
           amb_sub_close(sub, AMB_FOREVER) == AMB_EFORKED &&
           amb_close(s->conn, AMB_FOREVER) == AMB_EFORKED;
    return good ? 0 : 1;
}

static void a_child_is_told_and_the_parent_goes_on(void **state)
{
    struct session s;
    struct amb_pub *pub;
    struct amb_sub *sub;
    struct amb_msg *held;
    session_open(&s, *state, NULL);
    assert_int_equal(amb_pub_open(s.conn, "a", NULL, &pub), AMB_OK);
    assert_int_equal(amb_subscribe(s.conn, "t.>", NULL, &sub), AMB_OK);
    fake_broker_deliver(s.fake, 0, 1, "m", 1, 1, 0);
    assert_int_equal(amb_next(sub, 5 * AMB_SEC, &held), AMB_OK);
    pid_t pid = fork();
    if (pid == 0) {
        _exit(child(&s, pub, sub, held));
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_int_equal(amb_pub_send(pub, "x", 1, AMB_FOREVER), AMB_OK);
    assert_int_equal(amb_pub_flush(pub, 0, 5 * AMB_SEC), AMB_OK);
    assert_payload(held, "m0");
    amb_msg_release(held);
    FAKE_WAIT(s.fake, &s.seen, s.seen.release[0] == 1);
    session_close(&s);
}

static void a_child_does_not_keep_the_session_alive(void **state)
{
    struct session s;
    session_open(&s, *state, NULL);
    int gate[2];
    assert_int_equal(pipe(gate), 0);
    pid_t pid = fork();
    if (pid == 0) {
        char byte;
        (void)close(gate[1]);
        (void)!read(gate[0], &byte, 1);
        _exit(0);
    }
    assert_int_equal(amb_close(s.conn, AMB_SEC), AMB_OK);
    FAKE_WAIT(s.fake, &s.seen, s.seen.hung_up); /* the child still runs */
    (void)close(gate[0]);
    (void)close(gate[1]);
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    fake_broker_stop(s.fake);
}

static void a_child_keeps_what_has_a_number_that_was_ours(void **state)
{
    struct session s;
    session_open(&s, *state, NULL);
    atomic_store(&looks, 0);
    atomic_store(&has_forker, true);
    enum amb_status status = amb_close(s.conn, AMB_SEC);
    atomic_store(&has_forker, false);
    fake_broker_stop(s.fake);
    assert_int_equal(status, AMB_OK);
    assert_true(atomic_load(&looks) > 3);
    assert_int_equal(atomic_load(&losses), 0);
}

int main(void)
{
    static struct fake_options ring = {.link = AMB_LINK_RING};
    static struct fake_options stream = {.link = AMB_LINK_STREAM};
#define BOTH(test) cmocka_unit_test_prestate(test, &ring), cmocka_unit_test_prestate(test, &stream)
    const struct CMUnitTest tests[] = {
        BOTH(a_child_is_told_and_the_parent_goes_on),
        BOTH(a_child_does_not_keep_the_session_alive),
        BOTH(a_child_keeps_what_has_a_number_that_was_ours),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
