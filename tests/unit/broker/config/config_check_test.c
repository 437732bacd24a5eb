/* SPDX-License-Identifier: Apache-2.0 */
/* Rules over several keys, and the machine's limits. */
#include "tests/support/config_try.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static void test_auto_becomes_numbers(void **state)
{
    (void)state;
    struct amb_config *config = try_accept("");
    assert_string_equal(config->server.name, "testhost");
    assert_int_equal(config->server.workers, 3);
    assert_int_equal(config->server.max_message, UINT64_C(256) << 20);
    /* 1024 - 64 - 24 * 3 - 2 * 16 - 32 - 2 * 8 - 80 of HTTP = 728 for all connections. An eighth of
     * them may be half open, and a sixteenth may wait to be closed. (728 - 91 - 45) / 17 * 8, and
     * one lease for 8 of them at least. */
    assert_int_equal(config->server.max_half_open, 91);
    assert_int_equal(config->server.max_closing, 45);
    assert_int_equal(config->server.max_connections, 272);
    assert_int_equal(config->server.max_leases, 48);
    amb_config_destroy(&config);
    config = try_accept("memory = { host = { size = \"64G\"; segment = \"256M\"; }; };");
    assert_int_equal(config->server.max_message, UINT64_C(1) << 30);
    amb_config_destroy(&config);
}

static void test_one_core_still_has_a_worker(void **state)
{
    (void)state;
    struct amb_config_machine machine = try_machine;
    machine.cores = 1;
    struct amb_config_source source = {.machine = &machine};
    struct amb_config *config = try_accept_source(&source);
    assert_int_equal(config->server.workers, 1);
    amb_config_destroy(&config);
}

static struct amb_config *on_a_machine_of(uint32_t cores, const char *text)
{
    struct amb_config_machine machine = try_machine;
    machine.cores = cores;
    struct amb_config_source source = try_source(text);
    source.machine = &machine;
    return try_accept_source(&source);
}

/* One less than the processors, so that a worker that spins leaves one to others; at most 16. */
static void test_workers_leave_a_core_and_are_not_too_many(void **state)
{
    (void)state;
    static const uint32_t expected[][2] = {{1, 1}, {2, 1}, {3, 2}, {16, 15}, {17, 16}, {256, 16}};
    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
        struct amb_config *config = on_a_machine_of(expected[i][0], "");
        assert_int_equal(config->server.workers, expected[i][1]);
        assert_int_equal(config->server.cores, expected[i][0]);
        assert_int_equal(config->server.bound, 0);
        amb_config_destroy(&config);
    }
}

static void test_processors_are_given_to_workers_in_order(void **state)
{
    (void)state;
    struct amb_config *config = try_accept("server = { cpus = \"3,0-1\"; };");
    assert_int_equal(config->server.workers, 3); /* auto: as many as the list has */
    assert_int_equal(config->server.bound, 3);
    assert_int_equal(config->server.cpu[0], 3);
    assert_int_equal(config->server.cpu[1], 0);
    assert_int_equal(config->server.cpu[2], 1);
    amb_config_destroy(&config);
    config = try_accept("server = { cpus = \"3,0-1\"; workers = 2; };");
    assert_int_equal(config->server.bound, 2);
    amb_config_destroy(&config);
    config = try_accept("server = { cpus = \"auto\"; workers = 8; };");
    assert_int_equal(config->server.bound, 0);
    amb_config_destroy(&config);
}

static void test_processors_that_are_no_use_are_refused(void **state)
{
    (void)state;
    try_refuse("server = { cpus = \"0-\"; };",
               "configuration:1: server.cpus: not a list of processors (got \"0-\", allowed "
               "\"auto\" or at most 64 as \"0-3,8\")");
    try_refuse("server = { cpus = \"\"; };",
               "configuration:1: server.cpus: not a list of processors (got \"\", allowed "
               "\"auto\" or at most 64 as \"0-3,8\")");
    try_refuse("server = { cpus = \"1,1\"; };",
               "configuration:1: server.cpus: a processor is there twice (got \"1,1\", allowed "
               "\"auto\" or at most 64 as \"0-3,8\")");
    try_refuse("server = { cpus = \"0-64\"; };",
               "configuration:1: server.cpus: too many processors (got \"0-64\", allowed "
               "\"auto\" or at most 64 as \"0-3,8\")");
    try_refuse("server = { cpus = \"2-4\"; };",
               "configuration:1: server.cpus: this process may not use processor 4 (allowed 0-3)");
    try_refuse("server = { cpus = \"0-1\"; workers = 3; };",
               "configuration:1: server.cpus: each worker needs a processor of its own (got 2 for "
               "3 workers)");
}

static void test_messages_fit_a_quarter_of_memory(void **state)
{
    (void)state;
    try_refuse("server = { max_message = \"300M\"; };",
               "configuration:1: server.max_message: more than a quarter of memory.host.size (got "
               "300M, allowed at most 256M)");
    try_refuse("memory = { host = { size = \"32M\"; }; };",
               "default: memory.host.segment: larger than memory.host.size (got 64M, allowed at "
               "most 32M)");
}

static void test_a_pool_on_a_gpu_has_a_least_size(void **state)
{
    (void)state;
    try_refuse("\nmemory = { cuda = { size = \"1M\"; }; };",
               "configuration:2: memory.cuda.size: too small (got 1M, allowed 0 or at least 2M)");
    struct amb_config *config = try_accept("memory = { cuda = { size = \"2M\"; }; };");
    amb_config_destroy(&config);
}

static void test_leases_of_one_client_fit_a_quarter_of_memory(void **state)
{
    (void)state;
    struct amb_config *config = try_accept("");
    assert_int_equal(config->limits.max_leased_per_session, UINT64_C(256) << 20);
    amb_config_destroy(&config);
    config = try_accept("memory = { host = { size = \"64G\"; segment = \"256M\"; }; };");
    assert_int_equal(config->limits.max_leased_per_session, UINT64_C(1) << 30);
    amb_config_destroy(&config);
    config = try_accept("limits = { max_leased_per_session = 0; };");
    assert_int_equal(config->limits.max_leased_per_session, 0);
    amb_config_destroy(&config);
    try_refuse("limits = { max_leased_per_session = \"300M\"; };",
               "configuration:1: limits.max_leased_per_session: more than a quarter of "
               "memory.host.size (got 300M, allowed at most 256M)");
}

static void test_too_few_descriptors_name_the_limit(void **state)
{
    (void)state;
    struct amb_config_machine machine = try_machine;
    machine.descriptors = 20;
    struct amb_config_source source = {.machine = &machine};
    try_refuse_source(&source, "default: server.max_connections: the descriptor limit is too small "
                               "for 3 workers, 16 segments and 8 connections (got ulimit -n 20, "
                               "allowed at least 245)");
    source = try_source("server = { max_connections = 375; };");
    try_refuse_with(&source, "(got ulimit -n 1024, allowed at least 1025)");
    struct amb_config *config = try_accept("server = { max_connections = 374; };");
    assert_int_equal(config->server.max_leases, 47);
    amb_config_destroy(&config);
    config = try_accept("server = { max_connections = 100; };");
    assert_int_equal(config->server.max_leases, 100);
    amb_config_destroy(&config);
}

/* All that there may be at one time: the formula, whatever the limit. */
static void test_half_open_connections_are_counted(void **state)
{
    (void)state;
    static const uint64_t limits[] = {245, 250, 300, 512, 1024, 4096, 20000, 1048576};
    static const uint32_t expected[] = {8, 8, 10, 37, 91, 475, 512, 512};
    static const uint32_t closing[] = {4, 4, 5, 18, 45, 237, 512, 512};
    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
        struct amb_config_machine machine = try_machine;
        machine.descriptors = limits[i];
        struct amb_config_source source = {.machine = &machine};
        struct amb_config *config = try_accept_source(&source);
        const struct amb_config_server *server = &config->server;
        assert_int_equal(server->max_half_open, expected[i]);
        assert_int_equal(server->max_closing, closing[i]);
        uint64_t used = 64 + 24 * 3 + 2 * 16 + 2 * 8 + server->max_half_open + server->max_closing +
                        2 * (uint64_t)server->max_connections + server->max_leases + 32 +
                        (config->http.doors.count > 0 ? 80 : 0);
        assert_true(used <= limits[i]);
        amb_config_destroy(&config);
    }
    /* A number that somebody has asked for leaves them what it can. */
    struct amb_config *config = try_accept("server = { max_connections = 374; };");
    assert_int_equal(config->server.max_half_open, 9);
    assert_int_equal(config->server.max_closing, 4);
    amb_config_destroy(&config);
}

static void test_heartbeats_fit_into_the_timeout(void **state)
{
    (void)state;
    try_refuse("limits = { peer_timeout = \"1s\"; heartbeat = \"600ms\"; };",
               "configuration:1: limits.heartbeat: more than half of limits.peer_timeout (got "
               "600ms, allowed at most 500ms)");
}

/* Writes a token file and puts it into *source. */
static struct amb_config_source token_source(const char *path, const char *token, mode_t mode)
{
    static char text[256];
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(token, file) >= 0);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, mode), 0);
    (void)snprintf(text, sizeof(text), "auth = { token_file = \"%s\"; };", path);
    return try_source(text);
}

static void test_a_token_comes_from_a_private_file(void **state)
{
    (void)state;
    char path[] = "/tmp/amb-token-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(close(fd), 0);
    struct amb_config_source source = token_source(path, "s3cret\nrest\n", 0600);
    struct amb_config *config = try_accept_source(&source);
    assert_string_equal(config->auth.token, "s3cret");
    amb_config_destroy(&config);
    source = token_source(path, "s3cret\n", 0640);
    try_refuse_with(&source, "can be read by others (got mode 0640, allowed 0600 or stricter)");
    source = token_source(path, "\n", 0600);
    try_refuse_with(&source, "its first line is no token (allowed 1 to 255 bytes)");
    int nul = open(path, O_WRONLY | O_TRUNC);
    assert_int_equal(write(nul, "s3\0cret\n", 8), 8);
    assert_int_equal(close(nul), 0);
    char text[256];
    (void)snprintf(text, sizeof(text), "auth = { token_file = \"%s\"; };", path);
    source = try_source(text);
    try_refuse_with(&source, "its first line is no token (allowed 1 to 255 bytes)");
    char huge[600];
    memset(huge, 'x', sizeof(huge) - 1);
    huge[sizeof(huge) - 1] = '\0';
    source = token_source(path, huge, 0600);
    try_refuse_with(&source, "its first line is no token");
    source = token_source(path, "s3cret\n", 0600);
    static const char *const options[] = {"auth.token=x"};
    source.options = options;
    source.option_count = 1;
    try_refuse_with(&source, "auth.token_file: auth.token is set too (allowed one of them)");
    assert_int_equal(unlink(path), 0);
    source.option_count = 0;
    try_refuse_with(&source, "cannot be read: No such file or directory");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_auto_becomes_numbers),
        cmocka_unit_test(test_one_core_still_has_a_worker),
        cmocka_unit_test(test_workers_leave_a_core_and_are_not_too_many),
        cmocka_unit_test(test_processors_are_given_to_workers_in_order),
        cmocka_unit_test(test_processors_that_are_no_use_are_refused),
        cmocka_unit_test(test_messages_fit_a_quarter_of_memory),
        cmocka_unit_test(test_leases_of_one_client_fit_a_quarter_of_memory),
        cmocka_unit_test(test_a_pool_on_a_gpu_has_a_least_size),
        cmocka_unit_test(test_too_few_descriptors_name_the_limit),
        cmocka_unit_test(test_half_open_connections_are_counted),
        cmocka_unit_test(test_heartbeats_fit_into_the_timeout),
        cmocka_unit_test(test_a_token_comes_from_a_private_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
