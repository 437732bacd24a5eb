/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire/counters/image: a file that is no counters file, cut, of another layout, or made up, is
 * refused with a sentence. No word of it leads out of its bytes.
 */
#include "wire/counters/image.h"

#include "broker/count/counters.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[64], path[96];
static uint8_t *good;
static size_t good_size;

static int make_one(void **state)
{
    (void)state;
    (void)snprintf(folder, sizeof(folder), "/dev/shm/amb-image-XXXXXX");
    if (mkdtemp(folder) == NULL) {
        return -1;
    }
    (void)snprintf(path, sizeof(path), "%s/c", folder);
    const struct amb_counters_options options = {.why = "a test",
                                                 .workers = 2,
                                                 .objects = 64,
                                                 .lines = 4,
                                                 .losses = 6,
                                                 .name = "door",
                                                 .version = "1",
                                                 .ucx = "off"};
    struct amb_counters counters;
    if (amb_counters_create(&options, &counters) != AMB_OK) {
        return -1;
    }
    good_size = counters.size;
    good = malloc(good_size);
    if (good != NULL) {
        memcpy(good, counters.base, good_size);
    }
    amb_counters_destroy(&counters);
    return good == NULL;
}

static int remove_one(void **state)
{
    (void)state;
    free(good);
    (void)unlink(path);
    return rmdir(folder);
}

static void put_file(const void *bytes, size_t size)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, size), (ssize_t)size);
    assert_int_equal(close(fd), 0);
}

static void assert_refused(const char *file, enum amb_status wanted, const char *part)
{
    struct amb_counters_image image;
    char why[AMB_COUNTERS_WHY_MAX] = "";
    enum amb_status status = amb_counters_load(file, &image, why);
    if (status != wanted || strstr(why, part) == NULL) {
        fail_msg("%s, '%s' instead of '%s'", amb_status_text(status), why, part);
    }
    assert_null(image.base);
}

static void test_what_is_no_counters_file_is_refused(void **state)
{
    (void)state;
    uint8_t bytes[8192];
    put_file("", 0);
    assert_refused(path, AMB_EPROTO, "too short");
    put_file("hello", 5);
    assert_refused(path, AMB_EPROTO, "too short");
    for (size_t i = 0; i < sizeof(bytes); i++) {
        bytes[i] = (uint8_t)(i * 167 + 13);
    }
    put_file(bytes, sizeof(bytes));
    assert_refused(path, AMB_EPROTO, "no counters file");
    assert_refused(folder, AMB_EPROTO, "no regular file");
    assert_refused("/dev/null", AMB_EPROTO, "no regular file");
    assert_refused("/nowhere/at/all", AMB_ENOTFOUND, "No such file");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_refused(path, AMB_EPROTO, "no regular file");
    assert_int_equal(unlink(path), 0);
}

static void test_a_cut_file_is_refused_wherever_it_is_cut(void **state)
{
    (void)state;
    struct amb_counters_image image;
    char why[AMB_COUNTERS_WHY_MAX];
    for (size_t size = 0; size < good_size; size += size < 8192 ? 61 : 4099) {
        uint8_t *part = malloc(size + 1); /* So that a sanitizer sees a look behind it. */
        assert_non_null(part);
        memcpy(part, good, size);
        assert_int_equal(amb_counters_check(part, size, &image, why), AMB_EPROTO);
        free(part);
    }
    put_file(good, good_size - 8);
    assert_refused(path, AMB_EPROTO, "it is cut");
    put_file(good, good_size);
    assert_int_equal(amb_counters_load(path, &image, why), AMB_OK);
    assert_int_equal(image.torn, 0);
    amb_counters_unload(&image);
}

static void test_another_layout_is_refused(void **state)
{
    (void)state;
    struct amb_counters_header *header = (void *)good;
    header->layout++;
    put_file(good, good_size);
    header->layout--;
    assert_refused(path, AMB_EPROTO, "its layout is 3");
}

/* Reads all that can be read. */
static void read_all(const struct amb_counters_image *image)
{
    uint64_t numbers[AMB_NUMBERS_WORDS], texts[AMB_TEXTS_WORDS], sum = 0;
    for (uint32_t i = 0; i < image->header->metric_count; i++) {
        const struct amb_counters_metric *metric = &image->metrics[i];
        for (uint32_t block = 0; block < image->header->block_count; block++) {
            sum += metric->part != AMB_COUNTERS_IN_BLOCK ? 0
                   : metric->kind == AMB_COUNTERS_RECENT
                       ? amb_counters_recent(image, block, metric, 5)
                       : amb_counters_word(image, block, metric->at + metric->words - 1);
        }
        sum += strlen(metric->name) + strlen(metric->column) + strlen(metric->help);
    }
    for (uint32_t slot = 0; slot <= image->header->slot_count; slot++) {
        sum += amb_counters_numbers(image, slot, numbers) ? numbers[AMB_SLOT_ID] : 0;
    }
    static const enum amb_counters_scope scopes[] = {AMB_COUNTERS_TOPIC, AMB_COUNTERS_LINE,
                                                     AMB_COUNTERS_LOSS};
    for (size_t i = 0; i < sizeof(scopes) / sizeof(scopes[0]); i++) {
        uint32_t slots = amb_counters_slots(image, scopes[i]);
        for (uint32_t slot = 0; slot <= slots; slot++) {
            bool is_there = amb_counters_texts(image, scopes[i], slot, texts);
            sum += is_there ? strlen(amb_counters_text(texts, 3)) : 0;
        }
    }
    assert_true(sum != 1);
}

static void test_no_word_of_the_header_or_the_table_leads_astray(void **state)
{
    (void)state;
    static const uint32_t values[] = {0, 1, 7, 8, 0x7fffffff, 0x80000000, 0xffffffff, 0xfffffff8};
    struct amb_counters_header *header = (void *)good;
    size_t end = header->metrics_at + 4 * sizeof(struct amb_counters_metric);
    struct amb_counters_image image;
    char why[AMB_COUNTERS_WHY_MAX];
    uint8_t *bad = malloc(good_size);
    assert_non_null(bad);
    for (size_t at = 8; at + 4 <= end; at += 4) {
        for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
            memcpy(bad, good, good_size);
            memcpy(bad + at, &values[i], sizeof(values[i]));
            if (amb_counters_check(bad, good_size, &image, why) == AMB_OK) {
                read_all(&image);
            }
        }
    }
    free(bad);
}

static void test_a_slot_whose_writer_died_is_left_out(void **state)
{
    (void)state;
    const struct amb_counters_header *header = (void *)good;
    struct amb_counters_image image;
    char why[AMB_COUNTERS_WHY_MAX];
    uint64_t words[AMB_NUMBERS_WORDS] = {[AMB_SLOT_SEQUENCE] = 9, [AMB_SLOT_KIND] = 3}, copy[64];
    uint8_t *slot = good + header->numbers_at + 5 * sizeof(struct amb_numbers_slot);
    memcpy(slot, words, sizeof(words));
    memcpy(slot + sizeof(words), words, sizeof(words));
    slot[sizeof(words)] = 8; /* The next one is whole. */
    put_file(good, good_size);
    memset(slot, 0, 2 * sizeof(words));
    assert_int_equal(amb_counters_load(path, &image, why), AMB_OK);
    assert_int_equal(image.torn, 1);
    assert_false(amb_counters_numbers(&image, 5, copy));
    assert_true(amb_counters_numbers(&image, 6, copy));
    amb_counters_unload(&image);
}

/* The sections of log lines and losses: each slot is looked at, and none of another section. */
static void test_sections_have_slots_of_their_own(void **state)
{
    (void)state;
    const struct amb_counters_header *header = (void *)good;
    struct amb_counters_image image;
    char why[AMB_COUNTERS_WHY_MAX];
    uint64_t words[AMB_TEXTS_WORDS] = {[AMB_SLOT_KIND] = AMB_COUNTERS_LOSS, [AMB_SLOT_ID] = 77};
    uint8_t *losses = good + header->losses_at, *lines = good + header->lines_at;
    memcpy(losses + 5 * sizeof(words), words, sizeof(words));
    words[AMB_SLOT_SEQUENCE] = 1; /* Its writer has died. */
    memcpy(losses, words, sizeof(words));
    memcpy(lines + 3 * sizeof(words), words, sizeof(words));
    put_file(good, good_size);
    memset(losses, 0, 6 * sizeof(words));
    memset(lines, 0, 4 * sizeof(words));
    assert_int_equal(amb_counters_load(path, &image, why), AMB_OK);
    assert_int_equal(image.torn, 2);
    assert_int_equal(amb_counters_slots(&image, AMB_COUNTERS_LINE), 4);
    assert_int_equal(amb_counters_slots(&image, AMB_COUNTERS_LOSS), 6);
    assert_true(amb_counters_texts(&image, AMB_COUNTERS_LOSS, 5, words));
    assert_int_equal(words[AMB_SLOT_ID], 77);
    assert_false(amb_counters_texts(&image, AMB_COUNTERS_LOSS, 0, words));
    assert_false(amb_counters_texts(&image, AMB_COUNTERS_LOSS, 6, words));
    assert_false(amb_counters_texts(&image, AMB_COUNTERS_LINE, 3, words));
    assert_false(amb_counters_texts(&image, AMB_COUNTERS_LINE, 4, words));
    amb_counters_unload(&image);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_no_counters_file_is_refused),
        cmocka_unit_test(test_a_cut_file_is_refused_wherever_it_is_cut),
        cmocka_unit_test(test_another_layout_is_refused),
        cmocka_unit_test(test_no_word_of_the_header_or_the_table_leads_astray),
        cmocka_unit_test(test_a_slot_whose_writer_died_is_left_out),
        cmocka_unit_test(test_sections_have_slots_of_their_own),
    };
    return cmocka_run_group_tests(tests, make_one, remove_one);
}
