/* SPDX-License-Identifier: Apache-2.0 */
/* Crowds: which connections are of one, and whose oldest goes first. */
#include "broker/tls/crowds.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static struct sockaddr_storage address(const char *text)
{
    struct sockaddr_storage out = {.ss_family = AF_INET6};
    struct sockaddr_in *v4 = (struct sockaddr_in *)(void *)&out;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)(void *)&out;
    if (strchr(text, ':') == NULL) {
        out.ss_family = AF_INET;
        assert_int_equal(inet_pton(AF_INET, text, &v4->sin_addr), 1);
    } else {
        assert_int_equal(inet_pton(AF_INET6, text, &v6->sin6_addr), 1);
    }
    return out;
}

static struct amb_crowd *add(struct amb_crowds *crowds, const char *text,
                             struct amb_crowd_member *member)
{
    struct sockaddr_storage from = address(text);
    uint8_t key[AMB_CROWD_KEY_SIZE];
    amb_crowd_key_of(&from, key);
    amb_list_init(&member->node);
    return amb_crowds_add(crowds, key, member);
}

static void test_an_address_or_a_network_of_ipv6_is_one_crowd(void **state)
{
    (void)state;
    struct amb_crowds crowds;
    struct amb_crowd_member nodes[6];
    assert_int_equal(amb_crowds_init(&crowds, 8), AMB_OK);
    struct amb_crowd *v4 = add(&crowds, "192.0.2.1", &nodes[0]);
    assert_ptr_equal(add(&crowds, "::ffff:192.0.2.1", &nodes[1]), v4);
    assert_ptr_not_equal(add(&crowds, "192.0.2.2", &nodes[2]), v4);
    struct amb_crowd *v6 = add(&crowds, "2001:db8:1:2::7", &nodes[3]);
    assert_ptr_equal(add(&crowds, "2001:db8:1:2:ffff::1", &nodes[4]), v6);
    assert_ptr_not_equal(add(&crowds, "2001:db8:1:3::7", &nodes[5]), v6);
    assert_int_equal(v6->count, 2);
    amb_crowds_remove(v6, &nodes[4]);
    uint8_t v4_key[AMB_CROWD_KEY_SIZE], uid_key[AMB_CROWD_KEY_SIZE];
    struct sockaddr_storage from = address("192.0.2.1");
    uid_t uid;
    amb_crowd_key_of(&from, v4_key);
    memcpy(&uid, v4_key, sizeof(uid)); /* The same bytes, of another kind. */
    amb_crowd_key_of_uid(uid, uid_key);
    assert_ptr_not_equal(amb_crowds_add(&crowds, uid_key, &nodes[4]), v4);
    amb_crowds_fini(&crowds);
    amb_crowds_fini(&crowds);
}

static struct amb_crowd_member *first_to_go(const struct amb_crowds *crowds)
{
    const struct amb_crowd *largest = amb_crowds_largest(crowds);
    assert_non_null(largest);
    return AMB_CONTAINER_OF(largest->oldest.next, struct amb_crowd_member, node);
}

static void test_the_oldest_connection_of_the_largest_crowd_goes_first(void **state)
{
    (void)state;
    struct amb_crowds crowds;
    struct amb_crowd_member few[2], many[3];
    assert_int_equal(amb_crowds_init(&crowds, 5), AMB_OK);
    assert_null(amb_crowds_largest(&crowds));
    struct amb_crowd *small = add(&crowds, "192.0.2.1", &few[0]);
    struct amb_crowd *large = add(&crowds, "192.0.2.2", &many[0]);
    (void)add(&crowds, "192.0.2.2", &many[1]);
    (void)add(&crowds, "192.0.2.1", &few[1]);
    (void)add(&crowds, "192.0.2.2", &many[2]);
    assert_ptr_equal(first_to_go(&crowds), &many[0]);
    amb_crowds_remove(large, &many[0]);
    amb_crowds_remove(large, &many[1]);
    assert_ptr_equal(first_to_go(&crowds), &few[0]);
    amb_crowds_remove(small, &few[0]);
    amb_crowds_remove(small, &few[1]);
    assert_ptr_equal(first_to_go(&crowds), &many[2]);
    amb_crowds_fini(&crowds);
}

/* A flood from as many addresses as there are places. The newest connection is not the next to go.
 */
static void test_the_oldest_connection_of_many_addresses_goes_first(void **state)
{
    (void)state;
    enum {
        PLACES = 4
    };
    struct amb_crowds crowds;
    struct amb_crowd_member members[PLACES + 1];
    struct amb_crowd *of[PLACES + 1];
    char text[16] = "192.0.2.0";
    assert_int_equal(amb_crowds_init(&crowds, PLACES), AMB_OK);
    for (unsigned i = 0; i < PLACES; i++) {
        text[8] = (char)('1' + i);
        of[i] = add(&crowds, text, &members[i]);
    }
    assert_ptr_equal(first_to_go(&crowds), &members[0]);
    amb_crowds_remove(of[0], &members[0]);
    of[PLACES] =
        add(&crowds, "198.51.100.1", &members[PLACES]); /* In the place of the first one. */
    assert_ptr_equal(of[PLACES], of[0]);
    for (unsigned i = 1; i <= PLACES; i++) {
        assert_ptr_equal(first_to_go(&crowds), &members[i]);
        amb_crowds_remove(of[i], &members[i]);
    }
    amb_crowds_fini(&crowds);
}

static void test_a_full_table_has_room_again_when_a_crowd_has_gone(void **state)
{
    (void)state;
    struct amb_crowds crowds;
    struct amb_crowd_member nodes[3];
    assert_int_equal(amb_crowds_init(&crowds, 2), AMB_OK);
    struct amb_crowd *first = add(&crowds, "192.0.2.1", &nodes[0]);
    assert_non_null(add(&crowds, "192.0.2.2", &nodes[1]));
    assert_null(add(&crowds, "192.0.2.3", &nodes[2]));
    amb_crowds_remove(first, &nodes[0]);
    assert_ptr_equal(add(&crowds, "192.0.2.3", &nodes[2]), first);
    amb_crowds_fini(&crowds);
}

static void test_a_connection_in_another_struct_keeps_its_place(void **state)
{
    (void)state;
    struct amb_crowds crowds;
    struct amb_crowd_member old[3], fresh;
    assert_int_equal(amb_crowds_init(&crowds, 2), AMB_OK);
    struct amb_crowd *crowd = add(&crowds, "192.0.2.1", &old[0]);
    (void)add(&crowds, "192.0.2.1", &old[1]);
    (void)add(&crowds, "192.0.2.1", &old[2]);
    amb_crowds_replace(&old[1], &fresh);
    assert_int_equal(crowd->count, 3);
    assert_ptr_equal(first_to_go(&crowds), &old[0]);
    amb_crowds_remove(crowd, &old[0]);
    assert_ptr_equal(first_to_go(&crowds), &fresh);
    assert_int_equal(fresh.number, 2);
    amb_crowds_remove(crowd, &fresh);
    assert_ptr_equal(first_to_go(&crowds), &old[2]);
    amb_crowds_fini(&crowds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_address_or_a_network_of_ipv6_is_one_crowd),
        cmocka_unit_test(test_the_oldest_connection_of_the_largest_crowd_goes_first),
        cmocka_unit_test(test_the_oldest_connection_of_many_addresses_goes_first),
        cmocka_unit_test(test_a_full_table_has_room_again_when_a_crowd_has_gone),
        cmocka_unit_test(test_a_connection_in_another_struct_keeps_its_place),
    };
    return cmocka_run_group_tests_name("crowds", tests, NULL, NULL);
}
