/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A counters file. An input that begins with 'P' patches a sound one: places and words of four
 * bytes each, up to a NUL word, then a query. Any other input is a file by itself. Each view of
 * what is taken is JSON, and reading never leads out of the bytes.
 */
#include "broker/count/counters_slots.h"
#include "broker/count/figures.h"
#include "tests/fuzz/fuzz.h"
#include "wire/base/assert.h"
#include "wire/counters/view.h"

#include <jansson.h>

static uint8_t *sound;
static size_t sound_size;

static void make_sound(void)
{
    const struct amb_counters_options options = {.why = "a test",
                                                 .workers = 1,
                                                 .objects = 8,
                                                 .lines = 2,
                                                 .losses = 3,
                                                 .name = "fuzz",
                                                 .version = "1",
                                                 .ucx = "off"};
    const struct amb_line_words line = {.lines = 3, .first_s = 1, .last_s = 2};
    const struct amb_loss_words loss = {.subscription = 4, .client = 2, .messages = 9};
    const char *const line_texts[] = {"warn", "a line"}, *const loss_texts[] = {"a.>", "c", "slow"};
    const struct amb_topic_words words = {.worker = 0};
    const struct amb_topic_numbers numbers = {.messages = 7};
    const char *const texts[] = {"a.b", "normal"};
    struct amb_counters counters;
    struct amb_listed listed = {0};
    amb_assert(amb_counters_create(&options, &counters) == AMB_OK);
    amb_counters_list(&counters, &listed, AMB_COUNTERS_TOPIC, 5, &words, sizeof(words), texts, 2);
    uint32_t slot = amb_counters_take_numbers(&counters);
    amb_counters_put_numbers(&counters, slot, AMB_COUNTERS_TOPIC, 0, 5, &numbers, sizeof(numbers));
    amb_counters_write_texts(&counters.lines[1], AMB_COUNTERS_LINE, 2, &line, sizeof(line),
                             line_texts, 2);
    amb_counters_write_texts(&counters.losses[0], AMB_COUNTERS_LOSS, 1, &loss, sizeof(loss),
                             loss_texts, 3);
    sound_size = counters.size;
    sound = fuzz_copy(counters.base, sound_size);
    amb_counters_destroy(&counters);
}

static void read_view(const struct amb_counters_image *image, const char *query)
{
    struct amb_counters_view *view;
    char why[AMB_COUNTERS_REFUSAL_MAX] = "", *text = NULL;
    size_t size = 0;
    bool is_last = false;
    if (amb_counters_view_open(image, query, NULL, 0, &view, why) != AMB_OK) {
        amb_assert(why[0] != '\0');
        return;
    }
    FILE *out = open_memstream(&text, &size);
    while (!is_last) {
        char *page = amb_counters_view_page(view, 3, &is_last);
        amb_assert(page != NULL);
        (void)fputs(page, out);
        free(page);
    }
    (void)fclose(out);
    amb_counters_view_close(&view);
    json_t *json = json_loads(text, 0, NULL);
    amb_assert(json != NULL);
    json_decref(json);
    free(text);
}

static void read_all(const uint8_t *bytes, size_t size, const char *query)
{
    static const char *const queries[] = {
        "status",  "workers", "metrics", "topics sort=topic", "subs top=1", "queues",
        "clients", "closed",  "errors",  "errors sort=line",  "loss",       "loss a.> sort=count"};
    struct amb_counters_image image;
    char why[AMB_COUNTERS_WHY_MAX] = "";
    if (amb_counters_check(bytes, size, &image, why) != AMB_OK) {
        amb_assert(why[0] != '\0');
        return;
    }
    for (size_t i = 0; i < sizeof(queries) / sizeof(queries[0]); i++) {
        read_view(&image, queries[i]);
    }
    read_view(&image, query);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    if (sound == NULL) {
        make_sound();
    }
    if (len == 0 || data[0] != 'P') {
        read_all(data, len, "topics");
        return 0;
    }
    uint8_t *bytes = fuzz_copy(sound, sound_size);
    size_t at = 1;
    for (; at + 8 <= len; at += 8) {
        uint32_t place;
        memcpy(&place, data + at, sizeof(place));
        if (place == 0) {
            break;
        }
        memcpy(bytes + place % (sound_size - 4), data + at + 4, 4);
    }
    at = at + 8 < len ? at + 8 : len;
    char *query = fuzz_text(data + at, len - at);
    read_all(bytes, sound_size, query);
    free(query);
    free(bytes);
    return 0;
}
