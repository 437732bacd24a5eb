/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Questions and commands: the level of each, and a reload that its askers wait for. The audit log
 * and commands over real sockets are in tests/integration/admin_test.py.
 */
#include "broker/control/admin/admin.h"

#include "broker/audit/audit.h"
#include "broker/control/clients/hooks.h"
#include "tests/unit/broker/control/clients/roles_world.h"

#include <stdlib.h>
#include <unistd.h>

static const char roles[] = "roles = ( { name = \"camera\"; admin = \"operate\"; },\n"
                            "          { name = \"views\"; admin = \"read\"; } );";
static const char users[] = "alice:$:camera:-:-:uid/1000\nbob:plant:views:-:-:uid/1001\n"
                            "carol:plant:camera:-:-:uid/1002\n";

static unsigned reloads, drains;

static void on_reload(void *arg)
{
    (void)arg;
    reloads++;
}

static void on_drain(void *arg)
{
    (void)arg;
    drains++;
}

static const struct amb_control_hooks hooks = {on_reload, on_drain, NULL, NULL};

static int begin(void **state)
{
    (void)state;
    use_roles(roles);
    atomic_store(&stepped_control()->hooks, &hooks);
    use(users);
    return 0;
}

static int end(void **state)
{
    use("");
    return forget_roles(state);
}

static void drop_message(int fd)
{
    amb_control_free(stepped_hear(fd));
}

/* Logged in, and nothing of that is unread. */
static struct amb_client *enter(uint32_t uid, int *fd)
{
    struct amb_client *client = connect_as(uid, fd);
    drop_message(*fd); /* Challenge */
    drop_message(*fd); /* Welcome */
    assert_int_equal(client->state, AMB_CLIENT_LIVE);
    return client;
}

static void ask(struct amb_client *client, int fd, const char *query)
{
    Amb__Control__Admin admin = AMB__CONTROL__ADMIN__INIT;
    admin.query = (char *)(uintptr_t)query;
    Amb__Control__Control message = AMB__CONTROL__CONTROL__INIT;
    message.id = 9;
    message.body_case = AMB__CONTROL__CONTROL__BODY_ADMIN;
    message.admin = &admin;
    stepped_say_message(client, fd, &message);
}

static void hears(int fd, int body_case, enum amb_status status, const char *part)
{
    char text[512] = "";
    Amb__Control__Control *message = stepped_hear(fd);
    assert_int_equal(message->body_case, body_case);
    if (body_case == AMB__CONTROL__CONTROL__BODY_ERROR) {
        assert_int_equal(message->error->status, status);
        (void)snprintf(text, sizeof(text), "%s", message->error->text);
    } else {
        const ProtobufCBinaryData *json = &message->admin_reply->json;
        (void)snprintf(text, sizeof(text), "%.*s", (int)json->len, (const char *)json->data);
    }
    if (strstr(text, part) == NULL) {
        fail_msg("\"%s\" is not in: %s", part, text);
    }
    amb_control_free(message);
}

#define REPLY AMB__CONTROL__CONTROL__BODY_ADMIN_REPLY
#define ERROR AMB__CONTROL__CONTROL__BODY_ERROR

static void test_levels(void **state)
{
    (void)state;
    int fds[2];
    struct amb_client *alice = enter(1000, &fds[0]), *bob = enter(1001, &fds[1]);
    static const char *const commands[] = {
        "kick 7", "kick --user bob", "block bob", "unblock bob", "durable rm d", "reload", "drain"};
    uint64_t before = stepped_control()->stats->forbidden;
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        ask(bob, fds[1], commands[i]);
        hears(fds[1], ERROR, AMB_EFORBIDDEN, "");
    }
    assert_int_equal(stepped_control()->stats->forbidden, before + 7);
    ask(alice, fds[0], "kick 7777");
    hears(fds[0], ERROR, AMB_ENOTFOUND, "no client has that number or name");
    ask(alice, fds[0], "kick");
    hears(fds[0], ERROR, AMB_EINVAL, "kick CLIENT");
    ask(alice, fds[0], "blocked");
    hears(fds[0], REPLY, AMB_OK, "{\"blocked\":[]");
    stepped_leave(bob, fds[1]);
    stepped_leave(alice, fds[0]);
}

static void test_a_reload_is_waited_for(void **state)
{
    (void)state;
    struct amb_control *control = stepped_control();
    int fds[2];
    struct amb_client *alice = enter(1000, &fds[0]), *other = enter(1000, &fds[1]);
    reloads = 0;
    uint64_t asked = atomic_load(&control->reloads_asked);
    ask(alice, fds[0], "reload");
    assert_int_equal(reloads, 1);
    amb_admin_reloaded(control, asked, false, "one that began before is another's", NULL);
    assert_false(amb_list_is_empty(&control->reloads));
    ask(other, fds[1], "reload");
    amb_admin_reloaded(control, asked + 1, true, "in force from now on: roles", NULL);
    hears(fds[0], REPLY, AMB_OK, "in force from now on: roles");
    assert_false(amb_list_is_empty(&control->reloads));
    amb_admin_reloaded(control, asked + 2, false, "b.conf:1: wrong", NULL);
    hears(fds[1], ERROR, AMB_EREJECTED, "reload: b.conf:1: wrong");
    assert_true(amb_list_is_empty(&control->reloads));
    /* One whose client goes, and one that the broker's end ends. */
    ask(alice, fds[0], "reload");
    stepped_leave(alice, fds[0]);
    amb_admin_reloaded(control, asked + 3, true, "in force", NULL);
    ask(other, fds[1], "reload");
    amb_admin_end(control);
    hears(fds[1], ERROR, AMB_EREJECTED, "the broker ends");
    amb_admin_end(control);
    drains = 0;
    ask(other, fds[1], "drain");
    hears(fds[1], REPLY, AMB_OK, "\"command\":\"drain\",\"result\":\"done\"");
    assert_int_equal(drains, 1);
    stepped_leave(other, fds[1]);
}

static void test_an_operator_of_a_tenant_has_no_reload(void **state)
{
    (void)state;
    int fd;
    struct amb_client *carol = enter(1002, &fd);
    reloads = drains = 0;
    ask(carol, fd, "reload");
    hears(fd, ERROR, AMB_EFORBIDDEN, "");
    ask(carol, fd, "drain");
    hears(fd, ERROR, AMB_EFORBIDDEN, "");
    assert_int_equal(reloads + drains, 0);
    stepped_leave(carol, fd);
}

static void test_traces_that_are_refused(void **state)
{
    (void)state;
    int fds[2];
    struct amb_client *alice = enter(1000, &fds[0]), *bob = enter(1001, &fds[1]);
    ask(bob, fds[1], "trace a 1 1s");
    hears(fds[1], ERROR, AMB_EFORBIDDEN, "operate");
    static const char *const wrong[] = {"trace a 0 1s", "trace a 101 1s", "trace a x 1s",
                                        "trace a 1 0s", "trace a 1 2h",   "trace a 1 soon"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        ask(alice, fds[0], wrong[i]);
        hears(fds[0], ERROR, AMB_EINVAL, "N is 1 to 100, and the time up to 1h");
    }
    ask(alice, fds[0], "trace a..b 1 1s");
    hears(fds[0], ERROR, AMB_EINVAL, "empty token");
    assert_true(amb_list_is_empty(&stepped_control()->traces));
    stepped_leave(bob, fds[1]);
    stepped_leave(alice, fds[0]);
}

/* Its line goes to the disk, and meanwhile its right goes by a reload that has not come to it. */
static void test_a_right_that_goes_meanwhile(void **state)
{
    (void)state;
    static const char less[] = "roles = ( { name = \"camera\"; }, { name = \"views\"; } );";
    static struct amb_audit audit;
    const struct amb_config_source from = {.text = less, .text_len = sizeof(less) - 1};
    struct amb_control *control = stepped_control();
    const struct amb_config *former = control->config;
    struct amb_config *later, changed = *former;
    struct amb_audit_file file;
    char path[] = "/tmp/amb-admin-XXXXXX", why[AMB_AUDIT_WHY_MAX];
    int at = mkstemp(path), fd;
    assert_true(at >= 0);
    assert_int_equal(amb_audit_file_open(path, &file, why), AMB_OK);
    assert_int_equal(amb_audit_start(&audit, &file, path), AMB_OK);
    assert_int_equal(amb_config_create(&from, NULL, 0, &later), AMB_OK);
    struct amb_client *alice = enter(1000, &fd);
    drains = 0;
    control->audit = &audit;
    amb_admin_request(alice, 9, "drain");
    changed.roles = later->roles;
    control->config = &changed;
    amb_rights_table_renew(&control->rights);
    alice->is_unrenewed = true; /* as renew.c does */
    amb_list_push_back(&control->unrenewed, &alice->of_revoked);
    amb_audit_stop(&audit); /* With its answer. */
    control->audit = NULL;
    stepped_settle(alice);
    assert_int_equal(drains, 0);
    assert_int_equal(alice->revoked, AMB_ELOST);
    stepped_leave(alice, fd);
    control->config = former;
    amb_rights_table_renew(&control->rights);
    amb_config_destroy(&later);
    assert_int_equal(close(at), 0);
    assert_int_equal(unlink(path), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_levels),
        cmocka_unit_test(test_a_reload_is_waited_for),
        cmocka_unit_test(test_an_operator_of_a_tenant_has_no_reload),
        cmocka_unit_test(test_traces_that_are_refused),
        cmocka_unit_test(test_a_right_that_goes_meanwhile),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
