/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broker/count/counters: the file is made whole, with its mode, beside its former one; where it
 * cannot be had the counters are private, and say why. Slots are taken, written, read while others
 * write them, and given back.
 */
#include "broker/count/counters_slots.h"

#include "broker/count/figures.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[64], path[96], old[128];

static int in_folder(void **state)
{
    (void)state;
    (void)snprintf(folder, sizeof(folder), "/dev/shm/amb-counters-XXXXXX");
    if (mkdtemp(folder) == NULL) {
        return -1;
    }
    (void)snprintf(path, sizeof(path), "%s/c", folder);
    (void)snprintf(old, sizeof(old), "%s/c.old", folder);
    return 0;
}

static int out_of_folder(void **state)
{
    (void)state;
    (void)unlink(path);
    (void)rmdir(path);
    (void)unlink(old);
    return rmdir(folder);
}

static struct amb_counters_options options_of(const char *file)
{
    return (struct amb_counters_options){.path = file,
                                         .why = "a test",
                                         .mode = 0640,
                                         .group = (gid_t)-1,
                                         .workers = 2,
                                         .objects = 128,
                                         .name = "door",
                                         .version = "1",
                                         .ucx = "off",
                                         .epoch = 7,
                                         .now_ns = 5,
                                         .real_ns = 6};
}

static void open_one(struct amb_counters *counters)
{
    const struct amb_counters_options options = options_of(path);
    assert_int_equal(amb_counters_create(&options, counters), AMB_OK);
    assert_string_equal(counters->why, "");
    assert_string_equal(counters->path, path);
}

static void test_a_file_is_whole_and_says_whose_it_is(void **state)
{
    (void)state;
    struct amb_counters counters;
    struct amb_counters_image image;
    char why[AMB_COUNTERS_WHY_MAX];
    struct stat st;
    open_one(&counters);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0640);
    assert_true((size_t)st.st_blocks * 512 >= counters.size); /* No store can fail. */
    amb_stat_add(&amb_counters_shard(&counters, 1)->msgs_in, 42);
    amb_stat_add(&amb_counters_broker(&counters)->accepted, 3);
    assert_int_equal(amb_counters_load(path, &image, why), AMB_OK);
    assert_string_equal(image.header->name, "door");
    assert_int_equal(image.header->pid, getpid());
    assert_int_equal(image.header->epoch, 7);
    assert_int_equal(image.header->has_ended, 0);
    assert_int_equal(amb_counters_word(&image, 0, 0), 3);
    assert_int_equal(amb_counters_word(&image, 2, offsetof(struct amb_shard_stats, msgs_in) / 8),
                     42);
    assert_int_equal(amb_counters_word(&image, 3, 0), UINT64_MAX);
    amb_counters_unload(&image);
    amb_counters_destroy(&counters);
    amb_counters_destroy(&counters);
    assert_int_equal(amb_counters_load(path, &image, why), AMB_OK);
    assert_int_equal(image.header->has_ended, 1);
    amb_counters_unload(&image);
}

/* Of a thread that had no core between its look at the clock and its store. */
static void test_an_older_sign_of_life_changes_nothing(void **state)
{
    (void)state;
    struct amb_counters counters;
    open_one(&counters);
    amb_counters_beat(&counters, 70, 71);
    amb_counters_beat(&counters, 69, 70);
    assert_int_equal(counters.header->beat_ns, 70);
    assert_int_equal(counters.header->beat_real_ns, 71);
    amb_counters_beat(&counters, 72, 60); /* The clock of the day has been set back. */
    assert_int_equal(counters.header->beat_ns, 72);
    assert_int_equal(counters.header->beat_real_ns, 60);
    amb_counters_destroy(&counters);
}

#define BEATERS 4u
#define BEATS 1000000u

struct beater {
    const struct amb_counters *counters;
    _Atomic uint64_t *clock;
    bool has_gone_back;
};

/* A sign of life that is given stands, or a newer one does. */
static void *beat_on(void *arg)
{
    struct beater *beater = arg;
    for (unsigned i = 0; i < BEATS && !beater->has_gone_back; i++) {
        uint64_t now_ns = atomic_fetch_add(beater->clock, 1);
        amb_counters_beat(beater->counters, (int64_t)now_ns, (int64_t)now_ns + 1);
        beater->has_gone_back = atomic_load(&beater->counters->header->beat_ns) < now_ns;
    }
    return NULL;
}

static void test_signs_of_life_of_several_threads_never_go_back(void **state)
{
    (void)state;
    struct amb_counters counters;
    struct beater beaters[BEATERS];
    pthread_t threads[BEATERS];
    _Atomic uint64_t clock = 1000;
    open_one(&counters);
    for (unsigned i = 0; i < BEATERS; i++) {
        beaters[i] = (struct beater){.counters = &counters, .clock = &clock};
        assert_int_equal(pthread_create(&threads[i], NULL, beat_on, &beaters[i]), 0);
    }
    for (unsigned i = 0; i < BEATERS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    for (unsigned i = 0; i < BEATERS; i++) {
        assert_false(beaters[i].has_gone_back);
    }
    assert_int_equal(counters.header->beat_ns, clock - 1);
    assert_int_equal(counters.header->beat_real_ns, clock);
    amb_counters_destroy(&counters);
}

static void test_a_file_that_is_hidden_is_its_owner_s(void **state)
{
    (void)state;
    struct amb_counters counters;
    struct stat st;
    open_one(&counters);
    amb_counters_hide(&counters);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    amb_counters_destroy(&counters);
    const struct amb_counters_options options = options_of(NULL);
    assert_int_equal(amb_counters_create(&options, &counters), AMB_OK);
    amb_counters_hide(&counters); /* There is none. */
    amb_counters_destroy(&counters);
}

static void test_the_former_file_is_kept_once(void **state)
{
    (void)state;
    struct amb_counters counters;
    struct amb_counters_image image;
    char why[AMB_COUNTERS_WHY_MAX];
    for (uint64_t life = 1; life <= 3; life++) {
        open_one(&counters);
        amb_stat_add(&amb_counters_broker(&counters)->accepted, life);
        amb_counters_destroy(&counters);
    }
    assert_int_equal(amb_counters_load(old, &image, why), AMB_OK);
    assert_int_equal(amb_counters_word(&image, 0, 0), 2);
    amb_counters_unload(&image);
}

static void assert_private(const struct amb_counters_options *options, const char *part)
{
    struct amb_counters counters;
    assert_int_equal(amb_counters_create(options, &counters), AMB_OK);
    assert_string_equal(counters.path, "");
    if (strstr(counters.why, part) == NULL) {
        fail_msg("'%s' does not say '%s'", counters.why, part);
    }
    amb_stat_add(&amb_counters_shard(&counters, 0)->msgs_in, 1); /* It counts all the same. */
    amb_counters_destroy(&counters);
}

static void test_where_no_file_can_be_had_counters_are_private(void **state)
{
    (void)state;
    struct amb_counters counters;
    struct amb_counters_options options = options_of(NULL);
    assert_private(&options, "a test");
    open_one(&counters);
    options = options_of(path);
    assert_private(&options, "a broker that runs has that file");
    amb_counters_destroy(&counters);
    options = options_of("/nowhere/at/all");
    assert_private(&options, "No such file");
    options = options_of("/proc/self/counters");
    options.must_be_in_memory = true;
    assert_private(&options, "");
    options = options_of(folder);
    assert_private(&options, "Is a directory");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink("/dev/null", path), 0);
    options = options_of(path);
    assert_private(&options, "symbolic");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_private(&options, "no regular one");
}

static void test_a_disk_is_not_taken_by_auto(void **state)
{
    (void)state;
    char file[] = "counters-test-XXXXXX";
    int fd = mkstemp(file);
    assert_true(fd >= 0);
    assert_int_equal(unlink(file), 0);
    assert_int_equal(close(fd), 0);
    struct amb_counters_options options = options_of(file);
    struct amb_counters counters;
    options.must_be_in_memory = true;
    assert_int_equal(amb_counters_create(&options, &counters), AMB_OK);
    bool is_disk = counters.path[0] == '\0';
    if (is_disk) {
        assert_non_null(strstr(counters.why, "on a disk"));
        assert_int_equal(access(file, F_OK), -1);
    } /* Else this build lies in memory. */
    amb_counters_destroy(&counters);
    (void)unlink(file);
}

static void test_slots_are_taken_and_given_back(void **state)
{
    (void)state;
    struct amb_counters counters;
    uint32_t slots[128], none = 0;
    open_one(&counters);
    for (unsigned i = 0; i < 128; i++) {
        slots[i] = amb_counters_take_numbers(&counters);
        assert_true(slots[i] != 0);
    }
    assert_int_equal(amb_counters_take_numbers(&counters), 0);
    uint32_t seventh = slots[7];
    amb_counters_give_numbers(&counters, &slots[7]);
    assert_int_equal(slots[7], 0);
    amb_counters_give_numbers(&counters, &none);
    assert_int_equal(amb_counters_take_numbers(&counters), seventh);
    assert_int_equal(amb_counters_take_numbers(&counters), 0);
    assert_int_equal(amb_counters_take_numbers(NULL), 0);
    amb_counters_destroy(&counters);
}

static void test_texts_are_found_again(void **state)
{
    (void)state;
    struct amb_counters counters;
    struct amb_counters_image image;
    uint64_t copy[AMB_TEXTS_WORDS];
    uint32_t slot = 0, others[127] = {0}, more = 0;
    char longest[600];
    memset(longest, 'x', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    open_one(&counters);
    amb_counters_view(&counters, &image);
    const struct amb_queue_words words = {.worker = 1, .members = 2};
    const char *texts[] = {"a.>", "", "durable"}, *too_long[] = {longest, "lost"};
    assert_true(amb_counters_put_texts(&counters, &slot, AMB_COUNTERS_QUEUE, 99, &words,
                                       sizeof(words), texts, 3));
    assert_true(amb_counters_texts(&image, AMB_COUNTERS_TOPIC, slot - 1, copy));
    assert_int_equal(copy[AMB_SLOT_ID], 99);
    assert_int_equal(amb_counters_scope_of(copy), AMB_COUNTERS_QUEUE);
    assert_int_equal(copy[AMB_SLOT_FIGURES + 1], 2);
    assert_string_equal(amb_counters_text(copy, 0), "a.>");
    assert_string_equal(amb_counters_text(copy, 1), "");
    assert_string_equal(amb_counters_text(copy, 2), "durable");
    assert_string_equal(amb_counters_text(copy, 3), "");
    assert_string_equal(amb_counters_text(copy, 100000), "");
    assert_true(amb_counters_put_texts(&counters, &slot, AMB_COUNTERS_QUEUE, 99, &words,
                                       sizeof(words), too_long, 2));
    assert_true(amb_counters_texts(&image, AMB_COUNTERS_TOPIC, slot - 1, copy));
    assert_int_equal(strlen(amb_counters_text(copy, 0)), AMB_TEXTS_BYTES - 1);
    assert_string_equal(amb_counters_text(copy, 1), "");
    for (unsigned i = 0; i < 127; i++) {
        assert_true(amb_counters_put_texts(&counters, &others[i], AMB_COUNTERS_TOPIC, i, &words, 8,
                                           texts, 1));
    }
    assert_false(
        amb_counters_put_texts(&counters, &more, AMB_COUNTERS_TOPIC, 5, &words, 8, texts, 1));
    uint32_t freed = slot;
    amb_counters_give_texts(&counters, &slot);
    assert_int_equal(slot, 0);
    assert_false(amb_counters_texts(&image, AMB_COUNTERS_TOPIC, freed - 1, copy));
    assert_true(
        amb_counters_put_texts(&counters, &more, AMB_COUNTERS_TOPIC, 5, &words, 8, texts, 1));
    amb_counters_destroy(&counters);
}

/* Half a character would make a view show nothing of the text. */
static void test_a_text_is_cut_between_characters(void **state)
{
    (void)state;
    struct amb_counters counters;
    struct amb_counters_image image;
    uint64_t copy[AMB_TEXTS_WORDS];
    uint32_t slot = 0;
    char snowmen[AMB_TEXTS_BYTES + 8] = "";
    open_one(&counters);
    amb_counters_view(&counters, &image);
    for (unsigned shift = 0; shift < 3; shift++) {
        size_t len = shift, whole = (AMB_TEXTS_BYTES - 1 - shift) / 3 * 3 + shift;
        memset(snowmen, 'x', shift);
        for (; len + 3 < sizeof(snowmen); len += 3) {
            memcpy(snowmen + len, "\xe2\x98\x83", 4);
        }
        const char *texts[] = {snowmen};
        assert_true(
            amb_counters_put_texts(&counters, &slot, AMB_COUNTERS_QUEUE, 1, &slot, 0, texts, 1));
        assert_true(amb_counters_texts(&image, AMB_COUNTERS_TOPIC, slot - 1, copy));
        assert_int_equal(strlen(amb_counters_text(copy, 0)), whole);
        assert_memory_equal(amb_counters_text(copy, 0), snowmen, whole);
    }
    amb_counters_destroy(&counters);
}

/* ---- others write ---- */

#define ROUNDS 200000u

struct writer {
    struct amb_counters counters;
    uint32_t slot;
    _Atomic int is_over;
};

/* All figures of a slot are always equal. */
static void *write_on(void *arg)
{
    struct writer *writer = arg;
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        uint64_t figures[AMB_NUMBERS_FIGURES];
        for (unsigned i = 0; i < AMB_NUMBERS_FIGURES; i++) {
            figures[i] = round;
        }
        amb_counters_put_numbers(&writer->counters, writer->slot, AMB_COUNTERS_TOPIC, 1, round,
                                 figures, sizeof(figures));
    }
    atomic_store(&writer->is_over, 1);
    return NULL;
}

static uint64_t checked(const uint64_t copy[AMB_NUMBERS_WORDS], uint64_t before)
{
    for (unsigned i = 0; i < AMB_NUMBERS_FIGURES; i++) {
        assert_int_equal(copy[AMB_SLOT_FIGURES + i], copy[AMB_SLOT_ID]);
    }
    assert_true(copy[AMB_SLOT_ID] >= before);
    return copy[AMB_SLOT_ID];
}

static void test_no_slot_is_torn_or_runs_backwards(void **state)
{
    (void)state;
    static struct writer writer;
    struct amb_counters_image image, file;
    uint64_t copy[AMB_NUMBERS_WORDS], newest = 0, from_file = 0;
    char why[AMB_COUNTERS_WHY_MAX];
    pthread_t thread;
    open_one(&writer.counters);
    atomic_store(&writer.is_over, 0);
    writer.slot = amb_counters_take_numbers(&writer.counters);
    amb_counters_view(&writer.counters, &image);
    assert_int_equal(pthread_create(&thread, NULL, write_on, &writer), 0);
    while (!atomic_load(&writer.is_over)) {
        if (amb_counters_numbers(&image, writer.slot - 1, copy)) {
            newest = checked(copy, newest);
        }
        assert_int_equal(amb_counters_load(path, &file, why), AMB_OK);
        if (amb_counters_numbers(&file, writer.slot - 1, copy)) {
            from_file = checked(copy, from_file);
        }
        amb_counters_unload(&file);
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(amb_counters_numbers(&image, writer.slot - 1, copy));
    assert_int_equal(checked(copy, newest), ROUNDS);
    amb_counters_destroy(&writer.counters);
}

int main(void)
{
#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, in_folder, out_of_folder)
    const struct CMUnitTest tests[] = {
        IN_FOLDER(test_a_file_is_whole_and_says_whose_it_is),
        IN_FOLDER(test_an_older_sign_of_life_changes_nothing),
        IN_FOLDER(test_signs_of_life_of_several_threads_never_go_back),
        IN_FOLDER(test_a_file_that_is_hidden_is_its_owner_s),
        IN_FOLDER(test_the_former_file_is_kept_once),
        IN_FOLDER(test_where_no_file_can_be_had_counters_are_private),
        IN_FOLDER(test_a_disk_is_not_taken_by_auto),
        IN_FOLDER(test_slots_are_taken_and_given_back),
        IN_FOLDER(test_texts_are_found_again),
        IN_FOLDER(test_a_text_is_cut_between_characters),
        IN_FOLDER(test_no_slot_is_torn_or_runs_backwards),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
