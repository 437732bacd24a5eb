/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broker/door: socket files, ports that are taken, permissions, and how many may stand in front of
 * the door.
 */
#include "broker/control/door.h"
#include "tests/support/door/door_harness.h"
#include "wire/base/interface.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int listen_on(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(fd, 1), 0);
    return fd;
}

/* A folder with a socket path in it; both are the caller's to remove. */
static void make_path(char folder[32], char path[64])
{
    (void)snprintf(folder, 32, "/tmp/amb-door.XXXXXX");
    assert_non_null(mkdtemp(folder));
    (void)snprintf(path, 64, "%s/s", folder);
}

static enum amb_status try_path(struct door *door, const char *path, const char *parameters,
                                char *error, size_t error_size)
{
    char url[256];
    (void)snprintf(url, sizeof(url), "unix://%s%s", path, parameters);
    const char *const urls[] = {url, NULL};
    return door_try(door, urls, NULL, error, error_size);
}

static void test_a_stale_socket_file_is_replaced(void **state)
{
    (void)state;
    char folder[32], path[64], error[256] = "";
    struct door door;
    make_path(folder, path);
    (void)close(listen_on(path)); /* As a broker that was killed leaves it. */
    assert_int_equal(access(path, F_OK), 0);
    assert_int_equal(try_path(&door, path, "", error, sizeof(error)), AMB_OK);
    door_close(&door);
    assert_int_equal(rmdir(folder), 0); /* It took its file along. */
}

static void test_a_socket_that_answers_is_left_alone(void **state)
{
    (void)state;
    char folder[32], path[64], error[256] = "", expected[128];
    struct door door;
    make_path(folder, path);
    int fd = listen_on(path);
    assert_int_equal(try_path(&door, path, "", error, sizeof(error)), AMB_EUNREACHABLE);
    (void)snprintf(expected, sizeof(expected), "%s: address in use by pid %d", path, (int)getpid());
    assert_string_equal(error, expected);
    /* Its backlog is full now: it still does not look stale. */
    for (int i = 0; i < 5; i++) {
        assert_int_equal(try_path(&door, path, "", error, sizeof(error)), AMB_EUNREACHABLE);
    }
    assert_int_equal(access(path, F_OK), 0);
    (void)close(fd);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0);
}

static void test_a_file_that_is_no_socket_stays(void **state)
{
    (void)state;
    char folder[32], path[64], error[256] = "";
    struct door door;
    make_path(folder, path);
    int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    (void)close(fd);
    assert_int_equal(try_path(&door, path, "", error, sizeof(error)), AMB_EUNREACHABLE);
    assert_non_null(strstr(error, "is no socket"));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0);
    assert_int_equal(try_path(&door, path, "", error, sizeof(error)), AMB_EUNREACHABLE);
    assert_non_null(strstr(error, "No such file or directory"));
}

static void test_a_file_that_has_become_another_s_stays(void **state)
{
    (void)state;
    char folder[32], path[64], error[256] = "";
    struct door door;
    make_path(folder, path);
    assert_int_equal(try_path(&door, path, "", error, sizeof(error)), AMB_OK);
    assert_int_equal(unlink(path), 0);
    int keep = open(folder, O_RDONLY | O_CLOEXEC); /* So that the inode is not used again. */
    int other = listen_on(path);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    amb_broker_drain(door.broker);
    assert_int_equal(amb_broker_wait(door.broker), 0);
    amb_broker_destroy(&door.broker);
    amb_config_destroy(&door.config);
    (void)rmdir(door.folder);
    if (access(path, F_OK) != 0) {
        skip(); /* This file system gave the new file the old one's inode. */
    }
    assert_int_equal(unlink(path), 0);
    (void)close(other);
    (void)close(keep);
    assert_int_equal(rmdir(folder), 0);
}

static void test_a_port_that_is_taken_is_named_with_its_owner(void **state)
{
    (void)state;
    struct door door, second;
    char url[64], error[256] = "", expected[128];
    door_open(&door, NULL);
    (void)snprintf(url, sizeof(url), "tcp://127.0.0.1:%u", door.tcp_port);
    const char *const urls[] = {url, NULL};
    assert_int_equal(door_try(&second, urls, NULL, error, sizeof(error)), AMB_EUNREACHABLE);
    (void)snprintf(expected, sizeof(expected), "%s: address in use by pid %d", url, (int)getpid());
    assert_string_equal(error, expected);
    door_close(&door);
}

static void test_addresses_that_are_not_ours_are_refused(void **state)
{
    (void)state;
    static const char *const insecure[] = {"server.insecure=true", NULL};
    static const char *const far[] = {"tcp://192.0.2.1:4733", NULL};
    static const char *const nowhere[] = {"tcp://no-such-host.invalid:4733", NULL};
    struct door door;
    char error[256] = "";
    assert_int_equal(door_try(&door, far, insecure, error, sizeof(error)), AMB_EUNREACHABLE);
    assert_non_null(strstr(error, "tcp://192.0.2.1:4733: "));
    assert_int_equal(door_try(&door, nowhere, insecure, error, sizeof(error)), AMB_EUNREACHABLE);
    assert_non_null(strstr(error, "no-such-host.invalid"));
}

static void test_an_interface_s_name_opens_its_addresses(void **state)
{
    (void)state;
    static const char *const urls[] = {"tcp://lo:0", NULL};
    struct amb_interfaces here;
    struct door door;
    char error[256] = "";
    assert_int_equal(amb_interfaces_read(&here), AMB_OK);
    const struct amb_interface *row = amb_interfaces_next(&here, "lo", NULL);
    if (row == NULL) {
        amb_interfaces_fini(&here);
        skip();
    }
    if (door_try(&door, urls, NULL, error, sizeof(error)) != AMB_OK) {
        fail_msg("%s", error);
    }
    for (; row != NULL; row = amb_interfaces_next(&here, "lo", row)) {
        char address[AMB_INTERFACE_ADDRESS_MAX];
        amb_interface_text(row, address);
        assert_non_null(strstr(amb_broker_urls(door.broker), address));
    }
    amb_interfaces_fini(&here);
    door_close(&door);
}

static void expect_mode(const char *parameters, unsigned mode)
{
    char folder[32], path[64], error[256] = "";
    struct door door;
    struct stat st;
    make_path(folder, path);
    if (try_path(&door, path, parameters, error, sizeof(error)) != AMB_OK) {
        fail_msg("%s", error);
    }
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, mode);
    door_close(&door);
    assert_int_equal(rmdir(folder), 0);
}

static void test_mode_is_0660_or_what_the_url_says(void **state)
{
    (void)state;
    mode_t before = umask(0077);
    expect_mode("", 0660);
    expect_mode("?mode=0666", 0666);
    expect_mode("?mode=0600", 0600);
    assert_int_equal(umask(before), 0077); /* It puts the mask back. */
}

static void test_group_is_what_the_url_says(void **state)
{
    (void)state;
    char folder[32], path[64], parameters[96], error[256] = "";
    struct door door;
    struct stat st;
    const struct group *group = getgrgid(getegid());
    if (group == NULL) {
        skip();
        return;
    }
    make_path(folder, path);
    (void)snprintf(parameters, sizeof(parameters), "?group=%s", group->gr_name);
    assert_int_equal(try_path(&door, path, parameters, error, sizeof(error)), AMB_OK);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_gid, getegid());
    door_close(&door);
    assert_int_not_equal(try_path(&door, path, "?group=no-such-group", error, sizeof(error)),
                         AMB_OK);
    assert_non_null(strstr(error, "no such group"));
    assert_int_equal(rmdir(folder), 0); /* The refused one left nothing. */
}

static void test_max_connections_counts_sessions_not_their_streams(void **state)
{
    (void)state;
    static const char *const options[] = {"server.max_connections=2", NULL};
    struct door door;
    struct door_client one, two, three, stream;
    struct door_session session;
    door_open(&door, options);
    door_login_unix(&door, &one);
    door_connect_tcp(&door, &two);
    door_login(&two, "", &session);
    door_connect_unix(&door, &three);
    door_send_hello(&three, "");
    amb_control_free(door_expect(&three, AMB__CONTROL__CONTROL__BODY_CHALLENGE));
    door_send_auth(&three, NULL);
    door_expect_error(&three, 0, AMB_EBUSY, "limit: 2 connections (server.max_connections");
    door_expect_closed(&three);
    door_disconnect(&three);
    /* The last client's own stream is not one too many. */
    door_connect_tcp(&door, &stream);
    Amb__Control__Attach attach;
    amb__control__attach__init(&attach);
    attach.session = session.session;
    attach.generation = session.generation;
    attach.secret = session.secret;
    Amb__Control__Control message;
    amb__control__control__init(&message);
    message.id = 1;
    message.body_case = AMB__CONTROL__CONTROL__BODY_ATTACH;
    message.attach = &attach;
    door_send(&stream, &message);
    door_expect_ok(&stream, 1);
    door_disconnect(&stream);
    door_disconnect(&two);
    door_disconnect(&one);
    door_close(&door);
}

static void test_a_client_s_own_last_session_does_not_stand_in_its_way(void **state)
{
    (void)state;
    static const char *const options[] = {"server.max_connections=1", NULL};
    struct door door;
    struct door_client one, two, three;
    struct door_session session, wrong;
    door_open(&door, options);
    door_connect_unix(&door, &one);
    door_login(&one, "", &session);
    wrong = session;
    wrong.secret++;
    door_connect_unix(&door, &three);
    door_send_auth_after(&three, &wrong, 1); /* Not its own. */
    door_expect_error(&three, 0, AMB_EBUSY, "max_connections");
    door_disconnect(&three);
    door_connect_unix(&door, &two); /* The broker has not noticed that the first one is over. */
    door_send_auth_after(&two, &session, 1);
    amb_control_free(door_expect(&two, AMB__CONTROL__CONTROL__BODY_WELCOME));
    door_expect_closed(&one);
    door_disconnect(&one);
    door_disconnect(&two);
    door_close(&door);
}

/* A moment before it binds: the old file is stale for both. */
static void test_brokers_that_start_together_do_not_remove_each_other_s_socket(void **state)
{
    (void)state;
    char folder[32], path[64], url[128];
    make_path(folder, path);
    (void)snprintf(url, sizeof(url), "unix://%s", path);
    int lock = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(flock(lock, LOCK_EX), 0); /* As a broker that is just looking. */
    (void)close(listen_on(path));
    struct door door;
    char error[256] = "";
    pid_t pid = fork();
    if (pid == 0) { /* The other one gets done 200 ms later, and goes on listening. */
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)usleep(200000);
        (void)unlink(path);
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        memcpy(address.sun_path, path, sizeof(path));
        int fd = socket(AF_UNIX, SOCK_STREAM, 0);
        (void)bind(fd, (const struct sockaddr *)&address, sizeof(address));
        (void)listen(fd, 1);
        (void)flock(lock, LOCK_UN);
        for (;;) {
            (void)pause();
        }
    }
    assert_true(pid > 0);
    (void)close(lock);
    assert_int_equal(try_path(&door, path, "", error, sizeof(error)), AMB_EUNREACHABLE);
    assert_non_null(strstr(error, "address in use"));
    assert_int_equal(access(path, F_OK), 0);
    (void)kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0);
}

static void test_room_that_was_there_at_hello_may_be_gone_at_auth(void **state)
{
    (void)state;
    static const char *const options[] = {"server.max_connections=1", NULL};
    struct door door;
    struct door_client one, two;
    door_open(&door, options);
    door_connect_unix(&door, &one);
    door_connect_unix(&door, &two);
    door_send_hello(&one, "");
    door_send_hello(&two, "");
    amb_control_free(door_expect(&one, AMB__CONTROL__CONTROL__BODY_CHALLENGE));
    amb_control_free(door_expect(&two, AMB__CONTROL__CONTROL__BODY_CHALLENGE));
    door_send_auth(&one, NULL);
    amb_control_free(door_expect(&one, AMB__CONTROL__CONTROL__BODY_WELCOME));
    door_send_auth(&two, NULL);
    door_expect_error(&two, 0, AMB_EBUSY, "max_connections");
    door_disconnect(&one);
    door_disconnect(&two);
    door_close(&door);
}

static void stand_in_front_of(struct door *door)
{
    static struct door_client crowd[AMB_HALF_OPEN_MAX + 8];
    struct door_client honest, halfway;
    const unsigned count = door->config->server.max_half_open + 8; /* as many as may be, and some */
    door_connect_unix(door, &halfway); /* Older than all of them, but it has spoken. */
    door_send_hello(&halfway, "");
    amb_control_free(door_expect(&halfway, AMB__CONTROL__CONTROL__BODY_CHALLENGE));
    for (unsigned i = 0; i < count; i++) {
        door_connect_unix(door, &crowd[i]);
    }
    door_login_unix(door, &honest);
    for (unsigned i = 0; i < 10; i++) { /* Two for the honest ones. */
        door_expect_closed(&crowd[i]);
    }
    uint8_t byte;
    assert_int_equal(recv(crowd[10].fd, &byte, 1, MSG_DONTWAIT), -1);
    assert_int_equal(errno, EAGAIN);
    door_pub_open(&honest, 0, "a");
    door_send_auth(&halfway, NULL);
    amb_control_free(door_expect(&halfway, AMB__CONTROL__CONTROL__BODY_WELCOME));
    door_disconnect(&halfway);
    for (unsigned i = 0; i < count; i++) {
        door_disconnect(&crowd[i]);
    }
    door_disconnect(&honest);
}

static void test_where_too_many_stand_silent_the_oldest_goes(void **state)
{
    (void)state;
    struct door door;
    door_open(&door, NULL);
    stand_in_front_of(&door);
    door_close(&door);
}

/* Hello costs nothing. Clients that come behind such a crowd are heard. */
static void test_where_too_many_stand_half_through_the_oldest_goes(void **state)
{
    (void)state;
    struct door door;
    struct rlimit files, few;
    static struct door_client crowd[64];
    struct door_client silent[4], honest;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
    few = files;
    few.rlim_cur = 400;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    door_open(&door, NULL);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
    const unsigned count = door.config->server.max_half_open - 1;
    assert_true(count < 64);
    for (unsigned i = 0; i < count; i++) {
        door_connect_unix(&door, &crowd[i]);
        door_send_hello(&crowd[i], "");
        amb_control_free(door_expect(&crowd[i], AMB__CONTROL__CONTROL__BODY_CHALLENGE));
    }
    door_connect_unix(&door, &honest);
    for (unsigned i = 0; i < 4; i++) {
        door_connect_unix(&door, &silent[i]);
    }
    door_expect_closed(&crowd[0]);
    door_send_hello(&honest, "");
    amb_control_free(door_expect(&honest, AMB__CONTROL__CONTROL__BODY_CHALLENGE));
    door_send_auth(&honest, NULL);
    amb_control_free(door_expect(&honest, AMB__CONTROL__CONTROL__BODY_WELCOME));
    for (unsigned i = 0; i < 4; i++) {
        door_disconnect(&silent[i]);
    }
    for (unsigned i = 0; i < count; i++) {
        door_disconnect(&crowd[i]);
    }
    door_disconnect(&honest);
    door_close(&door);
}

/* They may not take the descriptors of clients. */
static void test_with_few_descriptors_fewer_may_stand_silent(void **state)
{
    (void)state;
    struct door door;
    struct rlimit files, few;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
    few = files;
    few.rlim_cur = 400;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    door_open(&door, NULL);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0); /* We need some for the crowd. */
    assert_in_range(door.config->server.max_half_open, 8, 50);
    stand_in_front_of(&door);
    door_close(&door);
}

static void test_listeners_share_a_round(void **state)
{
    (void)state;
    static const unsigned budgets[] = {4, 8, 63, 64};
    static const unsigned counts[] = {1, 2, 3, 5, 64};
    for (size_t b = 0; b < sizeof(budgets) / sizeof(budgets[0]); b++) {
        for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
            unsigned got[64] = {0}, budget = budgets[b], count = counts[c];
            for (uint32_t round = 0; round < count; round++) {
                unsigned sum = 0;
                for (unsigned i = 0; i < count; i++) {
                    unsigned quota = amb_door_quota(budget, i, count, round);
                    got[i] += quota;
                    sum += quota;
                }
                assert_int_equal(sum, budget); /* All of them together. */
            }
            for (unsigned i = 0; i < count; i++) {
                assert_int_equal(got[i], budget); /* Each as much as any other. */
            }
        }
    }
}

static uint64_t refused(struct door_client *asker)
{
    char *text = door_admin(asker, "status");
    const char *at = strstr(text, "\"refused_limit\":");
    assert_non_null(at);
    uint64_t count = strtoull(at + strlen("\"refused_limit\":"), NULL, 10);
    free(text);
    return count;
}

/* Has the broker closed it? */
static bool is_closed(const struct door_client *client)
{
    uint8_t byte;
    return recv(client->fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK) == 0;
}

#define CROWD 24u
#define LATE 3u

/* Nanoseconds that each close takes in the porter; 0: no more than it does. */
static _Atomic long porter_close_ns;

int __real_close(int fd);
int __wrap_close(int fd);

int __wrap_close(int fd)
{
    char name[16] = "";
    struct timespec pause = {.tv_nsec = atomic_load(&porter_close_ns)};
    if (pause.tv_nsec != 0 && pthread_getname_np(pthread_self(), name, sizeof(name)) == 0 &&
        strcmp(name, "amb-porter") == 0) {
        (void)nanosleep(&pause, NULL);
    }
    return __real_close(fd);
}

/* The porter closes a Unix connection, a moment after it was pushed out. */
static void one_goes_for_each_that_comes(void)
{
    struct door door;
    struct rlimit files, none;
    struct door_client crowd[CROWD], asker, late[LATE] = {{.fd = -1}};
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fillers[256];
    unsigned filled = 0, gone = 0;
    door_open(&door, NULL);
    memcpy(address.sun_path, door.socket_path, sizeof(door.socket_path));
    door_login_unix(&door, &asker);
    for (unsigned i = 0; i < CROWD; i++) {
        door_connect_unix(&door, &crowd[i]);
    }
    uint64_t before = refused(&asker); /* All of the crowd has been let in. */
    for (unsigned i = 0; i < LATE; i++) {
        late[i].fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_true(late[i].fd >= 0);
    }
    /* From here on this process has only the descriptors that it gives back. */
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
    none = files;
    none.rlim_cur = (rlim_t)late[LATE - 1].fd + 1;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    while (filled < 256 && (fillers[filled] = dup(asker.fd)) >= 0) {
        filled++;
    }
    assert_true(filled < 256);
    for (unsigned i = 0; i < LATE; i++) {
        assert_int_equal(connect(late[i].fd, (const struct sockaddr *)&address, sizeof(address)),
                         0);
    }
    for (unsigned i = 0; i < LATE; i++) {
        door_expect_closed(&crowd[i]);
    }
    for (unsigned i = 0; i < LATE; i++) {
        amb_control_reader_init(&late[i].reader);
        door_send_hello(&late[i], "");
        amb_control_free(door_expect(&late[i], AMB__CONTROL__CONTROL__BODY_CHALLENGE));
    }
    /* Those that came are all in, so no further one goes. */
    for (uint64_t id = 0; id < 2; id++) {
        door_send_ping(&asker, (int64_t)id);
        amb_control_free(door_expect(&asker, AMB__CONTROL__CONTROL__BODY_PONG));
    }
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
    for (unsigned i = 0; i < filled; i++) {
        (void)close(fillers[i]);
    }
    for (unsigned i = 0; i < CROWD; i++) {
        gone += is_closed(&crowd[i]);
    }
    assert_int_equal(gone, LATE);
    assert_int_equal(refused(&asker) - before, LATE);
    for (unsigned i = 0; i < CROWD; i++) {
        door_disconnect(&crowd[i]);
    }
    for (unsigned i = 0; i < LATE; i++) {
        door_disconnect(&late[i]);
    }
    door_disconnect(&asker);
    door_close(&door);
}

static void test_without_a_descriptor_one_goes_for_each_that_comes(void **state)
{
    (void)state;
    one_goes_for_each_that_comes();
}

/* As on a machine that does much else. */
static void test_one_alone_goes_however_long_its_close_takes(void **state)
{
    (void)state;
    atomic_store(&porter_close_ns, 30000000);
    one_goes_for_each_that_comes();
    atomic_store(&porter_close_ns, 0);
}

static void on_nothing(struct amb_watch *watch, uint32_t events)
{
    (void)watch, (void)events;
}

/* The kernel has no room for a watch when a pause is over: there is another pause. */
static void test_a_listener_that_cannot_be_watched_is_tried_again(void **state)
{
    (void)state;
    struct amb_control *control = calloc(1, sizeof(*control));
    assert_non_null(control);
    assert_int_equal(amb_watches_init(&control->watches), AMB_OK);
    struct amb_listener *listener = &control->listeners[control->listener_count++];
    *listener = (struct amb_listener){.control = control, .is_paused = true};
    listener->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    listener->watch.fn = on_nothing;
    control->now_ns = control->resume_accept_ns = 7;
    int epoll_fd = control->watches.epoll_fd;
    control->watches.epoll_fd = -1;
    amb_door_resume(control);
    assert_true(listener->is_paused);
    assert_true(control->resume_accept_ns > 7);
    control->watches.epoll_fd = epoll_fd;
    amb_door_resume(control);
    assert_false(listener->is_paused);
    assert_int_equal(control->resume_accept_ns, 0);
    assert_true(listener->watch.place != 0);
    (void)close(listener->fd);
    amb_watches_fini(&control->watches);
    free(control);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_stale_socket_file_is_replaced),
        cmocka_unit_test(test_a_socket_that_answers_is_left_alone),
        cmocka_unit_test(test_a_file_that_is_no_socket_stays),
        cmocka_unit_test(test_a_file_that_has_become_another_s_stays),
        cmocka_unit_test(test_a_port_that_is_taken_is_named_with_its_owner),
        cmocka_unit_test(test_addresses_that_are_not_ours_are_refused),
        cmocka_unit_test(test_an_interface_s_name_opens_its_addresses),
        cmocka_unit_test(test_mode_is_0660_or_what_the_url_says),
        cmocka_unit_test(test_group_is_what_the_url_says),
        cmocka_unit_test(test_max_connections_counts_sessions_not_their_streams),
        cmocka_unit_test(test_room_that_was_there_at_hello_may_be_gone_at_auth),
        cmocka_unit_test(test_a_client_s_own_last_session_does_not_stand_in_its_way),
        cmocka_unit_test(test_brokers_that_start_together_do_not_remove_each_other_s_socket),
        cmocka_unit_test(test_listeners_share_a_round),
        cmocka_unit_test(test_a_listener_that_cannot_be_watched_is_tried_again),
        cmocka_unit_test(test_without_a_descriptor_one_goes_for_each_that_comes),
        cmocka_unit_test(test_one_alone_goes_however_long_its_close_takes),
        cmocka_unit_test(test_with_few_descriptors_fewer_may_stand_silent),
        cmocka_unit_test(test_where_too_many_stand_silent_the_oldest_goes),
        cmocka_unit_test(test_where_too_many_stand_half_through_the_oldest_goes),
    };
    return cmocka_run_group_tests_name("broker/door", tests, NULL, NULL);
}
