/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The choice among UCX libraries: a table of machines, each with a sysfs of its own. With it go
 * sets of libraries, the one that the process has, and wishes.
 */
#include "wire/link/ucxlib/ucx_choose.h"

#include "tests/support/link/ucx_tree.h"
#include "wire/link/ucxlib/ucx_lanes.h"
#include "wire/link/ucxlib/ucx_release.h"

#define R AMB_UCX_RELEASE
#define DEVICES_MAX 6u

/* Of the table: what is there. */
static const struct amb_ucx_library wheel = {"/w/libucp.so.0", AMB_UCX_WHEEL, R(1, 22, 0), false,
                                             true};
static const struct amb_ucx_library debian = {"/s/libucp.so.0", AMB_UCX_SYSTEM, R(1, 13, 1), true,
                                              false};
static const struct amb_ucx_library bare = {"/b/libucp.so.0", AMB_UCX_SYSTEM, R(1, 18, 1), false,
                                            false};
static const struct amb_ucx_library vendor = {"/v/libucp.so.0", AMB_UCX_SYSTEM, R(1, 22, 1), true,
                                              true};
static const struct amb_ucx_library wheel_ib = {"/wi/libucp.so.0", AMB_UCX_WHEEL, R(1, 22, 0), true,
                                                true};
static const struct amb_ucx_library old = {"/o/libucp.so.0", AMB_UCX_SYSTEM, R(1, 12, 1), true,
                                           true};
static const struct amb_ucx_library unknown = {"/u/libucp.so.0", AMB_UCX_SYSTEM, 0, true, true};
static const struct amb_ucx_library of_python = {"/p/libucp.so.0", AMB_UCX_LOADED, R(1, 21, 0),
                                                 false, true};

/* Twelve machines: devices in sysfs, and those that are trusted. */
static const struct machine {
    const char *name, *trusted;
    const char *net[DEVICES_MAX], *rdma[DEVICES_MAX]; /* with ports, as "mlx5_0/ports/1" */
} machines[] = {
    {"loopback", "lo", {"lo"}, {NULL}},
    {"ethernet", "eth0", {"lo", "eth0"}, {NULL}},
    {"infiniband", "mlx5_0:1", {"lo", "ib0"}, {"mlx5_0/ports/1"}},
    {"infiniband-beside", "ib0,mlx5_0:1", {"lo", "ib0"}, {"mlx5_0/ports/1"}},
    {"infiniband-not-trusted", "eth0", {"lo", "eth0", "ib0"}, {"mlx5_0/ports/1"}},
    {"interface-of-infiniband", "ib0", {"lo", "ib0"}, {"mlx5_0/ports/1"}},
    {"second-port", "mlx5_0:2", {"lo"}, {"mlx5_0/ports/1", "mlx5_0/ports/2"}},
    {"roce", "eth2,mlx5_bond_0:1", {"lo", "eth2"}, {"mlx5_bond_0/ports/1"}},
    {"iwarp", "irdma0:1", {"lo", "eth1"}, {"irdma0/ports/1"}},
    {"two-devices", "mlx5_1", {"lo"}, {"mlx5_0/ports/1", "mlx5_1/ports/1"}},
    {"device-that-is-gone", "mlx5_7:1", {"lo"}, {"mlx5_0/ports/1"}},
    {"no-sysfs", "eth0,mlx5_0:1", {NULL}, {NULL}},
};
#define MACHINES (sizeof(machines) / sizeof(machines[0]))

static char roots[MACHINES][96];

static int make_machines(void **state)
{
    char path[256];
    int result = tree_make(state);
    for (size_t i = 0; i < MACHINES; i++) {
        const struct machine *machine = &machines[i];
        (void)snprintf(roots[i], sizeof(roots[i]), "%s/%s", tree_root, machine->name);
        for (size_t k = 0; k < DEVICES_MAX && machine->net[k] != NULL; k++) {
            (void)snprintf(path, sizeof(path), "%s/sys/class/net/%s/dev_port", machine->name,
                           machine->net[k]);
            tree_text(path, "0\n");
        }
        for (size_t k = 0; k < DEVICES_MAX && machine->rdma[k] != NULL; k++) {
            (void)snprintf(path, sizeof(path), "%s/sys/class/infiniband/%s/state", machine->name,
                           machine->rdma[k]);
            tree_text(path, "4: ACTIVE\n");
        }
    }
    return result;
}

static void fill(struct amb_ucx_libraries *out, const struct amb_ucx_library *const *list)
{
    out->count = 0;
    for (; *list != NULL; list++) {
        out->items[out->count++] = **list;
    }
}

#define SETS 6u
static const struct amb_ucx_library *const sets[SETS][4] = {
    {&wheel, &debian, NULL},  /* a build on Debian */
    {&wheel, NULL},           /* only what a build brings */
    {&debian, NULL},          /* built without */
    {&wheel, &bare, &vendor}, /* HPC-X beside a distribution's */
    {&wheel_ib, &bare, NULL}, /* another wheel */
    {NULL},
};

/* For each machine the choice in each of the sets: w, s, b, v, i (wheel_ib), or - for none. */
static const char *const table[MACHINES] = {
    "wwswi-", /* loopback */
    "wwswi-", /* ethernet */
    "swsvi-", /* infiniband */
    "swsvi-", /* infiniband-beside */
    "wwswi-", /* infiniband-not-trusted */
    "wwswi-", /* interface-of-infiniband: TCP over it */
    "swsvi-", /* second-port */
    "swsvi-", /* roce */
    "swsvi-", /* iwarp */
    "swsvi-", /* two-devices */
    "wwswi-", /* device-that-is-gone */
    "wwswi-", /* no-sysfs */
};

static const struct amb_ucx_library *library_of(char letter)
{
    switch (letter) {
    case 'w':
        return &wheel;
    case 's':
        return &debian;
    case 'b':
        return &bare;
    case 'v':
        return &vendor;
    case 'i':
        return &wheel_ib;
    default:
        return NULL;
    }
}

static void test_auto_chooses_by_machine_and_libraries(void **state)
{
    (void)state;
    for (size_t i = 0; i < MACHINES; i++) {
        const struct amb_ucx_wish wish = {.library = "auto",
                                          .source = "auto",
                                          .has_rdma =
                                              amb_ucx_has_rdma(roots[i], machines[i].trusted)};
        for (size_t set = 0; set < SETS; set++) {
            struct amb_ucx_libraries libraries;
            struct amb_ucx_library chosen;
            char error[256] = "";
            fill(&libraries, sets[set]);
            const struct amb_ucx_library *expected = library_of(table[i][set]);
            enum amb_status status =
                amb_ucx_choose(&libraries, NULL, &wish, error, sizeof(error), &chosen);
            if (expected == NULL) {
                assert_int_equal(status, AMB_ENOTSUP);
                assert_non_null(strstr(error, "no UCX library"));
            } else if (status != AMB_OK || strcmp(chosen.file, expected->file) != 0) {
                fail_msg("%s, set %zu: %s%s, not %s", machines[i].name, set, error,
                         status == AMB_OK ? chosen.file : "", expected->file);
            }
        }
    }
}

/* A choice among these, or a refusal whose sentence has these words. */
struct choice {
    const struct amb_ucx_library *const *set;
    const struct amb_ucx_library *loaded;
    const char *library;
    bool has_rdma;
    uint32_t peer;
    const struct amb_ucx_library *expected;
    const char *words[3];
};

static void check(const struct choice *choices, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct choice *choice = &choices[i];
        const struct amb_ucx_wish wish = {choice->library, "AMB_UCX_LIBRARY", choice->has_rdma,
                                          choice->peer};
        struct amb_ucx_libraries libraries;
        struct amb_ucx_library chosen;
        char error[256] = "";
        fill(&libraries, choice->set);
        enum amb_status status =
            amb_ucx_choose(&libraries, choice->loaded, &wish, error, sizeof(error), &chosen);
        assert_int_equal(status, choice->expected != NULL ? AMB_OK : AMB_ENOTSUP);
        if (choice->expected != NULL) {
            assert_string_equal(chosen.file, choice->expected->file);
        }
        for (size_t k = 0; k < 3 && choice->words[k] != NULL; k++) {
            if (strstr(error, choice->words[k]) == NULL) {
                fail_msg("choice %zu: '%s' does not say '%s'", i, error, choice->words[k]);
            }
        }
    }
}

static const struct amb_ucx_library *const both[] = {&wheel, &debian, NULL};
static const struct amb_ucx_library *const none[] = {NULL};

static void test_a_peers_release_rules_others_out(void **state)
{
    (void)state;
    static const struct amb_ucx_library *const all[] = {&wheel, &debian, &bare, &vendor, NULL};
    static const struct amb_ucx_library *const misty[] = {&unknown, &wheel, NULL};
    static const struct choice choices[] = {
        {both, NULL, "auto", false, R(1, 22, 0), &wheel, {NULL}},
        {both, NULL, "auto", false, R(1, 13, 1), &debian, {NULL}},
        {both, NULL, "auto", true, R(1, 22, 0), &wheel, {NULL}}, /* TCP is better than nothing. */
        {all, NULL, "auto", true, R(1, 23, 0), &vendor, {NULL}},
        {all, NULL, "auto", true, R(1, 19, 0), &bare, {NULL}},
        {both, NULL, "auto", false, R(1, 18, 0), NULL, {"1.18.0", "1.22.0 (/w/", "1.13.1 (/s/"}},
        /* A release that no file tells is asked for by loading. */
        {misty, NULL, "auto", false, R(1, 22, 0), &unknown, {NULL}},
    };
    check(choices, sizeof(choices) / sizeof(choices[0]));
}

static void test_the_one_that_the_process_has_is_the_only_one(void **state)
{
    (void)state;
    static const struct choice choices[] = {
        {both, &of_python, "auto", true, 0, &of_python, {NULL}},
        {none, &of_python, "auto", false, R(1, 19, 0), &of_python, {NULL}},
        {both,
         &of_python,
         "auto",
         false,
         R(1, 22, 0),
         NULL,
         {"this process has UCX 1.21.0", "the broker 1.22.0", "do not understand each other"}},
        {both,
         &of_python,
         "wheel",
         false,
         0,
         NULL,
         {"has UCX 1.21.0 already", "AMB_UCX_LIBRARY asks for 1.22.0", "/p/libucp.so.0, /w/"}},
        {both, &of_python, "system", false, 0, NULL, {"1.21.0", "1.13.1", "cannot have both"}},
        {both, &wheel, "wheel", false, 0, &wheel, {NULL}}, /* The same file. */
        {both, &wheel, "system", false, 0, NULL, {"1.22.0", "1.13.1", "cannot have both"}},
        {both,
         &old,
         "auto",
         false,
         0,
         NULL,
         {"this process has UCX 1.12.1", "1.13.0 is the oldest"}},
    };
    check(choices, sizeof(choices) / sizeof(choices[0]));
}

static void test_words_name_one_or_none(void **state)
{
    (void)state;
    static const struct amb_ucx_library *const only_wheel[] = {&wheel, NULL};
    static const struct amb_ucx_library *const only_system[] = {&debian, NULL};
    static const struct amb_ucx_library *const only_old[] = {&old, NULL};
    static const struct choice choices[] = {
        {both, NULL, "wheel", true, 0, &wheel, {NULL}},
        {both, NULL, "system", false, 0, &debian, {NULL}},
        {both, NULL, "wheel", true, R(1, 13, 1), NULL, {"AMB_UCX_LIBRARY is UCX 1.22.0", "1.13.1"}},
        {only_wheel, NULL, "system", false, 0, NULL, {"AMB_UCX_LIBRARY = \"system\"", "libucx0"}},
        {only_system, NULL, "wheel", false, 0, NULL, {"AMB_UCX_LIBRARY = \"wheel\"", "beside"}},
        {only_old, NULL, "system", false, 0, NULL, {"UCX 1.12.1", "1.13.0 is the oldest"}},
        {only_old, NULL, "auto", false, 0, NULL, {"no UCX here is new enough", "1.12.1 (/o/"}},
        {both, NULL, "Wheel", false, 0, NULL, {"\"Wheel\"", "a path that begins with /"}},
        {both, NULL, "", false, 0, NULL, {"a path that begins with /"}},
        {both, NULL, "lib/libucp.so.0", false, 0, NULL, {"a path that begins with /"}},
        {both,
         NULL,
         "/nonexistent/libucp.so.0",
         false,
         0,
         NULL,
         {"\"/nonexistent/libucp.so.0\"", "no such file"}},
    };
    check(choices, sizeof(choices) / sizeof(choices[0]));
}

static void test_a_path_is_looked_at(void **state)
{
    (void)state;
    struct amb_ucx_libraries libraries = {.count = 0};
    struct amb_ucx_library chosen;
    char error[256] = "";
    tree_ucx("mine", "1.17.0", "ib");
    struct amb_ucx_wish wish = {.library = tree_path("mine"), .source = "transports.library"};
    assert_int_equal(amb_ucx_choose(&libraries, NULL, &wish, error, sizeof(error), &chosen),
                     AMB_OK);
    assert_string_equal(chosen.file, tree_path("mine/libucp.so.0"));
    assert_int_equal(chosen.release, R(1, 17, 0));
    tree_ucx("mine", "1.12.0", "");
    assert_int_equal(amb_ucx_choose(&libraries, NULL, &wish, error, sizeof(error), &chosen),
                     AMB_ENOTSUP);
    assert_non_null(strstr(error, "transports.library is UCX 1.12.0, which is too old"));
    tree_text("hollow/x", "");
    wish.library = tree_path("hollow");
    assert_int_equal(amb_ucx_choose(&libraries, NULL, &wish, error, sizeof(error), &chosen),
                     AMB_ENOTSUP);
    assert_non_null(strstr(error, "there is no libucp.so.0 in that folder"));
}

/* However little room there is, both releases are named before the files. */
static void test_long_sentences_lose_their_end(void **state)
{
    (void)state;
    struct amb_ucx_libraries libraries;
    struct amb_ucx_library chosen, loaded = of_python;
    char error[120] = "";
    (void)memset(loaded.file, 'x', 300);
    fill(&libraries, both);
    const struct amb_ucx_wish wish = {"system", "AMB_UCX_LIBRARY", false, 0};
    assert_int_equal(amb_ucx_choose(&libraries, &loaded, &wish, error, sizeof(error), &chosen),
                     AMB_ENOTSUP);
    assert_non_null(strstr(error, "1.21.0"));
    assert_non_null(strstr(error, "1.13.1"));
    assert_int_equal(strlen(error), sizeof(error) - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_auto_chooses_by_machine_and_libraries),
        cmocka_unit_test(test_a_peers_release_rules_others_out),
        cmocka_unit_test(test_the_one_that_the_process_has_is_the_only_one),
        cmocka_unit_test(test_words_name_one_or_none),
        cmocka_unit_test(test_a_path_is_looked_at),
        cmocka_unit_test(test_long_sentences_lose_their_end),
    };
    return cmocka_run_group_tests(tests, make_machines, tree_remove);
}
