/* SPDX-License-Identifier: Apache-2.0 */
/* Folders and modes of sockets, token files, TCP that strangers reach. */
#include "broker/doctor/doctor_doors.h"

#include "tests/support/doctor/findings_try.h"
#include "tests/support/link/ucx_tree.h"

#include <sys/socket.h>
#include <sys/un.h>

static struct amb_config *config;

/* Options as "key=value", NULL at the end. */
static void make(const char *listen, const char *const *options)
{
    char error[AMB_CONFIG_ERROR_MAX] = "";
    size_t count = 0;
    while (options != NULL && options[count] != NULL) {
        count++;
    }
    const struct amb_config_source source = {
        .options = options, .option_count = count, .listen = &listen, .listen_count = 1};
    amb_config_destroy(&config);
    if (amb_config_create(&source, error, sizeof(error), &config) != AMB_OK) {
        fail_msg("%s", error);
    }
}

static uint64_t inode; /* of the socket as the broker has made it; 0: not known */

static json_t *look(bool is_running)
{
    char path[PATH_MAX];
    (void)snprintf(path, sizeof(path), "%s/run/broker.sock", tree_root);
    const struct amb_doctor_socket sockets[] = {{"/nowhere", 7}, {path, inode}};
    json_t *rows = json_array();
    amb_doctor_doors(config, is_running ? sockets : NULL, is_running ? 2 : 0, rows);
    return rows;
}

static const char *socket_url(const char *more)
{
    static char url[160];
    (void)snprintf(url, sizeof(url), "unix://%s/run/broker.sock%s", tree_root, more);
    return url;
}

static void a_folder_must_be_there_and_ours(void **state)
{
    (void)state;
    make(socket_url(""), NULL);
    expect_found(look(false), "socket-folder", "is not there");
    tree_text("run", "");
    expect_found(look(false), "socket-folder", "is no folder");
    assert_int_equal(unlink(tree_path("run")), 0);
    assert_int_equal(mkdir(tree_path("run"), 0755), 0);
    expect_none(look(false), "socket-folder");
    expect_none(look(false), "socket-folder-open");
    assert_int_equal(chmod(tree_path("run"), 0777), 0);
    expect_found(look(false), "socket-folder-open", "mode 0777");
    assert_int_equal(chmod(tree_path("run"), 01777), 0);
    expect_none(look(false), "socket-folder-open");
}

static void a_socket_must_be_as_it_was_made(void **state)
{
    (void)state;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", tree_path("run/broker.sock"));
    make(socket_url(""), NULL);
    expect_found(look(true), "socket-gone", "is not there any more");
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(chmod(address.sun_path, 0666), 0);
    expect_found(look(true), "socket-mode", "has mode 0666, and the configuration says 0660");
    expect_none(look(true), "socket-open"); /* That is about the configuration. */
    assert_int_equal(chmod(address.sun_path, 0660), 0);
    expect_none(look(true), "socket-mode");
    struct stat st;
    assert_int_equal(stat(address.sun_path, &st), 0);
    inode = st.st_ino;
    expect_none(look(true), "socket-gone");
    inode = st.st_ino + 1; /* Another process has put its own there. */
    expect_found(look(true), "socket-gone", "is another one's");
    inode = 0;
    assert_int_equal(close(fd), 0);
}

static void a_socket_for_everybody_asks_who_they_are(void **state)
{
    (void)state;
    static const char *const with_token[] = {"auth.token=secret", NULL};
    make(socket_url("?mode=0666"), NULL);
    expect_found(look(false), "socket-open", "mode 0666");
    make(socket_url("?mode=0666"), with_token);
    expect_none(look(false), "socket-open");
}

static void tcp_that_strangers_reach_is_named(void **state)
{
    (void)state;
    static const char *const insecure[] = {"server.insecure=true", NULL};
    static const char *const with_token[] = {"server.insecure=true", "auth.token=secret", NULL};
    make("tcp://127.0.0.1:0", NULL);
    expect_none(look(false), "tcp-open");
    make("tcp://0.0.0.0:4733", insecure);
    expect_found(look(false), "tcp-open", "tcp://0.0.0.0:4733 takes everybody in");
    make("tcp://0.0.0.0:4733", with_token);
    expect_none(look(false), "tcp-open");
    expect_found(look(false), "tcp-plain", "not encrypted");
}

static void a_token_that_others_can_read_is_named(void **state)
{
    (void)state;
    char option[160];
    tree_text("token", "secret\n");
    assert_int_equal(chmod(tree_path("token"), 0600), 0);
    (void)snprintf(option, sizeof(option), "auth.token_file=%s", tree_path("token"));
    const char *const options[] = {option, NULL};
    make(socket_url(""), options);
    expect_none(look(false), "token-file");
    assert_int_equal(chmod(tree_path("token"), 0640), 0);
    expect_found(look(false), "token-file", "mode 0640, wanted 0600");
    assert_int_equal(unlink(tree_path("token")), 0);
    expect_none(look(false), "token-file");
}

static int remove_all(void **state)
{
    amb_config_destroy(&config);
    return tree_remove(state);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, tree_make, remove_all)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_folder_must_be_there_and_ours),          CASE(a_socket_must_be_as_it_was_made),
        CASE(a_socket_for_everybody_asks_who_they_are), CASE(tcp_that_strangers_reach_is_named),
        CASE(a_token_that_others_can_read_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
