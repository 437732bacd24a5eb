/* SPDX-License-Identifier: Apache-2.0 */
/* The fix of a broker that does not answer. */
#include "tools/ctl/doctor_reach.h"

#include "tests/support/link/ucx_tree.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static void expect(const char *url, enum amb_exit code, const char *part)
{
    char text[512];
    if (strstr(amb_doctor_reach(url, code, text, sizeof(text)), part) == NULL) {
        fail_msg("%s: '%s', wanted '%s'", url, text, part);
    }
}

static void each_obstacle_has_its_own_words(void **state)
{
    (void)state;
    char url[160];
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", tree_path("b.sock"));
    (void)snprintf(url, sizeof(url), "unix://%s", address.sun_path);
    expect(url, AMB_EXIT_UNAVAILABLE, "there is no ");
    tree_text("b.sock", "");
    expect(url, AMB_EXIT_UNAVAILABLE, "is no socket");
    assert_int_equal(unlink(address.sun_path), 0);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    expect(url, AMB_EXIT_UNAVAILABLE, "nobody listens");
    assert_int_equal(symlink(address.sun_path, tree_path("link.sock")), 0);
    (void)snprintf(url, sizeof(url), "unix://%s", tree_path("link.sock"));
    expect(url, AMB_EXIT_UNAVAILABLE, "nobody listens");
    assert_int_equal(close(fd), 0);
    expect(url, AMB_EXIT_FORBIDDEN, "AMB_CREDENTIALS");
    expect("tcp://host9:4733", AMB_EXIT_UNAVAILABLE, "see on host9");
    expect("ftp://x", AMB_EXIT_UNAVAILABLE, "mend the URL");
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, tree_make, tree_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {CASE(each_obstacle_has_its_own_words)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
