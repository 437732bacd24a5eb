/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trust groups that sessions mapped before they ended: a user who loses rights later loses them
 * too, and nobody else does.
 */
#include "broker/config/config.h"
#include "tests/unit/broker/control/clients/login_world.h"

static struct amb_config *source;

/* The same as a reload would have it, with these roles. */
static int setup(void **state)
{
    static struct amb_config changed;
    static const char text[] = "roles = ( { name = \"camera\"; subscribe = ( \">\" ); },"
                               "          { name = \"less\"; subscribe = ( \"a\" ); } );";
    struct amb_control *control = stepped_control();
    const struct amb_config_source roles = {.text = text, .text_len = sizeof(text) - 1};
    char error[AMB_CONFIG_ERROR_MAX];
    (void)state;
    assert_int_equal(amb_config_create(&roles, error, sizeof(error), &source), AMB_OK);
    changed = *control->config;
    changed.roles = source->roles;
    control->config = &changed;
    memset(&control->left_maps, 0, sizeof(control->left_maps));
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    use("");
    amb_config_destroy(&source);
    return 0;
}

/* One that maps, as its session ends. */
static void note(struct amb_client *client)
{
    bool knows = client->knows_process;
    client->knows_process = true;
    unsigned link = client->link;
    client->link = AMB_LINK_RING;
    amb_left_maps_note(client);
    client->link = link;
    client->knows_process = knows;
}

static uint64_t lost(void)
{
    uint64_t maps = stepped_control()->tenants.lost_maps;
    stepped_control()->tenants.lost_maps = 0;
    return maps;
}

static void a_user_who_has_gone_loses_its_groups_with_its_rights(void **state)
{
    (void)state;
    int fd;
    use(ALICE BOB);
    (void)lost();
    struct amb_client *alice = connect_as(1000, &fd);
    note(alice);
    note(alice);
    stepped_leave(alice, fd);
    assert_int_equal(stepped_control()->left_maps.count, 1);
    use(ALICE BOB "carol:plant:-:-:-:uid/1002\n"); /* Nothing of alice has changed. */
    assert_int_equal(lost(), 0);
    use("alice:plant:less:-:-:uid/1000\n");
    assert_int_equal(lost() & 1, 1);
    use(ALICE); /* Once is enough: nothing of it is mapped any more that could be lost. */
    use("alice:plant:less:-:-:uid/1000\n");
    assert_int_equal(lost(), 0);
}

#define CAROL "carol:plant:camera:-:until=2030-01-02:uid/1002\n"
#define CAROLS_END INT64_C(1893628800) /* 2030-01-03 */

/* Nobody reloads, and no session is there that would end. */
static void a_user_whose_time_is_over_loses_all(void **state)
{
    (void)state;
    int fd;
    struct amb_control *control = stepped_control();
    use(ALICE CAROL);
    (void)lost();
    struct amb_client *carol = connect_as(1002, &fd);
    note(carol);
    stepped_leave(carol, fd);
    amb_left_maps_look(control, CAROLS_END - 1);
    assert_false(amb_renew_is_busy(control));
    amb_left_maps_look(control, CAROLS_END);
    assert_true(amb_renew_is_busy(control));
    amb_renew_some(control);
    assert_false(amb_renew_is_busy(control));
    assert_int_equal(lost() & 1, 1);
    amb_left_maps_look(control, CAROLS_END + 1); /* Once is enough. */
    assert_false(amb_renew_is_busy(control));
    assert_int_equal(lost(), 0);
}

static void a_user_who_is_removed_loses_all(void **state)
{
    (void)state;
    int fd;
    use(ALICE BOB);
    (void)lost();
    struct amb_client *alice = connect_as(1000, &fd);
    note(alice);
    stepped_leave(alice, fd);
    use(BOB);
    assert_int_equal(lost() & 1, 1);
}

/* Its rights are former ones still. */
static void one_that_goes_after_a_reload_is_compared_at_once(void **state)
{
    (void)state;
    int fd;
    use(ALICE);
    (void)lost();
    struct amb_client *alice = connect_as(1000, &fd);
    struct amb_rights *former = amb_rights_ref(alice->rights);
    use("alice:plant:less:-:-:uid/1000\n");
    (void)lost();
    assert_ptr_equal(alice->rights, former);
    note(alice);
    assert_int_equal(lost() & 1, 1);
    amb_rights_unref(&former);
    stepped_leave(alice, fd);
}

static void without_users_all_are_others(void **state)
{
    (void)state;
    int fd;
    use("");
    (void)lost();
    struct amb_client *client = connect_as(1000, &fd);
    note(client);
    stepped_leave(client, fd);
    assert_int_equal(lost(), 0);
    assert_int_equal(stepped_control()->left_maps.count, 0);
    use(ALICE);
    assert_true(lost() == UINT64_MAX);
    use(ALICE BOB);
    assert_int_equal(lost(), 0);
}

/* All lines are of others, who are nobody any more and may map the group 1. */
static void fill(struct amb_left_maps *left)
{
    for (uint32_t i = 0; i < AMB_LEFT_MAPS_MAX; i++) {
        left->lines[i].user = 0;
        left->lines[i].tenant = AMB_TENANT_OPERATORS;
        left->lines[i].maps = 2;
    }
    left->count = left->next = AMB_LEFT_MAPS_MAX;
}

static void a_line_of_one_who_has_lost_all_is_the_next_one_s(void **state)
{
    (void)state;
    int fd;
    struct amb_left_maps *left = &stepped_control()->left_maps;
    use(ALICE);
    (void)lost();
    struct amb_client *alice = connect_as(1000, &fd);
    fill(left);
    left->lines[7].maps = 0;
    note(alice);
    assert_int_equal(left->others, 0);
    assert_int_equal(left->lines[7].user, alice->login.user->number);
    assert_int_equal(left->lines[7].tenant, amb_client_tenant(alice));
    assert_int_equal(left->lines[7].maps & 1, 1);
    stepped_leave(alice, fd);
    use("alice:plant:less:-:-:uid/1000\n");
    while (amb_left_maps_review_next(stepped_control())) {
    }
    assert_int_equal(lost() & 1, 1);
}

static void a_full_table_counts_more_users_as_others(void **state)
{
    (void)state;
    int fd;
    struct amb_left_maps *left = &stepped_control()->left_maps;
    use(ALICE);
    (void)lost();
    struct amb_client *alice = connect_as(1000, &fd);
    fill(left);
    note(alice);
    assert_int_equal(left->count, AMB_LEFT_MAPS_MAX);
    assert_int_equal(left->others & 1, 1);
    stepped_leave(alice, fd);
    use(ALICE BOB);
    assert_int_equal(lost() & 1, 1);
    assert_int_equal(left->others, 0);
}

/* Of those that have no line nobody knows whose time is over. */
static void the_end_of_another_s_time_retires_too(void **state)
{
    (void)state;
    int fd;
    struct amb_control *control = stepped_control();
    struct amb_left_maps *left = &control->left_maps;
    use(ALICE CAROL);
    (void)lost();
    struct amb_client *carol = connect_as(1002, &fd);
    fill(left);
    note(carol);
    amb_left_maps_look(control, CAROLS_END - 1);
    assert_int_equal(lost(), 0);
    amb_left_maps_look(control, CAROLS_END);
    assert_int_equal(lost() & 1, 1);
    assert_int_equal(left->others, 0);
    note(carol); /* One whose session ends later loses at once. */
    assert_int_equal(lost() & 1, 1);
    assert_int_equal(left->others, 0);
    left->count = left->next = 0;
    stepped_leave(carol, fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        T(a_user_who_has_gone_loses_its_groups_with_its_rights),
        T(a_user_whose_time_is_over_loses_all),
        T(a_user_who_is_removed_loses_all),
        T(one_that_goes_after_a_reload_is_compared_at_once),
        T(without_users_all_are_others),
        T(a_line_of_one_who_has_lost_all_is_the_next_one_s),
        T(a_full_table_counts_more_users_as_others),
        T(the_end_of_another_s_time_retires_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
