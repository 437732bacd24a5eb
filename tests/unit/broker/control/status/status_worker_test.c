/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of sessions: those of other tenants are none, and take nobody's place. */
#include "broker/control/status/status_worker.h"

#include "broker/base/tenant.h"
#include "broker/control/status/status_rows.h"
#include "broker/session/session.h"
#include "tests/support/shard/shard_client.h"
#include "tests/support/shard/shard_harness.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#define SESSIONS 6u /* Of two tenants in turn. */

static struct shard_harness harness;

/* How many rows of that tenant a worker makes, with room for so many. */
static size_t rows_of(const char *view, uint32_t tenant, uint32_t budget, uint64_t last_id)
{
    const struct amb_status_query query = {
        .view = amb_status_view_find(view), .tenant = tenant, .last_id = last_id};
    struct amb_order *order = amb_order_new(&amb_status_collect, NULL, (void *)(uintptr_t)&query);
    assert_non_null(order);
    struct amb_status_order *part = AMB_CONTAINER_OF(order, struct amb_status_order, order);
    part->row_budget = budget;
    amb_status_collect.run(&harness.shards[0], order);
    assert_true(part->is_done);
    size_t count = json_object_size(json_object_get(part->json, "sessions"));
    json_decref(part->json);
    amb_order_free(order);
    return count;
}

static void test_rows_of_other_tenants_take_no_place(void **state)
{
    (void)state;
    harness_init(&harness, 1, NULL);
    uint64_t last = 0;
    for (unsigned i = 0; i < SESSIONS; i++) {
        struct shard_client *client = shard_client_create(&harness, 0, NULL);
        client->session->tenant = 1 + i % 2;
        last = client->session->client_id;
    }
    static const char *const views[] = {"transports", "paths"};
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(rows_of(views[i], AMB_TENANT_ANY, 100, UINT64_MAX), SESSIONS);
        assert_int_equal(rows_of(views[i], 2, 100, UINT64_MAX), SESSIONS / 2);
        assert_int_equal(rows_of(views[i], 2, SESSIONS / 2, UINT64_MAX), SESSIONS / 2);
        assert_int_equal(rows_of(views[i], 2, 1, UINT64_MAX), 1);
        assert_int_equal(rows_of(views[i], 2, 100, last - 1), SESSIONS / 2 - 1);
        assert_int_equal(rows_of(views[i], 3, 100, UINT64_MAX), 0);
    }
    harness_fini(&harness);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_of_other_tenants_take_no_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
