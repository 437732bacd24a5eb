/* SPDX-License-Identifier: Apache-2.0 */
/* The places and the order in which UCX libraries are found, and the facts about each. */
#include "wire/link/ucxlib/ucx_find.h"

#include "tests/support/link/ucx_tree.h"
#include "wire/link/ucxlib/ucx_release.h"

#include <dlfcn.h>

static struct amb_ucx_places places;
static struct amb_ucx_libraries found;

/* Looks in these places of the tree; lists are written "a:b". */
static void find(const char *run_path, const char *library_path, const char *conf)
{
    const struct {
        const char *list;
        char *out;
    } lists[] = {{run_path, places.run_path}, {library_path, places.library_path}};
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        size_t used = 0;
        lists[i].out[0] = '\0';
        for (const char *at = lists[i].list; *at != '\0';) {
            int len = (int)strcspn(at, ":");
            used += (size_t)snprintf(lists[i].out + used, AMB_UCX_FOLDERS_MAX - used, "%s%s/%.*s",
                                     used == 0 ? "" : ":", tree_root, len, at);
            at += len + (at[len] == ':');
        }
    }
    places.linker_conf = tree_path(conf);
    amb_ucx_libraries_find(&places, &found);
}

static void expect(size_t index, const char *path, enum amb_ucx_origin origin, uint32_t release)
{
    assert_true(index < found.count);
    const struct amb_ucx_library *library = &found.items[index];
    assert_string_equal(library->file, tree_path(path));
    assert_int_equal(library->origin, origin);
    assert_int_equal(library->release, release);
}

static void test_the_run_path_is_the_wheel_and_the_rest_the_system(void **state)
{
    (void)state;
    tree_ucx("wheel", "1.22.0", "cuda");
    tree_ucx("set", "1.18.1", "");
    tree_ucx("system", "1.13.1", "ib");
    tree_text("empty/x", "");
    char conf[PATH_MAX];
    (void)snprintf(conf, sizeof(conf), "# a comment\n\n  %s/empty # nothing here\n%s/system\t\n",
                   tree_root, tree_root);
    tree_text("ld.so.conf", conf);
    find("empty:wheel", "set", "ld.so.conf");
    assert_int_equal(found.count, 3);
    expect(0, "wheel/libucp.so.0", AMB_UCX_WHEEL, AMB_UCX_RELEASE(1, 22, 0));
    expect(1, "set/libucp.so.0", AMB_UCX_SYSTEM, AMB_UCX_RELEASE(1, 18, 1));
    expect(2, "system/libucp.so.0", AMB_UCX_SYSTEM, AMB_UCX_RELEASE(1, 13, 1));
    assert_true(found.items[0].has_cuda && !found.items[0].has_ib);
    assert_true(!found.items[1].has_cuda && !found.items[1].has_ib);
    assert_true(!found.items[2].has_cuda && found.items[2].has_ib);
}

static void test_the_linkers_files_include_others(void **state)
{
    (void)state;
    char line[PATH_MAX];
    tree_ucx("deep", "1.19.0", "ib");
    tree_text("conf.d/one.conf", "include two.sub\n");
    (void)snprintf(line, sizeof(line), "%s/deep", tree_root);
    tree_text("conf.d/two.sub", line); /* without an end of line */
    tree_text("inc.conf", "include conf.d/*.conf\nincluded\nrelative/folder\n");
    find("", "", "inc.conf");
    assert_int_equal(found.count, 1);
    expect(0, "deep/libucp.so.0", AMB_UCX_SYSTEM, AMB_UCX_RELEASE(1, 19, 0));
    tree_text("name.conf", "include conf.d/two.sub\n"); /* by its name alone */
    find("", "", "name.conf");
    assert_int_equal(found.count, 1);
    tree_text("conf.d/.hidden.conf", line);
    tree_text("none.conf", "include conf.d/*.not\ninclude none.d/*.conf\ninclude "
                           "conf.d/*hidden.conf\ninclude conf.d/o?e.con\n");
    find("", "", "none.conf");
    assert_int_equal(found.count, 0);
    tree_text("loop.conf", "include loop.conf\n"); /* ends */
    find("", "", "loop.conf");
    assert_int_equal(found.count, 0);
    find("", "", "no.conf");
    assert_int_equal(found.count, 0);
}

/* An installed program's run path has the system's folder too. */
static void test_a_library_that_the_linker_finds_itself_is_the_systems(void **state)
{
    (void)state;
    char line[PATH_MAX];
    tree_ucx("both", "1.20.0", "");
    (void)snprintf(line, sizeof(line), "%s/both\n", tree_root);
    tree_text("both.conf", line);
    find("both", "both", "both.conf");
    assert_int_equal(found.count, 1);
    expect(0, "both/libucp.so.0", AMB_UCX_SYSTEM, AMB_UCX_RELEASE(1, 20, 0));
    find("both", "both", "no.conf"); /* LD_LIBRARY_PATH may name the wheel. */
    assert_int_equal(found.count, 1);
    assert_int_equal(found.items[0].origin, AMB_UCX_WHEEL);
}

/* Its modules lie beside the real one, so that is the library. */
static void test_links_are_followed(void **state)
{
    (void)state;
    tree_ucx("opt/ucx", "1.21.0", "ib");
    tree_text("linked/x", "");
    tree_link("linked/libucp.so.0", "../opt/ucx/libucp.so.0");
    find("linked:opt/ucx", "", "no.conf");
    assert_int_equal(found.count, 1);
    expect(0, "opt/ucx/libucp.so.0", AMB_UCX_WHEEL, AMB_UCX_RELEASE(1, 21, 0));
    assert_true(found.items[0].has_ib);
    tree_link("linked/libucp.so.0.0.0", "nowhere");
    tree_text("dangling/x", "");
    tree_link("dangling/libucp.so.0", "nowhere");
    find("dangling", "", "no.conf");
    assert_int_equal(found.count, 0);
}

static void test_files_that_are_no_libraries_are_passed_over(void **state)
{
    (void)state;
    tree_text("text/libucp.so.0", "INPUT ( libucp.so.0.0.0 )\n");
    find("text", "", "no.conf");
    assert_int_equal(found.count, 0);
}

static void test_there_is_an_end_to_looking(void **state)
{
    (void)state;
    char name[32], list[512] = "";
    for (unsigned i = 0; i < AMB_UCX_LIBRARIES_MAX + 2; i++) {
        (void)snprintf(name, sizeof(name), "many%u", i);
        tree_ucx(name, "1.18.0", "");
        (void)strcat(list, i == 0 ? "" : ":");
        (void)strcat(list, name);
    }
    find(list, "", "no.conf");
    assert_int_equal(found.count, AMB_UCX_LIBRARIES_MAX);
}

static void test_modules_are_where_the_user_says(void **state)
{
    (void)state;
    tree_ucx("plain", "1.22.0", "");
    tree_text("modules/libuct_ib.so.0", "");
    assert_int_equal(setenv("UCX_MODULE_DIR", tree_path("modules"), 1), 0);
    find("plain", "", "no.conf");
    assert_int_equal(unsetenv("UCX_MODULE_DIR"), 0);
    assert_true(found.items[0].has_ib);
}

/* UCX looks beside itself first, whatever the user says. */
static void test_modules_beside_a_library_count_always(void **state)
{
    (void)state;
    tree_ucx("beside", "1.22.0", "ib,cuda");
    assert_int_equal(setenv("UCX_MODULE_DIR", "/nonexistent", 1), 0);
    find("beside", "", "no.conf");
    assert_int_equal(unsetenv("UCX_MODULE_DIR"), 0);
    assert_true(found.items[0].has_ib && found.items[0].has_cuda);
}

static void expect_none(const char *path, const char *word)
{
    struct amb_ucx_library library;
    const char *problem = NULL;
    assert_false(amb_ucx_library_look(path, AMB_UCX_NAMED, &library, &problem));
    if (strstr(problem, word) == NULL) {
        fail_msg("'%s' does not say '%s'", problem, word);
    }
}

static void test_one_is_named_by_its_file_or_its_folder(void **state)
{
    (void)state;
    struct amb_ucx_library library;
    const char *problem = NULL;
    struct ucx_file file;
    tree_ucx("named", "1.16.0", "cuda");
    assert_true(amb_ucx_library_look(tree_path("named"), AMB_UCX_NAMED, &library, &problem));
    assert_string_equal(library.file, tree_path("named/libucp.so.0"));
    assert_true(
        amb_ucx_library_look(tree_path("named/libucp.so.0"), AMB_UCX_NAMED, &library, &problem));
    assert_string_equal(library.file, tree_path("named/libucp.so.0"));
    assert_int_equal(library.origin, AMB_UCX_NAMED);
    ucx_file_init(&file, "1.16.1");
    tree_file("other/libucp-0a1b2c.so", &file, sizeof(file));
    assert_true(amb_ucx_library_look(tree_path("other/libucp-0a1b2c.so"), AMB_UCX_NAMED, &library,
                                     &problem));
    assert_string_equal(library.file, tree_path("other/libucp-0a1b2c.so"));
    char text[600];
    (void)amb_ucx_library_text(&library, text, sizeof(text));
    assert_non_null(strstr(text, "1.16.1 (/tmp/"));
    expect_none(tree_path("named/libucp.so.1"), "no such file");
    expect_none(tree_path("empty"), "no libucp.so.0 in that folder");
    tree_text("text2", "text");
    expect_none(tree_path("text2"), "no shared library");
}

/* Beside the file that is named lies another release by the usual name. */
static void test_a_file_that_is_named_is_not_taken_for_its_neighbour(void **state)
{
    (void)state;
    struct amb_ucx_library library;
    const char *problem = NULL;
    struct ucx_file file;
    tree_ucx("two", "1.13.1", "");
    ucx_file_init(&file, "1.18.0");
    tree_file("two/libucp.so.0.new", &file, sizeof(file));
    assert_true(
        amb_ucx_library_look(tree_path("two/libucp.so.0.new"), AMB_UCX_NAMED, &library, &problem));
    assert_string_equal(library.file, tree_path("two/libucp.so.0.new"));
    assert_int_equal(library.release, AMB_UCX_RELEASE(1, 18, 0));
}

static void test_a_path_that_leads_nowhere_is_told_apart(void **state)
{
    (void)state;
    char longer[PATH_MAX + 8];
    tree_link("round", "round");
    expect_none(tree_path("round"), "round in a circle");
    expect_none(tree_path("round/libucp.so.0"), "round in a circle");
    memset(longer, 'x', sizeof(longer) - 1);
    longer[0] = '/';
    longer[sizeof(longer) - 1] = '\0';
    expect_none(longer, "too long");
    expect_none("/", "no libucp.so.0 in that folder");
}

/* The linker's variable is longer than what is looked at. Its last folder is not cut. */
static void test_a_list_that_is_too_long_ends_with_a_whole_folder(void **state)
{
    (void)state;
    char list[AMB_UCX_FOLDERS_MAX + 64];
    const char *before = getenv("LD_LIBRARY_PATH");
    char *kept = before == NULL ? NULL : strdup(before);
    memset(list, 'x', sizeof(list) - 1);
    list[sizeof(list) - 1] = '\0';
    (void)memcpy(list, "/one:/", 6);
    assert_int_equal(setenv("LD_LIBRARY_PATH", list, 1), 0);
    amb_ucx_places_init(&places);
    assert_string_equal(places.library_path, "/one");
    list[4] = 'x'; /* one folder that is too long */
    assert_int_equal(setenv("LD_LIBRARY_PATH", list, 1), 0);
    amb_ucx_places_init(&places);
    assert_string_equal(places.library_path, "");
    if (kept == NULL) {
        assert_int_equal(unsetenv("LD_LIBRARY_PATH"), 0);
    } else {
        assert_int_equal(setenv("LD_LIBRARY_PATH", kept, 1), 0);
    }
    free(kept);
}

/* Loads a copy of a stub, and takes its file away. */
static void *load_and_remove(const char *stub, const char *path)
{
    char command[2 * PATH_MAX];
    const char *copy = tree_path(path);
    (void)snprintf(command, sizeof(command), "cp '%s/%s' '%s'", AMB_TEST_STUBS, stub, copy);
    assert_int_equal(system(command), 0);
    void *library = dlopen(copy, RTLD_NOW | RTLD_LOCAL);
    assert_non_null(library);
    assert_int_equal(unlink(copy), 0);
    return library;
}

/* As after an upgrade, or in another root: a second UCX in the process would be mixed with it. */
static void test_a_ucx_is_here_though_its_file_has_gone(void **state)
{
    (void)state;
    struct amb_ucx_library library;
    assert_false(amb_ucx_library_here(&library));
    void *loaded = load_and_remove("other/libucp.so.0", "gone/libucp.so.0");
    assert_true(amb_ucx_library_here(&library));
    assert_string_equal(library.file, tree_path("gone/libucp.so.0"));
    assert_int_equal(library.origin, AMB_UCX_LOADED);
    assert_int_equal(library.release, AMB_UCX_RELEASE(1, 17, 3));
    assert_false(library.has_ib || library.has_cuda);
    assert_int_equal(dlclose(loaded), 0);
    assert_false(amb_ucx_library_here(&library));
}

/* A part of a UCX without the rest. The only libucp that can be loaded is the one beside it. */
static void test_a_part_of_a_ucx_is_here_too(void **state)
{
    (void)state;
    struct amb_ucx_library library;
    void *loaded = load_and_remove("part/libucs.so.0", "part/libucs.so.0");
    assert_true(amb_ucx_library_here(&library));
    assert_string_equal(library.file, tree_path("part/libucp.so.0"));
    assert_int_equal(library.origin, AMB_UCX_LOADED);
    assert_int_equal(library.release, 0);
    tree_ucx("part", "1.19.0", "ib");
    assert_true(amb_ucx_library_here(&library));
    assert_string_equal(library.file, tree_path("part/libucp.so.0"));
    assert_int_equal(library.release, AMB_UCX_RELEASE(1, 19, 0));
    assert_int_equal(dlclose(loaded), 0);
    assert_false(amb_ucx_library_here(&library));
}

static void test_this_process_has_places_of_its_own(void **state)
{
    (void)state;
    amb_ucx_places_init(&places);
    assert_string_equal(places.linker_conf, "/etc/ld.so.conf");
    assert_null(strstr(places.run_path, "ORIGIN"));
    amb_ucx_libraries_find(&places, &found);
    for (size_t i = 0; i < found.count; i++) {
        assert_true(found.items[i].file[0] == '/');
        assert_true(found.items[i].release >= AMB_UCX_RELEASE(1, 0, 0));
    }
#ifdef AMB_TEST_WHEEL
    char real[PATH_MAX];
    assert_non_null(realpath(AMB_TEST_WHEEL "/libucp.so.0", real));
    assert_true(found.count > 0);
    assert_string_equal(found.items[0].file, real);
    assert_int_equal(found.items[0].origin, AMB_UCX_WHEEL);
#endif
    assert_string_equal(amb_ucx_origin_name(AMB_UCX_SYSTEM), "system");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_run_path_is_the_wheel_and_the_rest_the_system),
        cmocka_unit_test(test_the_linkers_files_include_others),
        cmocka_unit_test(test_a_library_that_the_linker_finds_itself_is_the_systems),
        cmocka_unit_test(test_links_are_followed),
        cmocka_unit_test(test_files_that_are_no_libraries_are_passed_over),
        cmocka_unit_test(test_there_is_an_end_to_looking),
        cmocka_unit_test(test_modules_are_where_the_user_says),
        cmocka_unit_test(test_modules_beside_a_library_count_always),
        cmocka_unit_test(test_one_is_named_by_its_file_or_its_folder),
        cmocka_unit_test(test_a_file_that_is_named_is_not_taken_for_its_neighbour),
        cmocka_unit_test(test_a_path_that_leads_nowhere_is_told_apart),
        cmocka_unit_test(test_a_list_that_is_too_long_ends_with_a_whole_folder),
        cmocka_unit_test(test_a_ucx_is_here_though_its_file_has_gone),
        cmocka_unit_test(test_a_part_of_a_ucx_is_here_too),
        cmocka_unit_test(test_this_process_has_places_of_its_own),
    };
    return cmocka_run_group_tests(tests, tree_make, tree_remove);
}
