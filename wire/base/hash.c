/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The map's table is a power of two of {hash, entry} slots, at most three quarters full. A
 * collision goes to the next slot, and a removal shifts the run behind it back. So there are no
 * tombstones, and a map that lives long stays as fast as a fresh one.
 */
#include "wire/base/hash.h"
#include "wire/base/assert.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define MAP_SLOTS_MIN 16u

struct map_entry {
    void *value;
    size_t key_len;
    char key[]; /* and a NUL */
};

struct map_slot {
    uint64_t hash;
    struct map_entry *entry; /* NULL: free */
};

struct amb_map {
    struct map_slot *slots;
    size_t mask, count;
    uint8_t hash_key[16];
};

static uint64_t rotl(uint64_t x, unsigned bits)
{
    return (x << bits) | (x >> (64 - bits));
}

static uint64_t load_le64(const uint8_t *p)
{
    uint64_t x = 0;
    for (unsigned i = 0; i < 8; i++) {
        x |= (uint64_t)p[i] << (8 * i);
    }
    return x;
}

static void sip_rounds(uint64_t v[4], unsigned rounds)
{
    for (unsigned i = 0; i < rounds; i++) {
        v[0] += v[1];
        v[1] = rotl(v[1], 13) ^ v[0];
        v[0] = rotl(v[0], 32);
        v[2] += v[3];
        v[3] = rotl(v[3], 16) ^ v[2];
        v[0] += v[3];
        v[3] = rotl(v[3], 21) ^ v[0];
        v[2] += v[1];
        v[1] = rotl(v[1], 17) ^ v[2];
        v[2] = rotl(v[2], 32);
    }
}

/* After the reference text: Aumasson and Bernstein, "SipHash: a fast short-input PRF". */
uint64_t amb_siphash24(const uint8_t key[16], const void *data, size_t len)
{
    const uint8_t *bytes = data;
    uint64_t k0 = load_le64(key);
    uint64_t k1 = load_le64(key + 8);
    uint64_t v[4] = {
        k0 ^ UINT64_C(0x736f6d6570736575),
        k1 ^ UINT64_C(0x646f72616e646f6d),
        k0 ^ UINT64_C(0x6c7967656e657261),
        k1 ^ UINT64_C(0x7465646279746573),
    };
    size_t whole = len & ~(size_t)7;
    for (size_t i = 0; i < whole; i += 8) {
        uint64_t word = load_le64(bytes + i);
        v[3] ^= word;
        sip_rounds(v, 2);
        v[0] ^= word;
    }
    uint64_t last = (uint64_t)len << 56;
    for (size_t i = whole; i < len; i++) {
        last |= (uint64_t)bytes[i] << (8 * (i - whole));
    }
    v[3] ^= last;
    sip_rounds(v, 2);
    v[0] ^= last;
    v[2] ^= 0xff;
    sip_rounds(v, 4);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

void amb_random_bytes(void *out, size_t len)
{
    uint8_t *at = out;
    while (len > 0) {
        ssize_t got = getrandom(at, len, 0);
        if (got < 0) {
            amb_assert(errno == EINTR);
            continue;
        }
        at += got;
        len -= (size_t)got;
    }
}

enum amb_status amb_map_create(struct amb_map **out)
{
    struct amb_map *map = calloc(1, sizeof(*map));
    if (map == NULL) {
        return AMB_ENOMEM;
    }
    map->slots = calloc(MAP_SLOTS_MIN, sizeof(*map->slots));
    if (map->slots == NULL) {
        free(map);
        return AMB_ENOMEM;
    }
    map->mask = MAP_SLOTS_MIN - 1;
    amb_random_bytes(map->hash_key, sizeof(map->hash_key));
    *out = map;
    return AMB_OK;
}

void amb_map_destroy(struct amb_map **map)
{
    if (map == NULL || *map == NULL) {
        return;
    }
    for (size_t i = 0; i <= (*map)->mask; i++) {
        free((*map)->slots[i].entry);
    }
    free((*map)->slots);
    free(*map);
    *map = NULL;
}

/* The slot of the key, or the free slot where it would go. There is always a free slot. */
static size_t find_slot(const struct amb_map *map, uint64_t hash, const char *key, size_t key_len)
{
    size_t i = (size_t)hash & map->mask;
    for (;; i = (i + 1) & map->mask) {
        const struct map_slot *slot = &map->slots[i];
        if (slot->entry == NULL ||
            (slot->hash == hash && slot->entry->key_len == key_len &&
             (key_len == 0 || memcmp(slot->entry->key, key, key_len) == 0))) {
            return i;
        }
    }
}

static enum amb_status grow(struct amb_map *map)
{
    size_t slots_new = (map->mask + 1) * 2;
    struct map_slot *slots = calloc(slots_new, sizeof(*slots));
    if (slots == NULL) {
        return AMB_ENOMEM;
    }
    for (size_t i = 0; i <= map->mask; i++) {
        if (map->slots[i].entry == NULL) {
            continue;
        }
        size_t to = (size_t)map->slots[i].hash & (slots_new - 1);
        while (slots[to].entry != NULL) {
            to = (to + 1) & (slots_new - 1);
        }
        slots[to] = map->slots[i];
    }
    free(map->slots);
    map->slots = slots;
    map->mask = slots_new - 1;
    return AMB_OK;
}

enum amb_status amb_map_put(struct amb_map *map, const char *key, size_t key_len, void *value)
{
    uint64_t hash = amb_siphash24(map->hash_key, key, key_len);
    size_t i = find_slot(map, hash, key, key_len);
    if (map->slots[i].entry != NULL) {
        return AMB_ESTATE;
    }
    if (key_len > SIZE_MAX - sizeof(struct map_entry) - 1) {
        return AMB_ENOMEM;
    }
    struct map_entry *entry = malloc(sizeof(*entry) + key_len + 1);
    if (entry == NULL) {
        return AMB_ENOMEM;
    }
    if (map->count + 1 > (map->mask + 1) / 4 * 3) {
        if (grow(map) != AMB_OK) {
            free(entry);
            return AMB_ENOMEM;
        }
        i = find_slot(map, hash, key, key_len);
    }
    entry->value = value;
    entry->key_len = key_len;
    if (key_len > 0) {
        memcpy(entry->key, key, key_len);
    }
    entry->key[key_len] = '\0';
    map->slots[i] = (struct map_slot){.hash = hash, .entry = entry};
    map->count++;
    return AMB_OK;
}

void *amb_map_get(const struct amb_map *map, const char *key, size_t key_len)
{
    uint64_t hash = amb_siphash24(map->hash_key, key, key_len);
    const struct map_entry *entry = map->slots[find_slot(map, hash, key, key_len)].entry;
    return entry != NULL ? entry->value : NULL;
}

void *amb_map_remove(struct amb_map *map, const char *key, size_t key_len)
{
    uint64_t hash = amb_siphash24(map->hash_key, key, key_len);
    size_t hole = find_slot(map, hash, key, key_len);
    struct map_entry *entry = map->slots[hole].entry;
    if (entry == NULL) {
        return NULL;
    }
    void *value = entry->value;
    free(entry);
    /* Close the hole: each entry of the run moves into it unless that would put it before its
     * home slot. Distances are taken backwards round the table. */
    for (size_t i = (hole + 1) & map->mask; map->slots[i].entry != NULL; i = (i + 1) & map->mask) {
        size_t home = (size_t)map->slots[i].hash & map->mask;
        if (((i - home) & map->mask) >= ((i - hole) & map->mask)) {
            map->slots[hole] = map->slots[i];
            hole = i;
        }
    }
    map->slots[hole].entry = NULL;
    map->count--;
    return value;
}

size_t amb_map_count(const struct amb_map *map)
{
    return map->count;
}

void amb_map_each(const struct amb_map *map, bool (*fn)(const char *key, void *value, void *arg),
                  void *arg)
{
    for (size_t i = 0; i <= map->mask; i++) {
        const struct map_entry *entry = map->slots[i].entry;
        if (entry != NULL && !fn(entry->key, entry->value, arg)) {
            return;
        }
    }
}
