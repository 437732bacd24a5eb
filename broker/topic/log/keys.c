/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/topic/log/keys.h"

#include "broker/config/config.h"
#include "broker/memory/segment.h"
#include "broker/shard/entry.h"
#include "broker/shard/shard.h"
#include "broker/shard/slice.h"
#include "wire/base/hash.h"
#include "wire/codec/frame.h"
#include "wire/codec/props.h"

#include <stdlib.h>
#include <string.h>

#define BUCKETS_FIRST 64u
#define AGES_FIRST 64u
#define NO_AGE UINT32_MAX

struct key {
    struct key *next; /* of its bucket */
    uint32_t age;     /* index in keys->ages; NO_AGE: not there yet */
    uint64_t seq;
    struct amb_entry *entry; /* one reference; NULL: not kept */
    uint32_t index;          /* of the message in it */
    uint32_t hash;
    bool is_own; /* nothing but this message is in it: the log is done with it */
    uint32_t len;
    const char *name; /* in the entry; not kept: behind this struct */
};

/* A place in the order of the newest messages: a table, so that a reader finds where it was. */
struct age {
    uint64_t seq;
    struct key *key; /* NULL: has a newer message, or is gone, */
    uint32_t skip;   /* ... and so are all before this index, if it is not 0 */
};

struct amb_keys {
    struct amb_shard *shard;
    struct key **buckets;
    uint8_t
        seed[16]; /* of the hash by which keys are found: nobody outside can choose its values */
    uint32_t mask, count, max;
    uint64_t bytes, max_bytes; /* of entries that are here alone */
    bool keeps;
    struct age *ages; /* by sequence number, oldest first: ages_first .. ages_end - 1 */
    uint32_t ages_first, ages_end, ages_size;
};

/* A message's key, as a walk over an entry finds it. */
struct name {
    const char *text;
    uint32_t len, hash, index;
};

struct walk {
    const struct amb_keys *keys;
    const struct amb_record *records;
    const uint8_t *blob;
    uint32_t count, next;
};

static struct walk walk_of(const struct amb_keys *keys, const struct amb_entry *entry)
{
    return (struct walk){.keys = keys,
                         .records = amb_entry_records(entry),
                         .blob = amb_slice_blobs(entry),
                         .count = entry->count};
}

/* The key of one message, whose properties begin at blob. The hash that its publisher has sent says
 * only that there is a key: a publisher could give a million keys the same one. False: no key. */
static bool name_read(const struct amb_keys *keys, const struct amb_record *record,
                      const uint8_t *blob, uint32_t index, struct name *out)
{
    struct amb_prop_view prop;
    if (record->key_hash == 0 || !amb_props_find(blob, record->props_len, AMB_PROP_KEY, &prop)) {
        return false;
    }
    *out = (struct name){.text = (const char *)prop.value,
                         .len = (uint32_t)prop.value_len,
                         .hash = (uint32_t)amb_siphash24(keys->seed, prop.value, prop.value_len),
                         .index = index};
    return true;
}

/* The next message with a key. */
static bool walk_next(struct walk *walk, struct name *out)
{
    while (walk->next < walk->count) {
        const struct amb_record *record = &walk->records[walk->next];
        const uint8_t *blob = walk->blob;
        walk->blob += amb_props_padded(record->props_len);
        walk->next++;
        if (name_read(walk->keys, record, blob, walk->next - 1, out)) {
            return true;
        }
    }
    return false;
}

enum amb_status amb_keys_create(struct amb_shard *shard, uint32_t max, uint64_t max_bytes,
                                bool keeps, struct amb_keys **out)
{
    struct amb_keys *keys = calloc(1, sizeof(*keys));
    struct key **buckets = calloc(BUCKETS_FIRST, sizeof(struct key *));
    struct age *ages = calloc(AGES_FIRST, sizeof(*ages));
    if (keys == NULL || buckets == NULL || ages == NULL) {
        free(keys);
        free(buckets);
        free(ages);
        return AMB_ENOMEM;
    }
    *keys = (struct amb_keys){.shard = shard,
                              .buckets = buckets,
                              .mask = BUCKETS_FIRST - 1,
                              .max = max,
                              .max_bytes = max_bytes,
                              .keeps = keeps,
                              .ages = ages,
                              .ages_size = AGES_FIRST};
    amb_random_bytes(keys->seed, sizeof(keys->seed));
    *out = keys;
    return AMB_OK;
}

/* The place that points to it, or where it would be put. */
static struct key **key_place(const struct amb_keys *keys, const struct name *name)
{
    struct key **at = &keys->buckets[name->hash & keys->mask];
    while (*at != NULL && ((*at)->hash != name->hash || (*at)->len != name->len ||
                           memcmp((*at)->name, name->text, name->len) != 0)) {
        at = &(*at)->next;
    }
    return at;
}

static void key_drop_entry(struct amb_keys *keys, struct key *key)
{
    if (key->entry != NULL) {
        keys->bytes -= key->is_own ? amb_entry_charge(key->entry) : 0;
        amb_entry_unref(key->entry, keys->shard);
        key->entry = NULL;
        key->is_own = false;
    }
}

static void key_forget_age(struct amb_keys *keys, struct key *key)
{
    if (key->age != NO_AGE) {
        keys->ages[key->age].key = NULL;
        key->age = NO_AGE;
    }
}

static void key_remove(struct amb_keys *keys, struct key *key)
{
    struct key **at = &keys->buckets[key->hash & keys->mask];
    while (*at != key) {
        at = &(*at)->next;
    }
    *at = key->next;
    key_drop_entry(keys, key);
    key_forget_age(keys, key);
    keys->count--;
    free(key);
}

/* Of at least one key. */
static struct key *key_oldest(struct amb_keys *keys)
{
    while (keys->ages[keys->ages_first].key == NULL) {
        keys->ages_first++;
    }
    return keys->ages[keys->ages_first].key;
}

/* Room for one more: by leaving out what is over, or in a larger table. False: no memory. */
static bool ages_make_room(struct amb_keys *keys)
{
    struct age *ages = keys->ages;
    if (keys->count > keys->ages_size / 2) {
        ages = calloc((size_t)keys->ages_size * 2, sizeof(*ages));
        if (ages == NULL) {
            return false;
        }
    }
    uint32_t end = 0;
    for (uint32_t i = keys->ages_first; i < keys->ages_end; i++) {
        if (keys->ages[i].key != NULL) {
            ages[end] = keys->ages[i];
            ages[end].key->age = end;
            end++;
        }
    }
    if (ages != keys->ages) {
        free(keys->ages);
        keys->ages = ages;
        keys->ages_size *= 2;
    }
    keys->ages_first = 0;
    keys->ages_end = end;
    return true;
}

/* Its newest message is the newest of all. False: no memory. */
static bool key_renew_age(struct amb_keys *keys, struct key *key)
{
    key_forget_age(keys, key);
    if (keys->ages_end == keys->ages_size && !ages_make_room(keys)) {
        return false;
    }
    key->age = keys->ages_end++;
    keys->ages[key->age] = (struct age){.seq = key->seq, .key = key};
    return true;
}

void amb_keys_destroy(struct amb_keys **keys)
{
    struct amb_keys *k = *keys;
    if (k == NULL) {
        return;
    }
    *keys = NULL;
    while (k->count > 0) {
        key_remove(k, key_oldest(k));
    }
    free(k->buckets);
    free(k->ages);
    free(k);
}

static void keep_within(struct amb_keys *keys)
{
    while (keys->count > 0 && (keys->count > keys->max || keys->bytes > keys->max_bytes)) {
        key_remove(keys, key_oldest(keys));
    }
}

void amb_keys_limit(struct amb_keys *keys, uint32_t max, uint64_t max_bytes)
{
    keys->max = max;
    keys->max_bytes = max_bytes;
    keep_within(keys);
}

/* For speed only: without memory buckets get longer. */
static void keys_grow(struct amb_keys *keys)
{
    uint32_t buckets = (keys->mask + 1) * 2;
    struct key **grown = calloc(buckets, sizeof(struct key *));
    if (grown == NULL) {
        return;
    }
    for (uint32_t i = keys->ages_first; i < keys->ages_end; i++) {
        struct key *key = keys->ages[i].key;
        if (key == NULL) {
            continue;
        }
        struct key **at = &grown[key->hash & (buckets - 1)];
        key->next = *at;
        *at = key;
    }
    free(keys->buckets);
    keys->buckets = grown;
    keys->mask = buckets - 1;
}

/* NULL: no memory. */
static struct key *key_add(struct amb_keys *keys, const struct name *name)
{
    if (keys->count >= keys->max) {
        key_remove(keys, key_oldest(keys));
    }
    if (keys->count > keys->mask) {
        keys_grow(keys);
    }
    struct key *key = calloc(1, sizeof(*key) + (keys->keeps ? 0 : name->len));
    if (key == NULL) {
        return NULL;
    }
    key->hash = name->hash;
    key->len = name->len;
    key->name = name->text;
    if (!keys->keeps) {
        memcpy(key + 1, name->text, name->len);
        key->name = (const char *)(key + 1);
    }
    key->age = NO_AGE;
    struct key **at = &keys->buckets[key->hash & keys->mask];
    key->next = *at;
    *at = key;
    keys->count++;
    return key;
}

void amb_keys_note(struct amb_keys *keys, struct amb_entry *entry)
{
    struct walk walk = walk_of(keys, entry);
    struct name name;
    bool cannot_stay = keys->keeps && entry->is_leased && entry->segment->gpu != NULL;
    while (walk_next(&walk, &name)) {
        struct key *key = *key_place(keys, &name);
        if (cannot_stay) {
            if (key != NULL) {
                key_remove(keys, key);
            }
            continue;
        }
        key = key != NULL ? key : key_add(keys, &name);
        if (key == NULL) {
            continue;
        }
        key_drop_entry(keys, key);
        key->seq = entry->first_seq + name.index;
        key->index = name.index;
        if (keys->keeps) {
            key->entry = entry;
            key->name = name.text;
            amb_entry_ref(entry);
        }
        if (!key_renew_age(keys, key)) {
            key_remove(keys, key);
        }
    }
}

/* From here on it keeps its own message alone. False: no memory. */
static bool key_cut_out(struct amb_keys *keys, struct key *key, const struct name *name)
{
    struct amb_entry *entry = key->entry;
    if (entry->count > 1 || entry->is_leased) {
        struct amb_entry *own = amb_slice_copy(keys->shard, entry, name->index, 1);
        if (own == NULL) {
            return false;
        }
        struct walk walk = walk_of(keys, own);
        struct name own_name = {0};
        (void)walk_next(&walk, &own_name);
        key->entry = own;
        key->index = 0;
        key->name = own_name.text;
        amb_entry_unref(entry, keys->shard);
    }
    key->is_own = true;
    keys->bytes += amb_entry_charge(key->entry);
    return true;
}

void amb_keys_gone(struct amb_keys *keys, struct amb_entry *entry)
{
    struct walk walk = walk_of(keys, entry);
    struct name name;
    while (keys->keeps && walk_next(&walk, &name)) {
        struct key *key = *key_place(keys, &name);
        if (key != NULL && key->entry == entry && !key->is_own && key->index == name.index &&
            !key_cut_out(keys, key, &name)) {
            key_remove(keys, key);
        }
    }
    keep_within(keys);
}

void amb_keys_moved(struct amb_keys *keys, const struct amb_entry *from, struct amb_entry *to)
{
    struct walk walk = walk_of(keys, to);
    struct name name;
    while (keys->keeps && walk_next(&walk, &name)) {
        struct key *key = *key_place(keys, &name);
        if (key != NULL && key->entry == from && key->index == name.index) {
            amb_entry_ref(to);
            key_drop_entry(keys, key);
            key->entry = to;
            key->name = name.text;
        }
    }
}

bool amb_keys_is_superseded(const struct amb_keys *keys, const struct amb_entry *entry,
                            uint32_t index, const uint8_t *blob)
{
    struct name name;
    if (!name_read(keys, &amb_entry_records(entry)[index], blob, index, &name)) {
        return false;
    }
    const struct key *key = *key_place(keys, &name);
    return key != NULL && key->seq > entry->first_seq + index;
}

void amb_keys_expire(struct amb_keys *keys, int64_t now_ns, int64_t ttl_ns)
{
    while (keys->count > 0 && ttl_ns != AMB_CONFIG_TIME_FOREVER) {
        struct key *key = key_oldest(keys);
        if (key->entry == NULL || now_ns - key->entry->arrived_ns < ttl_ns) {
            return;
        }
        key_remove(keys, key);
    }
}

bool amb_keys_shed(struct amb_keys *keys, uint32_t most)
{
    uint32_t goes = (keys->count + 1) / 2;
    goes = goes < most ? goes : most;
    bool is_shed = false;
    while (goes-- > 0) {
        is_shed = is_shed || key_oldest(keys)->is_own;
        key_remove(keys, key_oldest(keys));
    }
    return is_shed;
}

uint64_t amb_keys_count(const struct amb_keys *keys)
{
    return keys->count;
}

uint32_t amb_keys_longest_chain(const struct amb_keys *keys)
{
    uint32_t longest = 0;
    for (uint32_t i = 0; i <= keys->mask; i++) {
        uint32_t length = 0;
        for (const struct key *key = keys->buckets[i]; key != NULL; key = key->next) {
            length++;
        }
        longest = length > longest ? length : longest;
    }
    return longest;
}

/* The first place whose number is not below that; ages_end: there is none. */
static uint32_t ages_find(const struct amb_keys *keys, uint64_t seq)
{
    uint32_t lo = keys->ages_first, hi = keys->ages_end;
    while (lo < hi) {
        uint32_t middle = lo + (hi - lo) / 2;
        if (keys->ages[middle].seq < seq) {
            lo = middle + 1;
        } else {
            hi = middle;
        }
    }
    return lo;
}

/* The first of a key from there on; ages_end: there is none. A run that is over is walked once. */
static uint32_t ages_live(struct amb_keys *keys, uint32_t from)
{
    uint32_t at = from;
    while (at < keys->ages_end && keys->ages[at].key == NULL) {
        at = keys->ages[at].skip > at ? keys->ages[at].skip : at + 1;
    }
    if (at > from) {
        keys->ages[from].skip = at;
    }
    return at;
}

enum amb_status amb_keys_read(struct amb_keys *keys, uint64_t *from, uint64_t upto,
                              struct amb_entry **out)
{
    uint32_t at = ages_live(keys, ages_find(keys, *from));
    if (at == keys->ages_end || keys->ages[at].seq >= upto) {
        return AMB_ENOTFOUND;
    }
    const struct key *key = keys->ages[at].key;
    *from = key->seq + 1;
    if (key->entry->count == 1) {
        amb_entry_ref(key->entry);
        *out = key->entry;
        return AMB_OK;
    }
    *out = amb_slice_copy(keys->shard, key->entry, key->index, 1);
    return *out != NULL ? AMB_OK : AMB_ENOMEM;
}
