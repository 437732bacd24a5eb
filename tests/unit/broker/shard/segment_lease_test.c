/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lease segments from the request to the end: a client's rights and their limits, the charges, and
 * when the segment goes. Commits are in commit_test.c.
 */
#include "broker/base/party.h"
#include "broker/config/config.h"
#include "broker/memory/limbo.h"
#include "broker/session/session.h"
#include "broker/shard/segment_lease.h"
#include "tests/support/shard/shard_client.h"
#include "tests/support/shard/shard_harness.h"
#include "tests/support/shard/shard_lease.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define MIB (UINT64_C(1) << 20)

struct world {
    struct shard_harness h;
    uint32_t topic;
    struct shard_client *p, *reader;
    uint64_t windows; /* memory that is there for what the publisher may send */
    struct amb_limbo limbo;
    struct amb_parties parties;
};

static const struct client_options maps = {.may_map = true, .answers_offers = true};

static int setup(void **state)
{
    struct world *w = calloc(1, sizeof(*w));
    assert_non_null(w);
    harness_init(&w->h, 1, NULL); /* 16 MiB: 4 of leases a session, 12 in all */
    w->topic = harness_topic(&w->h, "t", 0);
    w->p = shard_client_create(&w->h, 0, &maps);
    w->reader = shard_client_create(&w->h, 0, &maps);
    client_open_pub(w->p, 0, w->topic, false);
    w->windows = atomic_load(&w->h.budget.used);
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    harness_fini(&w->h);
    free(w);
    return 0;
}

static uint64_t used(struct world *w)
{
    return atomic_load(&w->h.budget.used) - w->windows;
}

static struct client_lease open_and_map(struct world *w, uint64_t slot, uint32_t slots)
{
    struct client_lease lease;
    assert_int_equal(client_lease_open(w->p, slot, slots, &lease), AMB_OK);
    assert_int_equal(client_lease_map(w->p, &lease), AMB_OK);
    return lease;
}

static void test_a_lease_is_whole_segments_of_pages_that_are_there(void **state)
{
    struct world *w = *state;
    struct client_lease lease;
    assert_int_equal(client_lease_open(w->p, 4096, 600, &lease), AMB_OK);
    assert_int_equal(lease.size, 4 * MIB);
    struct stat st;
    assert_int_equal(fstat(lease.fd, &st), 0);
    assert_int_equal(st.st_size, 4 * MIB);
    assert_int_equal(st.st_blocks, 4 * MIB / 512);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(used(w), 4 * MIB);
    assert_int_equal(w->h.shards[0].leases.bytes, 4 * MIB);
    client_lease_fini(&lease);
}

static void test_it_cannot_shrink_or_grow_from_the_first_moment(void **state)
{
    struct world *w = *state;
    struct client_lease lease;
    assert_int_equal(client_lease_open(w->p, 4096, 1, &lease), AMB_OK);
    assert_int_equal(ftruncate(lease.fd, 0), -1);
    assert_int_equal(ftruncate(lease.fd, (off_t)(2 * lease.size)), -1);
    assert_int_equal(client_lease_map(w->p, &lease), AMB_OK);
    client_lease_fini(&lease);
}

static void test_holes_punched_before_the_seals_are_filled_and_none_come_after(void **state)
{
    struct world *w = *state;
    struct client_lease lease;
    assert_int_equal(client_lease_open(w->p, 65536, 32, &lease), AMB_OK);
    assert_int_equal(fallocate(lease.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 1 << 20),
                     0);
    int kept = dup(lease.fd);
    assert_int_equal(client_lease_map(w->p, &lease), AMB_OK);
    struct stat st;
    assert_int_equal(fstat(kept, &st), 0);
    assert_int_equal(st.st_blocks, 2 * MIB / 512);
    assert_int_equal(fallocate(kept, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), -1);
    assert_int_equal(madvise(lease.base, 4096, MADV_REMOVE), -1);
    assert_int_equal(errno, EPERM);
    (void)close(kept);
    client_lease_fini(&lease);
}

static void test_a_kept_descriptor_makes_no_second_writer(void **state)
{
    struct world *w = *state;
    struct client_lease lease;
    assert_int_equal(client_lease_open(w->p, 65536, 4, &lease), AMB_OK);
    int kept = dup(lease.fd);
    assert_int_equal(client_lease_map(w->p, &lease), AMB_OK);
    assert_true(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, kept, 0) == MAP_FAILED);
    assert_int_equal(pwrite(kept, "x", 1, 0), -1);
    assert_int_equal(fcntl(kept, F_ADD_SEALS, F_SEAL_WRITE), -1);
    lease.base[0] = 7; /* its own goes on */
    (void)close(kept);
    client_lease_fini(&lease);
}

static void test_what_readers_get_cannot_be_opened_to_write(void **state)
{
    struct world *w = *state;
    struct client_lease lease = open_and_map(w, 65536, 4);
    client_subscribe(w->reader, 0, w->topic, NULL);
    w->reader->answers_offers = false;
    client_commit(w->p, 0, &lease, 0, 1, 100);
    harness_settle(&w->h);
    assert_int_equal(w->reader->segment_count, 1);
    int fd = w->reader->segments[0].fd;
    assert_int_equal(fcntl(fd, F_GETFL) & O_ACCMODE, O_RDONLY);
    assert_true(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    int again = open(path, O_RDWR | O_CLOEXEC); /* our own user's: the seals hold all the same */
    if (again >= 0) {
        assert_true(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, again, 0) == MAP_FAILED);
        (void)close(again);
    }
    client_drain(w->reader, 0);
    client_lease_fini(&lease);
}

static void test_one_that_was_sealed_by_its_client_is_refused_and_gone(void **state)
{
    struct world *w = *state;
    struct client_lease lease;
    assert_int_equal(client_lease_open(w->p, 65536, 4, &lease), AMB_OK);
    assert_int_equal(fcntl(lease.fd, F_ADD_SEALS, F_SEAL_SEAL), 0);
    assert_int_equal(client_lease_map(w->p, &lease), AMB_EFORBIDDEN);
    assert_int_equal(used(w), 0);
    assert_int_equal(client_lease_say_mapped(w->p, lease.segment), AMB_ENOTFOUND);
    client_lease_fini(&lease);
}

static void test_mapped_is_said_once_and_of_ones_own(void **state)
{
    struct world *w = *state;
    struct client_lease lease = open_and_map(w, 65536, 4);
    assert_int_equal(client_lease_say_mapped(w->p, lease.segment), AMB_ESTATE);
    assert_int_equal(client_lease_say_mapped(w->p, lease.segment + 1), AMB_ENOTFOUND);
    assert_int_equal(client_lease_say_mapped(w->reader, lease.segment), AMB_ENOTFOUND);
    client_lease_close(w->reader, &lease); /* nobody else's to close */
    assert_int_equal(w->h.shards[0].leases.bytes, 2 * MIB);
    client_lease_fini(&lease);
}

static void test_slots_that_are_none_are_refused(void **state)
{
    struct world *w = *state;
    struct client_lease lease;
    assert_int_equal(client_lease_open(w->p, 0, 4, &lease), AMB_EINVAL);
    assert_int_equal(client_lease_open(w->p, 4096, 0, &lease), AMB_EINVAL);
    assert_int_equal(client_lease_open(w->p, 4097, 4, &lease), AMB_EINVAL);
    assert_int_equal(client_lease_open(w->p, UINT64_MAX & ~UINT64_C(4095), UINT32_MAX, &lease),
                     AMB_ELIMIT);
    assert_int_equal(client_lease_open(w->p, UINT64_C(1) << 32, 1u << 15, &lease), AMB_ELIMIT);
    assert_int_equal(used(w), 0);
    assert_int_equal(amb_stat_get(&w->h.shards[0].stats->leases_refused), 5);
}

static void test_a_session_has_so_many_bytes_and_no_more(void **state)
{
    struct world *w = *state;
    struct client_lease first, second;
    assert_int_equal(client_lease_open(w->p, 5 * MIB, 1, &first), AMB_ELIMIT);
    assert_int_equal(client_lease_open(w->p, 2 * MIB, 1, &first), AMB_OK);
    assert_int_equal(client_lease_open(w->p, 2 * MIB, 2, &second), AMB_ELIMIT);
    assert_int_equal(client_lease_open(w->p, 4096, 1, &second), AMB_OK);
    client_lease_fini(&second);
    assert_int_equal(client_lease_open(w->p, 4096, 1, &second), AMB_ELIMIT);
    client_lease_close(w->p, &first);
    client_lease_fini(&first);
    assert_int_equal(client_lease_open(w->p, 4096, 1, &second), AMB_OK);
    client_lease_fini(&second);
}

static void test_a_quarter_of_memory_is_never_leased(void **state)
{
    struct world *w = *state;
    struct shard_client *clients[3];
    struct client_lease lease;
    for (unsigned i = 0; i < 3; i++) {
        clients[i] = shard_client_create(&w->h, 0, &maps);
        assert_int_equal(client_lease_open(clients[i], 4 * MIB, 1, &lease), AMB_OK);
        client_lease_fini(&lease);
    }
    assert_int_equal(client_lease_open(w->p, 4096, 1, &lease), AMB_ENOMEM);
    client_send(w->p, 0, 1, 100);
    harness_settle(&w->h);
    assert_int_equal(w->p->pubs[0].accepted, 1);
}

static void test_all_clients_together_have_so_many_descriptors(void **state)
{
    struct world *w = *state;
    struct client_lease first, second;
    w->h.budget.max_leases = 1;
    assert_int_equal(client_lease_open(w->p, 4096, 1, &first), AMB_OK);
    assert_int_equal(client_lease_open(w->reader, 4096, 1, &second), AMB_ENOMEM);
    client_lease_close(w->p, &first);
    assert_int_equal(client_lease_open(w->reader, 4096, 1, &second), AMB_OK);
    client_lease_fini(&first);
    client_lease_fini(&second);
}

static void test_whoever_cannot_map_gets_none(void **state)
{
    struct world *w = *state;
    struct shard_client *far = shard_client_create(&w->h, 0, NULL);
    struct client_lease lease;
    assert_int_equal(client_lease_open(far, 4096, 1, &lease), AMB_ENOTSUP);
}

static void test_it_goes_with_its_session(void **state)
{
    struct world *w = *state;
    struct client_lease lease = open_and_map(w, 65536, 4);
    client_close(w->p, false);
    assert_int_equal(used(w), 0);
    client_lease_fini(&lease);
}

static void test_after_an_end_without_a_word_it_stays_until_the_process_is_gone(void **state)
{
    struct world *w = *state;
    struct client_lease lease = open_and_map(w, 65536, 4);
    client_close(w->p, true);
    assert_true(w->p->is_quarantined);
    assert_int_equal(used(w), 2 * MIB);
    assert_int_equal(amb_stat_get(&w->h.shards[0].stats->quarantined_bytes), 2 * MIB);
    client_die(w->p);
    assert_int_equal(used(w), 0);
    assert_int_equal(amb_stat_get(&w->h.shards[0].stats->quarantined_bytes), 0);
    client_lease_fini(&lease);
}

static void test_what_readers_hold_outlives_its_session_and_its_process(void **state)
{
    struct world *w = *state;
    struct client_lease lease = open_and_map(w, 65536, 4);
    client_subscribe(w->reader, 0, w->topic, NULL);
    client_commit(w->p, 0, &lease, 0, 1, 5000); /* by copy: the reader has not mapped it yet */
    harness_settle(&w->h);
    client_commit(w->p, 0, &lease, 1, 1, 5000);
    harness_settle(&w->h);
    assert_int_equal(client_delivery(w->reader, 0, 2)->frame.type, AMB_FRAME_MAP_LEASED);
    client_close(w->p, true);
    client_die(w->p);
    assert_true(used(w) > 0);
    client_check_held(w->reader, 0);
    client_drain(w->reader, 0);
    assert_int_equal(w->h.shards[0].leases.bytes, 0);
    assert_int_equal(w->reader->drops, 1);
    client_lease_fini(&lease);
}

static void test_the_end_in_the_middle_of_a_request_is_an_answer(void **state)
{
    struct world *w = *state;
    struct amb_segment_lease *lease;
    uint64_t size;
    const char *why;
    assert_int_equal(
        amb_segment_lease_check(&w->h.shards[0], &w->p->session->book, 4 * MIB, 1, &size, &why),
        AMB_OK);
    assert_true(amb_membudget_take_lease(&w->h.budget, size));
    assert_int_equal(
        amb_segment_lease_open(&w->h.shards[0], &w->p->session->book, 4 * MIB, 1, size, &lease),
        AMB_OK);
    struct amb_segment_lease_pass pass;
    assert_int_equal(amb_segment_lease_pass_begin(lease, &pass), AMB_OK);
    assert_true(amb_segment_lease_pass_step(&pass)); /* There is more to do. */
    assert_int_equal(amb_segment_lease_mapped(lease), AMB_ESTATE);
    client_close(w->p, false);
    assert_int_equal(used(w), 0);
    assert_false(amb_segment_lease_pass_step(&pass));
    assert_int_equal(pass.status, AMB_ECLOSED);
    amb_segment_lease_pass_fini(&pass);
}

/* The publisher's and the reader's process is one, of user 7. */
static struct amb_party *charge(struct world *w)
{
    struct amb_party *party;
    amb_limbo_init(&w->limbo, NULL);
    w->h.budget.limbo = &w->limbo;
    assert_int_equal(amb_parties_init(&w->parties, 2), AMB_OK);
    assert_int_equal(amb_parties_find(&w->parties, 7, "1", &party), AMB_OK);
    w->p->session->party = w->p->session->book.party = amb_party_ref(party);
    w->reader->session->party = w->reader->session->book.party = amb_party_ref(party);
    return party;
}

static void uncharge(struct world *w, struct amb_party *party)
{
    amb_party_unref(&party);
    amb_parties_fini(&w->parties);
    assert_int_equal(amb_limbo_look(&w->h.budget, 0), -1);
    amb_limbo_fini(&w->limbo, &w->h.budget);
}

/* The attack: open, map, close, keep the mapping, again. 4 MiB a process, and no more of it. */
static void test_what_is_closed_and_kept_mapped_stays_charged(void **state)
{
    struct world *w = *state;
    struct amb_party *party = charge(w);
    struct client_lease kept[2], refused;
    for (unsigned i = 0; i < 2; i++) {
        kept[i] = open_and_map(w, 65536, 32);
        client_lease_close(w->p, &kept[i]);
        assert_int_equal(w->p->session->book.bytes, 0);
        assert_int_equal(used(w), (i + 1) * 2 * MIB);
    }
    assert_int_equal(party->kept, 4 * MIB);
    assert_int_equal(client_lease_open(w->p, 65536, 32, &refused), AMB_ELIMIT);
    /* Its other sessions, and its next ones, pay as well. */
    assert_int_equal(client_lease_open(w->reader, 65536, 32, &refused), AMB_ELIMIT);
    /* A segment that it really unmaps, it may have anew. */
    client_lease_fini(&kept[0]);
    assert_true(amb_limbo_look(&w->h.budget, 0) > 0);
    assert_int_equal(used(w), 2 * MIB);
    kept[0] = open_and_map(w, 65536, 32);
    client_lease_close(w->p, &kept[0]);
    client_lease_fini(&kept[0]);
    client_lease_fini(&kept[1]);
    uncharge(w, party);
    assert_int_equal(used(w), 0);
}

/* An honest client, that opens and closes all day. */
static void test_what_is_closed_and_unmapped_never_counts(void **state)
{
    struct world *w = *state;
    struct amb_party *party = charge(w);
    for (unsigned i = 0; i < 100; i++) {
        struct client_lease lease = open_and_map(w, 65536, 64);
        const struct client_lease closed = lease;
        client_lease_fini(&lease); /* As libamb does: first it unmaps. */
        client_lease_close(w->p, &closed);
        assert_int_equal(used(w), 0);
    }
    uncharge(w, party);
}

static void test_what_its_process_left_in_quarantine_counts_for_its_next_session(void **state)
{
    struct world *w = *state;
    struct amb_party *party = charge(w);
    struct client_lease lease = open_and_map(w, 65536, 64), refused;
    client_close(w->p, true);
    assert_int_equal(party->kept, 4 * MIB);
    assert_int_equal(client_lease_open(w->reader, 65536, 32, &refused), AMB_ELIMIT);
    client_lease_fini(&lease);
    client_die(w->p);
    assert_int_equal(party->kept, 0);
    assert_int_equal(client_lease_open(w->reader, 65536, 32, &refused), AMB_OK);
    client_lease_close(w->reader, &refused);
    client_lease_fini(&refused);
    uncharge(w, party);
}

/* A slow reader keeps the memory of sessions that are long over, one after the other. */
static void leave_to_a_reader(struct world *w, bool is_held)
{
    struct amb_party *party = charge(w);
    struct client_lease lease = open_and_map(w, 65536, 32), refused;
    client_subscribe(w->reader, 0, w->topic, NULL);
    client_commit(w->p, 0, &lease, 0, 1, 5000);
    harness_settle(&w->h);
    client_commit(w->p, 0, &lease, 1, 1, 5000);
    harness_settle(&w->h);
    assert_int_equal(client_delivery(w->reader, 0, 2)->frame.type, AMB_FRAME_MAP_LEASED);
    client_lease_fini(&lease);
    assert_int_equal(party->kept, 0);
    client_close(w->p, is_held);
    if (is_held) {
        assert_int_equal(party->kept, 2 * MIB);
        client_die(w->p);
    }
    assert_int_equal(party->kept, 2 * MIB);
    assert_int_equal(client_lease_open(w->reader, 65536, 64, &refused), AMB_ELIMIT);
    client_drain(w->reader, 0);
    harness_settle(&w->h);
    (void)amb_limbo_look(&w->h.budget, 0);
    assert_int_equal(party->kept, 0);
    assert_int_equal(client_lease_open(w->reader, 65536, 64, &refused), AMB_OK);
    client_lease_fini(&refused);
    client_close(w->reader, false);
    uncharge(w, party);
}

static void test_what_readers_hold_of_an_ended_session_counts_for_its_process(void **state)
{
    leave_to_a_reader(*state, false);
}

static void test_what_readers_hold_of_a_dead_session_counts_for_its_process(void **state)
{
    leave_to_a_reader(*state, true);
}

/* 12 MiB may be leased: of that 90 per cent by one user, whose processes are many. */
static void test_a_user_leaves_something_for_others(void **state)
{
    struct world *w = *state;
    struct amb_party *party = charge(w);
    struct client_lease leases[3];
    assert_int_equal(client_lease_open(w->p, 4 * MIB, 1, &leases[0]), AMB_OK);
    assert_int_equal(client_lease_open(w->reader, 4 * MIB, 1, &leases[1]), AMB_OK);
    struct shard_client *third = shard_client_create(&w->h, 0, &maps);
    third->session->party = third->session->book.party = amb_party_ref(party);
    assert_int_equal(client_lease_open(third, 4 * MIB, 1, &leases[2]), AMB_ELIMIT);
    assert_int_equal(client_lease_open(third, 2 * MIB, 1, &leases[2]), AMB_OK);
    struct shard_client *other = shard_client_create(&w->h, 0, &maps);
    struct client_lease its;
    assert_int_equal(client_lease_open(other, 2 * MIB, 1, &its), AMB_OK);
    for (unsigned i = 0; i < 3; i++) {
        client_lease_fini(&leases[i]);
    }
    client_lease_fini(&its);
    client_close(w->p, false);
    client_close(w->reader, false);
    client_close(third, false);
    client_close(other, false);
    uncharge(w, party);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        T(test_a_lease_is_whole_segments_of_pages_that_are_there),
        T(test_it_cannot_shrink_or_grow_from_the_first_moment),
        T(test_holes_punched_before_the_seals_are_filled_and_none_come_after),
        T(test_a_kept_descriptor_makes_no_second_writer),
        T(test_what_readers_get_cannot_be_opened_to_write),
        T(test_one_that_was_sealed_by_its_client_is_refused_and_gone),
        T(test_mapped_is_said_once_and_of_ones_own),
        T(test_slots_that_are_none_are_refused),
        T(test_a_session_has_so_many_bytes_and_no_more),
        T(test_a_quarter_of_memory_is_never_leased),
        T(test_all_clients_together_have_so_many_descriptors),
        T(test_whoever_cannot_map_gets_none),
        T(test_it_goes_with_its_session),
        T(test_after_an_end_without_a_word_it_stays_until_the_process_is_gone),
        T(test_what_is_closed_and_kept_mapped_stays_charged),
        T(test_what_is_closed_and_unmapped_never_counts),
        T(test_what_its_process_left_in_quarantine_counts_for_its_next_session),
        T(test_what_readers_hold_of_an_ended_session_counts_for_its_process),
        T(test_what_readers_hold_of_a_dead_session_counts_for_its_process),
        T(test_a_user_leaves_something_for_others),
        T(test_what_readers_hold_outlives_its_session_and_its_process),
        T(test_the_end_in_the_middle_of_a_request_is_an_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
