/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The example of docs/internals/windows.md: publishers that come one after the other, and then wait
 * for a batch each. Every row of the page's table is compared with the windows that the code opens.
 */
#include "tests/unit/broker/ingest/publisher_world.h"

#include <stdio.h>

#define PAGE "docs/internals/windows.md"
#define BEGIN "<!-- example: begin -->"
#define END "<!-- example: end -->"
#define COME 18u /* publishers */
#define ROWS 32u

static const char settings[] =
    "memory = { host = { size = \"64M\"; segment = \"8M\"; grow_on_demand = true; }; };\n"
    "limits = { window = \"2M\"; };\n";

/* The number in front of a unit of sizes, in KiB. */
static uint64_t read_kib(const char *text)
{
    char unit[8] = "";
    unsigned long long value;
    assert_int_equal(sscanf(text, " %llu %7[A-Za-z]", &value, unit), 2);
    return strcmp(unit, "MiB") == 0 ? value * 1024 : value;
}

/* The rows of the example, as (publishers, KiB that one waits for or 0, KiB of the window). */
struct row {
    unsigned first, last;
    uint64_t wait, window;
};

static unsigned read_page(struct row *rows, unsigned max)
{
    FILE *page = fopen(AMB_SOURCE_DIR "/" PAGE, "r");
    assert_non_null(page);
    char line[256];
    bool is_in = false;
    unsigned count = 0;
    while (fgets(line, sizeof(line), page) != NULL) {
        is_in = is_in ? strstr(line, END) == NULL : strstr(line, BEGIN) != NULL;
        char publishers[32], waits[32], window[64];
        if (!is_in || sscanf(line, "| %31[0-9 to] | %31[^|] | %*[^|] | %63[^|]", publishers, waits,
                             window) != 3) {
            continue;
        }
        assert_true(count < max);
        struct row *row = &rows[count++];
        row->last = 0;
        int fields = sscanf(publishers, "%u to %u", &row->first, &row->last);
        assert_in_range(fields, 1, 2);
        row->last = fields == 1 ? row->first : row->last;
        row->wait = strncmp(waits, "-", 1) == 0 ? 0 : read_kib(waits);
        row->window = read_kib(window);
    }
    (void)fclose(page);
    return count;
}

static void test_the_windows_of_the_example_are_those_of_the_page(void **state)
{
    (void)state;
    struct shard_harness h;
    harness_init(&h, 1, settings);
    uint32_t topic = harness_topic(&h, "a", 0);
    struct row rows[ROWS];
    unsigned count = read_page(rows, ROWS), checked = 0;
    struct shard_client *clients[COME + 1] = {NULL};
    for (unsigned i = 0; i < count; i++) {
        for (unsigned p = rows[i].first; p <= rows[i].last; p++, checked++) {
            assert_in_range(p, 1, COME);
            if (clients[p] == NULL) {
                clients[p] = shard_client_create(&h, 0, NULL);
                client_open_pub(clients[p], 0, topic, false);
            }
            if (rows[i].wait > 0) {
                client_want(clients[p], 0, rows[i].wait * KIB);
            }
            harness_settle(&h);
            uint64_t window = clients[p]->pubs[0].window;
            if (window / KIB != rows[i].window) {
                fail_msg("publisher %u: the page says %llu KiB, and the window is %llu KiB", p,
                         (unsigned long long)rows[i].window, (unsigned long long)(window / KIB));
            }
        }
    }
    assert_int_equal(checked, 2 * COME); /* Each comes, and then waits. */
    assert_int_equal(h.shards[0].windows.max, 8 * KIB * KIB);
    harness_fini(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_windows_of_the_example_are_those_of_the_page),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
