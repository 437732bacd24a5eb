/* SPDX-License-Identifier: Apache-2.0 */
#include "client/conn/options.h"

#include "client/config/client_config.h"
#include "wire/base/cpus.h"

#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* As amb_connect does, with a file of this text; the texts that it gives are static. */
static void complete(struct amb_options *options, const char *text)
{
    static char name[8];
    char error[AMB_CONFIG_ERROR_MAX];
    struct amb_client_config *config = NULL;
    const struct amb_client_source source = {.text = text,
                                             .text_len = text == NULL ? 0 : strlen(text)};
    if (amb_client_config_create(&source, error, sizeof(error), &config) != AMB_OK) {
        fail_msg("%s", error);
    }
    amb_options_complete(options, config);
    if (options->name == config->name) {
        (void)strncpy(name, config->name, sizeof(name) - 1);
        options->name = name;
    }
    amb_client_config_destroy(&config);
}

static void nothing_given_is_all_defaults(void **state)
{
    (void)state;
    struct amb_complaint complaint;
    struct amb_options options;
    assert_int_equal(amb_options_read(NULL, &options, &complaint), AMB_OK);
    assert_int_equal(options.connect_timeout_ns, 0);
    complete(&options, NULL);
    assert_int_equal(options.connect_timeout_ns, 10 * AMB_SEC);
    assert_int_equal(options.timeout_ns, 5 * AMB_SEC);
    assert_int_equal(options.reconnect_min_ns, 50 * AMB_MS);
    assert_int_equal(options.reconnect_max_ns, 5 * AMB_SEC);
    assert_int_equal(options.reconnect_attempts, 0);
    assert_int_equal(options.heartbeat_ns, 0);
    assert_int_equal(options.retry_first, 0);
    assert_int_equal(options.memory_max, AMB_MEMORY_MAX);
    assert_int_equal(options.send_memory_max, AMB_SEND_MEMORY_MAX);
    assert_int_equal(options.spin_ns, amb_cpus_around() > 1 ? 200 * AMB_US : AMB_SPIN_NEVER);
    assert_null(options.name);
    struct amb_pub_options pub;
    assert_int_equal(amb_pub_options_read(NULL, &pub, &complaint), AMB_OK);
    assert_int_equal(pub.confirm, AMB_CONFIRM_ACCEPTED);
    assert_int_equal(pub.linger_ns, 50 * AMB_US);
    struct amb_sub_options sub;
    assert_int_equal(amb_sub_options_read(NULL, &sub, &complaint), AMB_OK);
    assert_int_equal(sub.credit_msgs, 65536);
}

static void an_older_program_has_a_zero_tail(void **state)
{
    (void)state;
    struct amb_complaint complaint;
    struct amb_options given = {.size = offsetof(struct amb_options, timeout_ns)}, options;
    given.timeout_ns = 77; /* behind what it says it has */
    given.connect_timeout_ns = 5;
    assert_int_equal(amb_options_read(&given, &options, &complaint), AMB_OK);
    assert_int_equal(options.connect_timeout_ns, 5);
    assert_int_equal(options.timeout_ns, 0);
    complete(&options, NULL);
    assert_int_equal(options.connect_timeout_ns, 5);
    assert_int_equal(options.timeout_ns, 5 * AMB_SEC);
}

static void an_option_goes_before_the_file(void **state)
{
    (void)state;
    static const char text[] =
        "client = { name = \"f\"; timeout = \"2s\"; connect_timeout = \"3s\"; heartbeat = "
        "\"20ms\";\n"
        "  reconnect = { min = \"4ms\"; max = \"6ms\"; attempts = 7; }; retry_first = true;\n"
        "  memory_max = \"1M\"; send_memory_max = \"2M\"; spin = \"1ms\"; };";
    struct amb_complaint complaint;
    struct amb_options options;
    assert_int_equal(amb_options_read(NULL, &options, &complaint), AMB_OK);
    complete(&options, text);
    assert_string_equal(options.name, "f");
    assert_int_equal(options.timeout_ns, 2 * AMB_SEC);
    assert_int_equal(options.connect_timeout_ns, 3 * AMB_SEC);
    assert_int_equal(options.heartbeat_ns, 20 * AMB_MS);
    assert_int_equal(options.reconnect_min_ns, 4 * AMB_MS);
    assert_int_equal(options.reconnect_max_ns, 6 * AMB_MS);
    assert_int_equal(options.reconnect_attempts, 7);
    assert_int_equal(options.retry_first, 1);
    assert_int_equal(options.memory_max, 1 << 20);
    assert_int_equal(options.send_memory_max, 2 << 20);
    assert_int_equal(options.spin_ns, AMB_MS);
    const struct amb_options *given =
        AMB_OPTIONS(.name = "o", .timeout_ns = 1, .connect_timeout_ns = 2, .heartbeat_ns = 3,
                    .reconnect_min_ns = 4, .reconnect_max_ns = 5, .reconnect_attempts = AMB_NONE,
                    .memory_max = 8, .send_memory_max = 9, .spin_ns = AMB_SPIN_NEVER);
    assert_int_equal(amb_options_read(given, &options, &complaint), AMB_OK);
    struct amb_options before = options;
    before.retry_first = 1; /* 0 is no word for "no" */
    complete(&options, text);
    assert_memory_equal(&options, &before, sizeof(options));
}

static void none_and_never_have_numbers_in_a_file(void **state)
{
    (void)state;
    struct amb_complaint complaint;
    struct amb_options options;
    assert_int_equal(amb_options_read(NULL, &options, &complaint), AMB_OK);
    complete(&options, "client = { spin = \"0\"; reconnect = { attempts = 0; }; };");
    assert_int_equal(options.spin_ns, AMB_SPIN_NEVER);
    assert_int_equal(options.reconnect_attempts, AMB_NONE);
}

static void a_newer_program_may_only_leave_unknown_fields_alone(void **state)
{
    (void)state;
    struct amb_complaint complaint;
    struct {
        struct amb_options known;
        uint64_t later;
    } given = {.known = {.size = sizeof(given)}};
    struct amb_options options;
    assert_int_equal(amb_options_read(&given.known, &options, &complaint), AMB_OK);
    given.later = 1;
    assert_int_equal(amb_options_read(&given.known, &options, &complaint), AMB_EINVAL);
    assert_non_null(strstr(complaint.text, "library older than header"));
    given.known.size = 0;
    assert_int_equal(amb_options_read(&given.known, &options, &complaint), AMB_EINVAL);
}

static void later_features_are_refused_by_name(void **state)
{
    (void)state;
    struct amb_complaint complaint;
    struct amb_sub_options sub;
    assert_int_equal(
        amb_sub_options_read(AMB_SUB(.lazy = 1, .mem = AMB_MEM_CUDA), &sub, &complaint),
        AMB_ENOTSUP);
    assert_non_null(strstr(complaint.text, "lazy"));
    assert_int_equal(amb_sub_options_read(AMB_SUB(.lazy = 4), &sub, &complaint), AMB_EINVAL);
    assert_non_null(strstr(complaint.text, "lazy"));
    assert_int_equal(amb_sub_options_read(AMB_SUB(.lazy = 1), &sub, &complaint), AMB_OK);
    assert_int_equal(amb_sub_options_read(AMB_SUB(.reserved = 1), &sub, &complaint), AMB_ENOTSUP);
    assert_non_null(strstr(complaint.text, "reserved"));
    struct amb_pub_options pub;
    assert_int_equal(
        amb_pub_options_read(AMB_PUB(.confirm = AMB_CONFIRM_DURABLE), &pub, &complaint),
        AMB_ENOTSUP);
    assert_non_null(strstr(complaint.text, "confirm"));
    assert_int_equal(amb_pub_options_read(AMB_PUB(.name = ""), &pub, &complaint), AMB_EINVAL);
    assert_non_null(strstr(complaint.text, "name"));
    struct amb_options options;
    assert_int_equal(amb_options_read(AMB_OPTIONS(.detached = 1), &options, &complaint),
                     AMB_ENOTSUP);
    assert_non_null(strstr(complaint.text, "detached"));
    assert_int_equal(amb_options_read(AMB_OPTIONS(.reconnect_min_ns = -1), &options, &complaint),
                     AMB_EINVAL);
    assert_int_equal(
        amb_options_read(AMB_OPTIONS(.reconnect_attempts = AMB_NONE), &options, &complaint),
        AMB_OK);
    struct amb_out out;
    struct amb_pub_options pub_options;
    assert_int_equal(amb_out_read(AMB_OUT(.mem = AMB_MEM_CUDA, .data = NULL), &out, &complaint),
                     AMB_EINVAL);
    assert_int_equal(
        amb_commit_out_read(AMB_OUT(.mem = AMB_MEM_CUDA, .stream = &out), &out, &complaint),
        AMB_OK);
    assert_int_equal(
        amb_pub_options_read(AMB_PUB(.lease_mem = AMB_MEM_CUDA_MANAGED), &pub_options, &complaint),
        AMB_ENOTSUP);
    assert_non_null(strstr(complaint.text, "lease_mem"));
    assert_int_equal(
        amb_sub_options_read(AMB_SUB(.mem = AMB_MEM_PINNED, .device = 1), &sub, &complaint),
        AMB_OK);
    assert_int_equal(amb_sub_options_read(AMB_SUB(.mem = (enum amb_mem)99), &sub, &complaint),
                     AMB_EINVAL);
    assert_non_null(strstr(complaint.text, "mem"));
}

static void a_message_has_one_source(void **state)
{
    (void)state;
    struct amb_complaint complaint;
    struct amb_out out;
    const struct amb_iov iov = {"a", 1};
    assert_int_equal(amb_out_read(AMB_OUT(.data = "a", .len = 1), &out, &complaint), AMB_OK);
    assert_int_equal(amb_out_read(AMB_OUT(.iov = &iov, .iov_count = 1), &out, &complaint), AMB_OK);
    assert_int_equal(amb_out_read(AMB_OUT(.key = "only a key"), &out, &complaint), AMB_OK);
    assert_int_equal(
        amb_out_read(AMB_OUT(.data = "a", .len = 1, .iov = &iov, .iov_count = 1), &out, &complaint),
        AMB_EINVAL);
    assert_int_equal(amb_out_read(AMB_OUT(.len = 1), &out, &complaint), AMB_EINVAL);
}

static enum amb_status read_sub(const struct amb_sub_options *options)
{
    struct amb_sub_options sub;
    struct amb_complaint complaint;
    return amb_sub_options_read(options, &sub, &complaint);
}

static void acks_groups_and_names_fit_each_other(void **state)
{
    (void)state;
    const int64_t backoff[] = {AMB_SEC};
    struct amb_sub_options sub;
    struct amb_complaint complaint;
    assert_int_equal(
        amb_sub_options_read(AMB_SUB(.ack = AMB_ACK_EXPLICIT, .group = "g", .durable = "d",
                                     .backoff_ns = backoff, .backoff_count = 1, .max_deliver = 3),
                             &sub, &complaint),
        AMB_OK);
    assert_int_equal(sub.credit_msgs, 1000);
    assert_int_equal(read_sub(AMB_SUB(.group = "g")), AMB_OK);
    assert_int_equal(read_sub(AMB_SUB(.group = "")), AMB_EINVAL);
    assert_int_equal(read_sub(AMB_SUB(.durable = "two words")), AMB_EINVAL);
    assert_int_equal(read_sub(AMB_SUB(.max_deliver = 3)), AMB_EINVAL);
    assert_int_equal(read_sub(AMB_SUB(.ack = AMB_ACK_CUMULATIVE, .group = "g")), AMB_EINVAL);
    assert_int_equal(read_sub(AMB_SUB(.ack = AMB_ACK_EXPLICIT, .backoff_count = 1)), AMB_EINVAL);
    assert_int_equal(
        read_sub(AMB_SUB(.ack = AMB_ACK_EXPLICIT, .backoff_ns = backoff, .backoff_count = 17)),
        AMB_EINVAL);
    assert_int_equal(read_sub(AMB_SUB(.ack = (enum amb_ack)7)), AMB_EINVAL);
}

/* A program that has no position yet gives the buffer where it will be, with length 0. */
static void an_empty_position_is_none(void **state)
{
    (void)state;
    char position[64] = {0};
    assert_int_equal(read_sub(AMB_SUB(.position = position)), AMB_OK);
    assert_int_equal(read_sub(AMB_SUB(.position = position, .position_len = 1)), AMB_EINVAL);
    assert_int_equal(read_sub(AMB_SUB(.position_len = 1)), AMB_EINVAL);
    assert_int_equal(read_sub(AMB_SUB(.start = AMB_START_POSITION, .position = position)),
                     AMB_EINVAL);
    assert_int_equal(
        read_sub(AMB_SUB(.start = AMB_START_POSITION, .position = position, .position_len = 64)),
        AMB_OK);
}

static void *no_memory(void *ctx, size_t len, size_t align, int device)
{
    (void)ctx, (void)len, (void)align, (void)device;
    return NULL;
}

static void no_free(void *ctx, void *ptr, size_t len, int device)
{
    (void)ctx, (void)ptr, (void)len, (void)device;
}

static enum amb_status read_allocators(const void *first, uint32_t count,
                                       struct amb_allocator to[AMB_SUB_ALLOCATORS_MAX])
{
    struct amb_complaint complaint;
    struct amb_sub_options sub = {.allocators = first, .allocator_count = count};
    return amb_allocators_read(&sub, to, &complaint);
}

static void allocators_are_one_a_kind(void **state)
{
    (void)state;
    const struct amb_allocator one = {
        .size = sizeof(one), .mem = AMB_MEM_CUDA, .alloc = no_memory, .free = no_free};
    struct amb_allocator many[] = {one, one, one, one, one}, to[AMB_SUB_ALLOCATORS_MAX];
    assert_int_equal(read_allocators(NULL, 0, to), AMB_OK);
    assert_null(to[2].alloc);
    assert_int_equal(read_allocators(many, 1, to), AMB_OK);
    assert_true(to[2].alloc == no_memory && to[2].mem == AMB_MEM_CUDA);
    assert_true(to[0].alloc == NULL && to[1].alloc == NULL && to[3].alloc == NULL);
    assert_int_equal(read_allocators(many, 2, to), AMB_EINVAL);
    many[1].mem = AMB_MEM_HOST;
    assert_int_equal(read_allocators(many, 2, to), AMB_OK);
    static const enum amb_mem none[] = {AMB_MEM_DEFAULT, AMB_MEM_AS_SENT, (enum amb_mem)6};
    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
        many[1].mem = none[i];
        assert_int_equal(read_allocators(many, 2, to), AMB_EINVAL);
    }
    many[1].mem = AMB_MEM_HOST;
    many[1].size = 8;
    assert_int_equal(read_allocators(many, 2, to), AMB_EINVAL);
    many[0].size = 0;
    assert_int_equal(read_allocators(many, 1, to), AMB_EINVAL);
    const struct amb_sub_options none_of_them = {
        .size = sizeof(none_of_them), .mem = AMB_MEM_AS_SENT, .allocator_count = 1};
    assert_int_equal(read_sub(&none_of_them), AMB_EINVAL);
    const uint32_t too_many = AMB_SUB_ALLOCATORS_MAX + 1;
    assert_int_equal(
        read_sub(AMB_SUB(.mem = AMB_MEM_AS_SENT, .allocators = many, .allocator_count = too_many)),
        AMB_EINVAL);
    assert_int_equal(
        read_sub(AMB_SUB(.mem = AMB_MEM_AS_SENT, .allocators = many, .allocator_count = 4)),
        AMB_OK);
    assert_int_equal(read_sub(AMB_SUB(.mem = AMB_MEM_HOST, .allocators = many, /* of one kind */
                                      .allocator_count = 1)),
                     AMB_EINVAL);
    assert_int_equal(read_sub(AMB_SUB(.fallback = AMB_FALLBACK_HOST)), AMB_EINVAL);
    assert_int_equal(read_sub(AMB_SUB(.mem = AMB_MEM_AS_SENT, .allocators = many,
                                      .allocator_count = 1, .fallback = (enum amb_fallback)2)),
                     AMB_EINVAL);
    assert_int_equal(read_sub(AMB_SUB(.mem = AMB_MEM_AS_SENT, .allocators = many,
                                      .allocator_count = 1, .lazy = AMB_LAZY_ON)),
                     AMB_ENOTSUP);
}

/* A program that was compiled against a longer struct has them further apart. */
static void allocators_lie_as_far_apart_as_they_are_large(void **state)
{
    (void)state;
    struct {
        struct amb_allocator known;
        uint64_t later;
    } many[2] = {
        {.known = {
             .size = sizeof(many[0]), .mem = AMB_MEM_HOST, .alloc = no_memory, .free = no_free}}};
    struct amb_allocator to[AMB_SUB_ALLOCATORS_MAX];
    many[1] = many[0];
    many[1].known.mem = AMB_MEM_PINNED;
    assert_int_equal(read_allocators(many, 2, to), AMB_OK);
    assert_true(to[0].alloc == no_memory && to[1].alloc == no_memory);
    many[1].later = 1;
    assert_int_equal(read_allocators(many, 2, to), AMB_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_given_is_all_defaults),
        cmocka_unit_test(an_option_goes_before_the_file),
        cmocka_unit_test(none_and_never_have_numbers_in_a_file),
        cmocka_unit_test(an_older_program_has_a_zero_tail),
        cmocka_unit_test(a_newer_program_may_only_leave_unknown_fields_alone),
        cmocka_unit_test(later_features_are_refused_by_name),
        cmocka_unit_test(acks_groups_and_names_fit_each_other),
        cmocka_unit_test(a_message_has_one_source),
        cmocka_unit_test(an_empty_position_is_none),
        cmocka_unit_test(allocators_are_one_a_kind),
        cmocka_unit_test(allocators_lie_as_far_apart_as_they_are_large),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
