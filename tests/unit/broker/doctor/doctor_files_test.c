/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of the doctor, on a broker whose socket, a folder of UCX or /proc lies on a file system
 * that hangs. The control thread goes on, the answer says what is missing, and the broker ends.
 */
#include "broker/doctor/doctor_files.h"

#include "tests/support/door/door_harness.h"
#include "wire/base/assert.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TRIES_MAX 4u
#define SILENT "\"files-silent\""
#define LIMITS "/proc/self/limits"
#define UCX_FOLDER "/no/such/ucx"

/* ---- a file system ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static char hangs[64]; /* "": nothing does */
static unsigned waiting, most;

int __real_stat(const char *path, struct stat *out);
int __wrap_stat(const char *path, struct stat *out);
FILE *__real_fopen(const char *path, const char *mode);
FILE *__wrap_fopen(const char *path, const char *mode);
int __real_access(const char *path, int mode);
int __wrap_access(const char *path, int mode);
ssize_t __real_readlink(const char *path, char *out, size_t size);
ssize_t __wrap_readlink(const char *path, char *out, size_t size);

static void pass(const char *path)
{
    (void)pthread_mutex_lock(&lock);
    if (strcmp(path, hangs) == 0) {
        waiting++;
        most = waiting > most ? waiting : most;
        (void)pthread_cond_broadcast(&changed);
        while (strcmp(path, hangs) == 0) {
            (void)pthread_cond_wait(&changed, &lock);
        }
        waiting--;
        (void)pthread_cond_broadcast(&changed);
    }
    (void)pthread_mutex_unlock(&lock);
}

int __wrap_stat(const char *path, struct stat *out)
{
    pass(path);
    return __real_stat(path, out);
}

int __wrap_access(const char *path, int mode)
{
    pass(path);
    return __real_access(path, mode);
}

ssize_t __wrap_readlink(const char *path, char *out, size_t size)
{
    pass(path);
    return __real_readlink(path, out, size);
}

FILE *__wrap_fopen(const char *path, const char *mode)
{
    pass(path);
    return __real_fopen(path, mode);
}

static void hang(const char *path)
{
    (void)pthread_mutex_lock(&lock);
    (void)snprintf(hangs, sizeof(hangs), "%s", path);
    most = 0;
    (void)pthread_cond_broadcast(&changed);
    (void)pthread_mutex_unlock(&lock);
}

static void await_waiting(unsigned count)
{
    (void)pthread_mutex_lock(&lock);
    while (waiting != count) {
        (void)pthread_cond_wait(&changed, &lock);
    }
    (void)pthread_mutex_unlock(&lock);
}

/* ---- looks that are left ---- */

#define LEFT_MAX 64u

static pthread_t left[LEFT_MAX]; /* under lock; they go on by themselves */
static unsigned left_count;

int __wrap_pthread_detach(pthread_t thread);

/* The thread is not detached: a test waits for its end. */
int __wrap_pthread_detach(pthread_t thread)
{
    (void)pthread_mutex_lock(&lock);
    amb_assert(left_count < LEFT_MAX);
    left[left_count++] = thread;
    (void)pthread_mutex_unlock(&lock);
    return 0;
}

/* Nothing hangs, and nobody asks. A look that is late would wait at the next test's file, and count
 * as one of its looks. */
static void await_left(void)
{
    (void)pthread_mutex_lock(&lock);
    while (left_count > 0) {
        pthread_t thread = left[--left_count];
        (void)pthread_mutex_unlock(&lock);
        assert_int_equal(pthread_join(thread, NULL), 0);
        (void)pthread_mutex_lock(&lock);
    }
    (void)pthread_mutex_unlock(&lock);
}

static bool answers(struct door_client *client, const char *query, const char *part)
{
    char *text = door_admin(client, query);
    bool is_there = strstr(text, part) != NULL;
    free(text);
    return is_there;
}

/* A machine may be too busy for a look in AMB_DOCTOR_FILES_NS, but not again and again. */
static void expect_looks(struct door_client *asker)
{
    unsigned tries = 0;
    await_left();
    while (answers(asker, "doctor", SILENT)) {
        assert_true(++tries < TRIES_MAX);
        await_left();
    }
}

/* ---- tests ---- */

/* NULL: the socket's folder. */
static void go_on_while_it_hangs(const char *path)
{
    struct door door;
    struct door_client asker, other;
    door_open(&door, NULL);
    door_login_unix(&door, &asker);
    door_login_unix(&door, &other);
    hang(path == NULL ? door.folder : path);
    uint64_t id = door_ask_admin(&asker, "doctor");
    await_waiting(1);
    assert_true(answers(&other, "ping", "[]"));
    Amb__Control__Control *reply = door_expect(&asker, AMB__CONTROL__CONTROL__BODY_ADMIN_REPLY);
    assert_int_equal(reply->id, id);
    assert_non_null(memmem(reply->admin_reply->json.data, reply->admin_reply->json.len, SILENT,
                           strlen(SILENT)));
    amb_control_free(reply);
    hang("");
    await_waiting(0);
    expect_looks(&asker);
    door_disconnect(&asker);
    door_disconnect(&other);
    door_close(&door);
    await_left();
}

static void test_the_control_thread_goes_on_while_a_look_hangs(void **state)
{
    (void)state;
    go_on_while_it_hangs(NULL);
}

/* Limits, memory and processors are files of the kernel, and looked at beside the others. */
static void test_the_control_thread_goes_on_while_proc_hangs(void **state)
{
    (void)state;
    go_on_while_it_hangs(LIMITS);
}

/* The clients of this test do not say where they are. */
static void test_the_control_thread_goes_on_while_the_namespaces_of_a_client_hang(void **state)
{
    char path[64];
    (void)state;
    (void)snprintf(path, sizeof(path), "/proc/%d/ns/ipc", (int)getpid());
    go_on_while_it_hangs(path);
}

static void test_the_control_thread_goes_on_while_the_environment_hangs(void **state)
{
    (void)state;
    go_on_while_it_hangs("/proc/self/environ");
}

static void test_each_row_of_the_machine_is_there_once(void **state)
{
    static const char *const checks[] = {"\"memlock\"", "\"descriptors\"", "\"/dev/shm\""};
    struct door door;
    struct door_client asker;
    (void)state;
    door_open(&door, NULL);
    door_login_unix(&door, &asker);
    char *text = door_admin(&asker, "doctor");
    for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++) {
        const char *first = strstr(text, checks[i]);
        assert_non_null(first);
        assert_null(strstr(first + 1, checks[i]));
    }
    free(text);
    door_disconnect(&asker);
    door_close(&door);
}

/* UCX is not loaded, so the doctor looks for one that could be. */
static void test_the_control_thread_goes_on_while_a_folder_of_ucx_hangs(void **state)
{
    (void)state;
    const char *before = getenv("LD_LIBRARY_PATH");
    char kept[4096] = "";
    if (before != NULL) {
        assert_true(strlen(before) < sizeof(kept));
        (void)strcpy(kept, before);
    }
    assert_int_equal(setenv("LD_LIBRARY_PATH", UCX_FOLDER, 1), 0);
    go_on_while_it_hangs(UCX_FOLDER "/libucp.so.0");
    assert_int_equal(
        before == NULL ? unsetenv("LD_LIBRARY_PATH") : setenv("LD_LIBRARY_PATH", kept, 1), 0);
}

static void test_looks_that_hang_have_a_limit(void **state)
{
    struct door door;
    struct door_client askers[AMB_DOCTOR_LOOKS_MAX + 1];
    (void)state;
    door_open(&door, NULL);
    hang(door.folder);
    for (unsigned i = 0; i <= AMB_DOCTOR_LOOKS_MAX; i++) {
        door_login_unix(&door, &askers[i]);
        (void)door_ask_admin(&askers[i], "doctor");
    }
    for (unsigned i = 0; i <= AMB_DOCTOR_LOOKS_MAX; i++) {
        amb_control_free(door_expect(&askers[i], AMB__CONTROL__CONTROL__BODY_ADMIN_REPLY));
        door_disconnect(&askers[i]);
    }
    await_waiting(AMB_DOCTOR_LOOKS_MAX);
    assert_int_equal(most, AMB_DOCTOR_LOOKS_MAX);
    hang("");
    await_waiting(0);
    door_close(&door);
    await_left();
}

static void test_a_broker_ends_while_a_look_hangs(void **state)
{
    struct door door;
    struct door_client asker;
    (void)state;
    door_open(&door, NULL);
    door_login_unix(&door, &asker);
    hang(door.folder);
    (void)door_ask_admin(&asker, "doctor");
    await_waiting(1);
    door_disconnect(&asker);
    door_close(&door);
    hang("");
    await_waiting(0);
    await_left();
}

#define T(test) cmocka_unit_test(test)

int main(void)
{
    static const struct CMUnitTest tests[] = {
        T(test_the_control_thread_goes_on_while_a_look_hangs),
        T(test_the_control_thread_goes_on_while_proc_hangs),
        T(test_the_control_thread_goes_on_while_the_namespaces_of_a_client_hang),
        T(test_the_control_thread_goes_on_while_the_environment_hangs),
        T(test_each_row_of_the_machine_is_there_once),
        T(test_the_control_thread_goes_on_while_a_folder_of_ucx_hangs),
        T(test_looks_that_hang_have_a_limit),
        T(test_a_broker_ends_while_a_look_hangs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
