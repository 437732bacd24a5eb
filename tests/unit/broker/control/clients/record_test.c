/* SPDX-License-Identifier: Apache-2.0 */
/* Entries of the audit log about clients: those who have logged in, those who have not, nobody. */
#include "broker/control/clients/record.h"

#include "tests/unit/broker/control/clients/login_world.h"

#include <stdlib.h>
#include <unistd.h>

static void test_who_it_is(void **state)
{
    (void)state;
    int fds[2];
    struct amb_audit_entry entry;
    use(ALICE);
    struct amb_client *alice = connect_as(1000, &fds[0]), *other = connect_as(1001, &fds[1]);
    (void)snprintf(alice->name, sizeof(alice->name), "cam");
    amb_record_fill(alice, AMB_AUDIT_COMMAND, &entry);
    assert_int_equal(entry.event, AMB_AUDIT_COMMAND);
    assert_string_equal(entry.user, "alice");
    assert_string_equal(entry.tenant, "plant");
    assert_string_equal(entry.by, "uid");
    assert_string_equal(entry.name, "cam");
    assert_int_equal(entry.client, alice->id);
    assert_true(entry.time_ns > 0);
    /* Its login has failed: the kernel's word alone. */
    other->state = AMB_CLIENT_AUTH;
    amb_record_fill(other, AMB_AUDIT_REFUSED, &entry);
    assert_string_equal(entry.user, "uid/1001");
    assert_string_equal(entry.tenant, "");
    assert_null(entry.by);
    other->state = AMB_CLIENT_ENDING;
    amb_record_fill(NULL, AMB_AUDIT_RELOAD, &entry);
    assert_string_equal(entry.user, "");
    /* Without a log nothing happens. */
    amb_record_login(alice);
    amb_record_refused(alice, "publish x", "no");
    amb_record_view(alice, "status");
    amb_record_note(stepped_control(), &entry);
    stepped_leave(other, fds[1]);
    stepped_leave(alice, fds[0]);
    use("");
}

static void test_they_come_into_the_file(void **state)
{
    (void)state;
    static struct amb_audit audit;
    char path[] = "/tmp/amb-record-XXXXXX", why[AMB_AUDIT_WHY_MAX], text[2048] = "";
    int at = mkstemp(path), fd;
    struct amb_audit_file file;
    assert_true(at >= 0);
    assert_int_equal(amb_audit_file_open(path, &file, why), AMB_OK);
    assert_int_equal(amb_audit_start(&audit, &file, path), AMB_OK);
    stepped_control()->audit = &audit;
    use(ALICE);
    struct amb_client *alice = connect_as(1000, &fd); /* login */
    amb_record_refused(alice, "publish cam.8.x", "no role");
    amb_record_view(alice, "status");
    stepped_leave(alice, fd);
    stepped_control()->audit = NULL;
    amb_audit_stop(&audit);
    assert_true(read(at, text, sizeof(text) - 1) > 0);
    assert_non_null(strstr(text, "\"event\":\"login\",\"user\":\"alice\",\"tenant\":\"plant\""));
    assert_non_null(strstr(text, "\"what\":\"publish cam.8.x\",\"result\":\"refused\""));
    assert_non_null(strstr(text, "\"event\":\"view\""));
    assert_int_equal(close(at), 0);
    assert_int_equal(unlink(path), 0);
    use("");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_who_it_is),
        cmocka_unit_test(test_they_come_into_the_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
