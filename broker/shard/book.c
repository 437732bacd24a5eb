/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/shard/book.h"

#include "broker/shard/segment_lease.h"

void amb_lease_book_init(struct amb_lease_book *book, struct amb_heap_account *heap)
{
    *book = (struct amb_lease_book){.heap = heap};
    amb_list_init(&book->leases);
    amb_list_init(&book->commits);
    amb_list_init(&book->untold);
}

void amb_lease_book_end(struct amb_lease_book *book, bool is_quarantined)
{
    while (amb_list_pop_front(&book->untold) != NULL) {
    }
    while (amb_list_pop_front(&book->commits) != NULL) {
    }
    AMB_LIST_FOR_EACH_SAFE (node, &book->leases) {
        struct amb_segment_lease *lease = AMB_CONTAINER_OF(node, struct amb_segment_lease, of_book);
        amb_segment_lease_orphan(lease, is_quarantined);
    }
    book->has_news = false;
}

uint64_t amb_lease_book_quarantined(const struct amb_lease_book *book)
{
    uint64_t bytes = 0;
    AMB_LIST_FOR_EACH (node, &book->leases) {
        const struct amb_segment_lease *lease =
            AMB_CONTAINER_OF(node, struct amb_segment_lease, of_book);
        bytes += lease->is_quarantined ? lease->segment->size : 0;
    }
    return bytes;
}

void amb_lease_book_release(struct amb_lease_book *book)
{
    AMB_LIST_FOR_EACH_SAFE (node, &book->leases) {
        struct amb_segment_lease *lease = AMB_CONTAINER_OF(node, struct amb_segment_lease, of_book);
        amb_segment_lease_release(lease);
    }
}

static struct amb_commit *commit_of(struct amb_list_node *node)
{
    return AMB_CONTAINER_OF(node, struct amb_commit, node);
}

/* Commits between this one and the next that is not over are over now: count of them, from this
 * number on. Commits between them and others that were noted before are over, too. */
static void commit_note(struct amb_lease_book *book, struct amb_commit *commit, uint64_t number,
                        uint64_t count)
{
    uint64_t end = number + count;
    if (commit->untold == 0) {
        amb_list_push_back(&book->untold, &commit->news);
    } else {
        uint64_t noted_end = commit->untold_from + commit->untold;
        number = commit->untold_from < number ? commit->untold_from : number;
        end = noted_end > end ? noted_end : end;
    }
    /* A frame names no more; of what is behind them the counter will speak. */
    commit->untold = end - number < UINT32_MAX ? (uint32_t)(end - number) : UINT32_MAX;
    commit->untold_from = number;
}

void amb_commit_skip(struct amb_lease_book *book)
{
    book->committed++;
    book->has_news = true;
    if (!amb_list_is_empty(&book->commits)) {
        commit_note(book, commit_of(book->commits.prev), book->committed, 1);
    }
}

void amb_commit_begin(struct amb_lease_book *book, struct amb_commit *commit,
                      struct amb_segment_lease *lease)
{
    commit->number = ++book->committed;
    commit->lease = lease;
    amb_segment_lease_ref(lease);
    amb_list_init(&commit->news);
    amb_list_push_back(&book->commits, &commit->node);
}

enum amb_status amb_commit_take(struct amb_commit *commit, uint64_t offset, uint64_t padded)
{
    struct amb_segment_lease *lease = commit->lease;
    uint64_t at = offset / lease->slot;
    if (offset % lease->slot != 0 || at >= lease->slots || padded > lease->slot) {
        return AMB_EPROTO;
    }
    uint64_t bit = UINT64_C(1) << (at % 64);
    if ((lease->taken[at / 64] & bit) != 0) {
        return AMB_EPROTO;
    }
    lease->taken[at / 64] |= bit;
    commit->taken++;
    return AMB_OK;
}

void amb_commit_untake(struct amb_commit *commit)
{
    struct amb_segment_lease *lease = commit->lease;
    for (uint32_t i = 0; i < commit->taken; i++) {
        uint64_t at = commit->offsets[i] / lease->slot;
        lease->taken[at / 64] &= ~(UINT64_C(1) << (at % 64));
    }
    commit->taken = 0;
}

/* It is over. Its neighbour notes it and all that it had noted; the counter says those behind the
 * oldest. */
static void commit_leave(struct amb_lease_book *book, struct amb_commit *commit)
{
    book->has_news = true;
    if (book->commits.next != &commit->node) {
        struct amb_commit *older = commit_of(commit->node.prev);
        commit_note(book, older, commit->number, 1);
        if (commit->untold != 0) {
            commit_note(book, older, commit->untold_from, commit->untold);
        }
    }
    amb_list_remove(&commit->node);
    amb_list_remove(&commit->news);
}

void amb_commit_over(struct amb_commit *commit)
{
    struct amb_segment_lease *lease = commit->lease;
    if (lease == NULL) {
        return;
    }
    amb_commit_untake(commit);
    commit->lease = NULL;
    struct amb_lease_book *book = lease->book;
    if (book != NULL) {
        commit_leave(book, commit);
    }
    amb_segment_lease_unref(lease);
}

uint64_t amb_lease_book_over(const struct amb_lease_book *book)
{
    if (amb_list_is_empty(&book->commits)) {
        return book->committed;
    }
    return commit_of(book->commits.next)->number - 1;
}

bool amb_lease_book_next(struct amb_lease_book *book, uint64_t *number, uint32_t *count)
{
    struct amb_list_node *node = amb_list_pop_front(&book->untold);
    if (node == NULL) {
        return false;
    }
    struct amb_commit *commit = AMB_CONTAINER_OF(node, struct amb_commit, news);
    *number = commit->untold_from;
    *count = commit->untold;
    commit->untold = 0;
    return true;
}
