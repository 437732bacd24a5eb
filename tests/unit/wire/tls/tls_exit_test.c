/* SPDX-License-Identifier: Apache-2.0 */
/* A program exits while another thread of it is in TLS: it ends with its own status, many times. */
#include "tests/support/tls/tls_made.h"
#include "tests/support/tls/tls_two.h"

#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include <cmocka.h>

#define EXITS 40u
#define THREADS 3u
#define STATUS 7
#define AS_PROGRAM "program"

extern char **environ;

static struct tls_made made;

/* ---- the program, which is this file again ---- */

static void *shake_for_ever(void *arg)
{
    (void)arg;
    for (;;) {
        struct amb_tls_context *server = tls_made_server(&made, "server", AMB_TLS_CLIENTS_NONE);
        struct amb_tls_context *client = tls_made_client(&made, NULL);
        struct tls_two two;
        tls_two_make(&two, server, client, &(struct amb_tls_wish){.name = "localhost"});
        tls_two_shake(&two);
        tls_two_fini(&two);
        amb_tls_context_unref(&server);
        amb_tls_context_unref(&client);
    }
    return NULL;
}

static int run_program(const char *folder, int pause_ms)
{
    amb_tls_outlive_exit();
    (void)snprintf(made.folder, sizeof(made.folder), "%s", folder);
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, shake_for_ever, NULL) != 0) {
            return EXIT_FAILURE;
        }
    }
    (void)poll(NULL, 0, pause_ms);
    return STATUS;
}

/* ---- the test ---- */

static void test_a_program_may_exit_while_its_threads_are_in_tls(void **state)
{
    (void)state;
    char program[] = "/proc/self/exe", role[] = AS_PROGRAM, pause[8];
    for (unsigned i = 0; i < EXITS; i++) {
        pid_t pid;
        int status;
        (void)snprintf(pause, sizeof(pause), "%u", 5 + i % 20);
        char *arguments[] = {program, role, made.folder, pause, NULL};
        assert_int_equal(posix_spawn(&pid, program, NULL, NULL, arguments, environ), 0);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), STATUS);
    }
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], AS_PROGRAM) == 0) {
        return run_program(argv[2], atoi(argv[3]));
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_program_may_exit_while_its_threads_are_in_tls),
    };
    tls_made_init(&made);
    tls_made_plain(&made, "server", AMB_TLS_SERVER, "localhost");
    int failed = cmocka_run_group_tests_name("tls_exit", tests, NULL, NULL);
    tls_made_fini(&made);
    return failed;
}
