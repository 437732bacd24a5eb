/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broker/rights_answer: yes, no or narrowed, and the line that says so.
 */
#include "broker/control/status/rights_answer.h"

#include "tests/unit/broker/control/clients/roles_world.h"
#include "wire/base/hash.h"

static const char roles[] =
    "roles = (\n"
    "{ name = \"camera\"; request = true; admin = \"read\";\n"
    "  publish = { allow = ( \"cam.%u.>\" ); deny = ( \"cam.alice.x\" ); };\n"
    "  subscribe = { allow = ( \"cfg.>\", \"=room.*\" ); deny = ( \"cfg.%t.>\" ); }; } );";

static int begin(void **state)
{
    (void)state;
    use_roles(roles);
    use(ALICE BOB);
    return 0;
}

static int end(void **state)
{
    use("");
    return forget_roles(state);
}

static const char *text_of(const json_t *rows, const char *key)
{
    return json_string_value(json_object_get(json_array_get(rows, 0), key));
}

static void test_answers_name_their_line(void **state)
{
    (void)state;
    static const struct {
        const char *words, *answer, *list, *pattern, *where;
    } cases[] = {
        {"alice publish cam.alice.y", "yes", "allow", "cam.%u.>", "configuration:3"},
        {"alice publish cam.alice.x", "no", "deny", "cam.alice.x", "configuration:3"},
        {"alice publish cam.bob.x", "no", "", "", ""},
        {"alice publish $SYS.x", "no", "", "", ""},
        {"alice publish $INBOX.0123456789abcdef0123456789abcdef", "no", "", "", ""},
        {"alice subscribe $INBOX.0123456789abcdef0123456789abcdef", "yes", "", "", ""},
        {"alice subscribe cfg.a", "yes", "allow", "cfg.>", "configuration:4"},
        {"alice subscribe cfg.>", "narrowed", "deny", "cfg.%t.>", "configuration:4"},
        {"alice subscribe cfg.plant.a", "no", "deny", "cfg.%t.>", "configuration:4"},
        {"alice subscribe room.1", "yes", "allow", "=room.*", "configuration:4"},
        {"alice subscribe room.*", "no", "", "", ""},
        {"alice admin read", "yes", "", "", ""},
        {"alice admin operate", "no", "", "", ""},
        {"bob publish cam.bob.x", "no", "", "", ""},
    };
    struct amb_control *control = stepped_control();
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        json_t *rows = NULL;
        const char *why = "";
        if (amb_rights_answer(control, AMB_TENANT_ANY, cases[i].words, &rows, &why) != AMB_OK) {
            fail_msg("%s: %s", cases[i].words, why);
        }
        if (strcmp(text_of(rows, "answer"), cases[i].answer) != 0) {
            fail_msg("%s: %s", cases[i].words, text_of(rows, "answer"));
        }
        assert_string_equal(text_of(rows, "list"), cases[i].list);
        assert_string_equal(text_of(rows, "pattern"), cases[i].pattern);
        assert_string_equal(text_of(rows, "where"), cases[i].where);
        json_decref(rows);
    }
    assert_int_equal(amb_map_count(control->rights.by_key), 0); /* Nothing is kept. */
}

static void test_wrong_questions_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *words;
        enum amb_status status;
    } cases[] = {
        {"", AMB_EINVAL},
        {"alice", AMB_EINVAL},
        {"alice publish", AMB_EINVAL},
        {"alice publish ", AMB_EINVAL},
        {"alice publish a..b", AMB_EINVAL},
        {"alice publish a b", AMB_EINVAL},
        {"alice subscribe >.a", AMB_EINVAL},
        {"alice admin none", AMB_EINVAL},
        {"alice admin root", AMB_EINVAL},
        {"alice delete a", AMB_EINVAL},
        {"alice publishpublishpublish a", AMB_EINVAL},
        {" publish a", AMB_EINVAL},
        {"carol publish a", AMB_ENOTFOUND},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        json_t *rows = NULL;
        const char *why = "";
        assert_int_equal(
            amb_rights_answer(stepped_control(), AMB_TENANT_ANY, cases[i].words, &rows, &why),
            cases[i].status);
        assert_null(rows);
        assert_true(why[0] != '\0');
    }
}

static void test_a_user_who_is_out_is_said_to_be(void **state)
{
    (void)state;
    json_t *rows = NULL;
    const char *why = "";
    use("alice:plant:camera:-:off:uid/1000\n");
    assert_int_equal(amb_rights_answer(stepped_control(), AMB_TENANT_ANY,
                                       "alice publish cam.alice.y", &rows, &why),
                     AMB_OK);
    assert_string_equal(text_of(rows, "answer"), "yes");
    assert_true(json_is_false(json_object_get(json_array_get(rows, 0), "may_enter")));
    json_decref(rows);
    use("");
    assert_int_equal(
        amb_rights_answer(stepped_control(), AMB_TENANT_ANY, "alice publish a", &rows, &why),
        AMB_ENOTFOUND);
    use(ALICE BOB);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers_name_their_line),
        cmocka_unit_test(test_wrong_questions_are_refused),
        cmocka_unit_test(test_a_user_who_is_out_is_said_to_be),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
