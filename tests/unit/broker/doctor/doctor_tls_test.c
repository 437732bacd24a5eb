/* SPDX-License-Identifier: Apache-2.0 */
/* The doctor's findings on files of TLS. */
#include "broker/doctor/doctor_tls.h"

#include "tests/support/tls/tls_made.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static struct tls_made made;
static struct amb_tls_context *context;

static int setup(void **state)
{
    (void)state;
    tls_made_init(&made);
    tls_made_plain(&made, "server", AMB_TLS_SERVER, "localhost");
    context = tls_made_server(&made, "server", AMB_TLS_CLIENTS_NONE);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    amb_tls_context_unref(&context);
    tls_made_fini(&made);
    return 0;
}

/* A row of that check has this state, and says so. */
static bool finds(const json_t *rows, const char *check, const char *how, const char *text)
{
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        if (strcmp(json_string_value(json_object_get(row, "check")), check) == 0 &&
            strcmp(json_string_value(json_object_get(row, "state")), how) == 0 &&
            strstr(json_string_value(json_object_get(row, "finding")), text) != NULL) {
            return true;
        }
    }
    return false;
}

static json_t *look(int64_t days)
{
    json_t *rows = json_array();
    amb_doctor_tls(context, (int64_t)time(NULL) + days * TLS_MADE_DAY + 3600, rows);
    return rows;
}

static void test_certificates_near_their_end_are_found(void **state)
{
    (void)state;
    json_t *rows = look(0);
    assert_true(finds(rows, "tls certificate", "ok", "server.pem expires in 99 days"));
    assert_int_equal(json_array_size(rows), 2); /* And the authority's; a key has no end. */
    json_decref(rows);
    rows = look(80);
    assert_true(finds(rows, "tls certificate", "warning", "server.pem expires in 19 days"));
    json_decref(rows);
    rows = look(101);
    assert_true(finds(rows, "tls certificate", "error", "server.pem has expired"));
    json_decref(rows);
    rows = json_array();
    amb_doctor_tls(NULL, 0, rows);
    assert_int_equal(json_array_size(rows), 0);
    json_decref(rows);
}

static void test_files_that_were_written_since_are_found(void **state)
{
    (void)state;
    struct stat st;
    const char *path = tls_made_path(&made, "server.pem");
    assert_int_equal(stat(path, &st), 0);
    json_t *rows;
    for (int seconds = -2; seconds <= 2; seconds += 4) { /* A backup keeps its time. */
        const struct timespec times[2] = {st.st_atim, {.tv_sec = st.st_mtim.tv_sec + seconds}};
        assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
        rows = look(0);
        assert_true(
            finds(rows, "tls certificate", "warning", "server.pem is newer than what is in use"));
        assert_false(finds(rows, "tls key", "warning", ""));
        json_decref(rows);
    }
    assert_int_equal(unlink(tls_made_path(&made, "server.key")), 0);
    rows = look(0);
    assert_true(finds(rows, "tls key", "warning", "server.key is not there any more"));
    json_decref(rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_certificates_near_their_end_are_found, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_files_that_were_written_since_are_found, setup,
                                        teardown),
    };
    return cmocka_run_group_tests_name("doctor_tls", tests, NULL, NULL);
}
