/* SPDX-License-Identifier: Apache-2.0 */
/* Differences key by key, elements of lists too, each with the line of the new value. */
#include "broker/config/print/config_changes.h"
#include "tests/support/config_try.h"

static char told[4096];

static void tell(void *arg, const struct amb_config_change *change)
{
    size_t len = strlen(told);
    (void)arg;
    (void)snprintf(told + len, sizeof(told) - len, "%s|%s|%s|%s|%s\n", change->key,
                   change->before == NULL ? "-" : change->before,
                   change->after == NULL ? "-" : change->after, change->place,
                   amb_config_apply_name(change->apply));
}

static void expect(const char *before_text, const char *after_text, const char *changes)
{
    struct amb_config *before = try_accept(before_text), *after = try_accept(after_text);
    told[0] = '\0';
    amb_config_changes(before, after, tell, NULL);
    assert_string_equal(told, changes);
    amb_config_destroy(&before);
    amb_config_destroy(&after);
}

static void test_keys_have_values_and_places(void **state)
{
    (void)state;
    expect("", "", "");
    expect("limits = { window = \"4M\"; };", "\n\nlimits = { window = \"1M\"; };",
           "limits.window|\"4M\"|\"1M\"|configuration:3|new sessions\n");
    expect("log = { level = \"debug\"; };", "", "log.level|\"debug\"|\"info\"|default|live\n");
    expect("auth = { token = \"a\"; };", "auth = { token = \"b\"; };",
           "auth.token|-|-|configuration:1|new sessions\n");
}

static void test_elements_go_by_their_names(void **state)
{
    (void)state;
    static const char two[] = "topics = ( { match = \"a\"; }, { match = \"b\"; } );";
    expect(two,
           "topics = (\n { match = \"b\";\n   ttl = \"5s\"; retain = {\n keys = 3; }; },\n"
           " { match = \"c\"; } );",
           "topics[b].retain.keys|0|3|configuration:4|live\n"
           "topics[b].ttl|\"forever\"|\"5s\"|configuration:3|live\n"
           "topics[c]|none|there|configuration:5|live\n"
           "topics[a]|there|none|configuration:1|live\n");
    expect(two, "\ntopics = ( { match = \"b\"; }, { match = \"a\"; } );",
           "topics|-|-|configuration:2|live\n");
    /* A key that goes has the line of its element. */
    expect("topics = ( { match = \"a\"; ttl = \"5s\"; } );", "topics = (\n { match = \"a\"; } );",
           "topics[a].ttl|\"5s\"|\"forever\"|configuration:2|live\n");
    /* Memory of groups needs a restart. */
    expect("topics = ( { match = \"a\"; } );",
           "topics = ( { match = \"a\"; trust_group = \"own\"; } );",
           "topics[a].trust_group|\"default\"|\"own\"|configuration:1|restart\n"
           "topics.trust_group|-|-|configuration:1|restart\n");
}

static void test_a_list_of_a_higher_layer_hides_the_lines_below(void **state)
{
    (void)state;
    static const char *const set[] = {"topics=( { match = \"a\"; ttl = \"6s\"; } )",
                                      "limits.window=1M"};
    struct amb_config_source source = try_source("topics = ( { match = \"a\"; ttl = \"5s\"; } );");
    struct amb_config *before = try_accept_source(&source);
    source.set = set;
    source.set_count = 2;
    struct amb_config *after = try_accept_source(&source);
    told[0] = '\0';
    amb_config_changes(before, after, tell, NULL);
    assert_string_equal(told, "topics[a].ttl|\"5s\"|\"6s\"|set|live\n"
                              "limits.window|\"2M\"|\"1M\"|set|new sessions\n");
    amb_config_destroy(&before);
    amb_config_destroy(&after);
}

/* ---- long lists ---- */

static unsigned long compared; /* calls of strcmp */

int __real_strcmp(const char *a, const char *b);
int __wrap_strcmp(const char *a, const char *b);

int __wrap_strcmp(const char *a, const char *b)
{
    compared++;
    return __real_strcmp(a, b);
}

/* That many rules, from the last to the first if is_reversed. All are in their own line. */
static struct amb_config *rules(unsigned count, bool is_reversed, const char *key)
{
    size_t room = 64 + count * 64, len = 0;
    char *text = malloc(room);
    assert_non_null(text);
    len += (size_t)snprintf(text, room, "topics = (");
    for (unsigned i = 0; i < count; i++) {
        len += (size_t)snprintf(text + len, room - len, "%s{ match = \"t%u.>\"; %s }",
                                i == 0 ? "" : ",\n", is_reversed ? count - 1 - i : i, key);
    }
    (void)snprintf(text + len, room - len, ");");
    struct amb_config *config = try_accept(text);
    free(text);
    return config;
}

static unsigned changes;
static char last_place[64];

static void count_change(void *arg, const struct amb_config_change *change)
{
    (void)arg;
    changes++;
    (void)snprintf(last_place, sizeof(last_place), "%s", change->place);
}

/* The comparisons of two such lists. */
static unsigned long work(unsigned count, bool is_reversed, const char *key)
{
    struct amb_config *before = rules(count, false, "ttl = \"5s\";");
    struct amb_config *after = rules(count, is_reversed, key);
    compared = changes = 0;
    amb_config_changes(before, after, count_change, NULL);
    unsigned long result = compared;
    amb_config_destroy(&before);
    amb_config_destroy(&after);
    return result;
}

static void test_work_grows_with_the_list_and_not_with_its_square(void **state)
{
    (void)state;
    static const struct {
        const char *keys;
        unsigned changes; /* of each rule */
    } tries[] = {{"ttl = \"5s\";", 0}, {"ttl = \"6s\";", 1}, {"", 1}, {"max_messages = 7;", 2}};
    for (size_t i = 0; i < 2 * sizeof(tries) / sizeof(tries[0]); i++) {
        bool is_reversed = i % 2 == 1; /* One change more: the order. */
        unsigned long half = work(500, is_reversed, tries[i / 2].keys);
        unsigned long whole = work(1000, is_reversed, tries[i / 2].keys);
        assert_int_equal(changes, tries[i / 2].changes * 1000 + is_reversed);
        assert_in_range(whole, 1000, 3 * half);
        assert_in_range(whole, 1000, 300 * 1000);
        if (tries[i / 2].changes != 0) {
            assert_string_equal(last_place, is_reversed ? "configuration:1" : "configuration:1000");
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keys_have_values_and_places),
        cmocka_unit_test(test_elements_go_by_their_names),
        cmocka_unit_test(test_a_list_of_a_higher_layer_hides_the_lines_below),
        cmocka_unit_test(test_work_grows_with_the_list_and_not_with_its_square),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
