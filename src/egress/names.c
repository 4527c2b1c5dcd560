/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/names.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "egress/rules/rules.h"

enum {
    HEADS = 4096,
    IN_USE_S = 120, /* since it was last asked for or connected to: not given to another */
    READ_SLOTS = 16,
};

static size_t hash(const char *name)
{
    uint32_t value = 2166136261u;
    for (; *name; name++)
        value = (value ^ (uint8_t)*name) * 16777619u;
    return value % HEADS;
}

static void link_slot(struct egress_names *names, size_t slot)
{
    uint16_t *head = &names->heads[hash(names->texts[slot])];
    names->next[slot] = *head;
    *head = (uint16_t)(slot + 1);
}

static void unlink_slot(struct egress_names *names, size_t slot)
{
    uint16_t *place = &names->heads[hash(names->texts[slot])];
    while (*place && *place != slot + 1)
        place = &names->next[*place - 1];
    if (*place)
        *place = names->next[slot];
    free(cay_take_ptr(names->texts[slot]));
}

/* Nobody but helpers writes the file, yet one that a sandbox has got hold of may have. */
static void take(struct egress_names *names, size_t slot, const uint8_t *bytes)
{
    char name[CAY_NAME_SIZE];
    const char *why = NULL;
    struct cay_str text = {(const char *)bytes + 1, bytes[0]};
    if (!text.len || text.len > CAY_EGRESS_NAME_BYTES_MAX ||
        !cay_name_normalise(text, name, &why) || !cay_str_is(text, name))
        return;
    names->texts[slot] = cay_strdup(name);
    link_slot(names, slot);
}

static off_t place_in_file(size_t slot)
{
    return CAY_EGRESS_NAMES_AT + (off_t)slot * CAY_EGRESS_NAME_SLOT_BYTES;
}

static int read_all(struct egress_names *names)
{
    uint8_t bytes[READ_SLOTS][CAY_EGRESS_NAME_SLOT_BYTES];
    while (names->count < CAY_EGRESS_NAMES_MAX) {
        ssize_t len = pread(names->fd, bytes, sizeof(bytes), place_in_file(names->count));
        if (len < 0)
            return -errno;
        size_t slots = (size_t)len / CAY_EGRESS_NAME_SLOT_BYTES;
        for (size_t i = 0; i < slots; i++)
            take(names, names->count + i, bytes[i]);
        names->count += slots;
        if (slots < READ_SLOTS)
            return 0;
    }
    return 0;
}

int egress_names_init(struct egress_names *names, int fd)
{
    *names = (struct egress_names){
        .fd = fd,
        .texts = cay_alloc(CAY_EGRESS_NAMES_MAX * sizeof(*names->texts)),
        .next = cay_alloc(CAY_EGRESS_NAMES_MAX * sizeof(*names->next)),
        .used_s = cay_alloc(CAY_EGRESS_NAMES_MAX * sizeof(*names->used_s)),
        .heads = cay_alloc(HEADS * sizeof(*names->heads)),
    };
    return fd < 0 ? 0 : read_all(names);
}

void egress_names_finish(struct egress_names *names)
{
    for (size_t i = 0; names->texts && i < names->count; i++)
        free(names->texts[i]);
    free(names->texts);
    free(names->next);
    free(names->used_s);
    free(names->heads);
    *names = (struct egress_names){.fd = -1};
}

static int keep(const struct egress_names *names, size_t slot, const char *name)
{
    uint8_t bytes[CAY_EGRESS_NAME_SLOT_BYTES] = {(uint8_t)strlen(name)};
    memcpy(bytes + 1, name, bytes[0]);
    if (names->fd < 0)
        return 0;
    ssize_t len = pwrite(names->fd, bytes, sizeof(bytes), place_in_file(slot));
    return len == (ssize_t)sizeof(bytes) ? 0 : len < 0 ? -errno : -ENOSPC;
}

/* A place for one more: a new one, or that of the name which was not needed for longest. */
static int find_place(const struct egress_names *names, uint32_t now_s)
{
    size_t oldest = 0;
    if (names->count < CAY_EGRESS_NAMES_MAX)
        return (int)names->count;
    for (size_t i = 0; i < names->count; i++) {
        if (!names->texts[i])
            return (int)i;
        if (names->used_s[i] < names->used_s[oldest])
            oldest = i;
    }
    return now_s - names->used_s[oldest] < IN_USE_S ? -ENOSPC : (int)oldest;
}

int egress_names_give(struct egress_names *names, const char *name, uint32_t now_s)
{
    for (size_t place = names->heads[hash(name)]; place; place = names->next[place - 1]) {
        if (strcmp(names->texts[place - 1], name) == 0) {
            names->used_s[place - 1] = now_s;
            return (int)place - 1;
        }
    }
    int slot = find_place(names, now_s);
    if (slot < 0)
        return slot;
    int status = keep(names, (size_t)slot, name);
    if (status < 0)
        return status;
    if (names->texts[slot])
        unlink_slot(names, (size_t)slot);
    names->texts[slot] = cay_strdup(name);
    names->used_s[slot] = now_s;
    names->count = CAY_MAX(names->count, (size_t)slot + 1);
    link_slot(names, (size_t)slot);
    return slot;
}

const char *egress_names_of(struct egress_names *names, uint32_t slot, uint32_t now_s)
{
    if (slot >= names->count || !names->texts[slot])
        return NULL;
    names->used_s[slot] = now_s;
    return names->texts[slot];
}

void egress_names_read_totals(const struct egress_names *names, struct cay_egress_totals *out)
{
    uint8_t bytes[CAY_EGRESS_TOTALS_BYTES];
    *out = (struct cay_egress_totals){};
    if (names->fd >= 0 && pread(names->fd, bytes, sizeof(bytes), 0) == sizeof(bytes))
        cay_egress_totals_read(bytes, out);
}

void egress_names_keep_totals(const struct egress_names *names,
                              const struct cay_egress_totals *totals)
{
    uint8_t bytes[CAY_EGRESS_TOTALS_BYTES];
    cay_egress_totals_write(totals, bytes);
    if (names->fd >= 0)
        (void)!pwrite(names->fd, bytes, sizeof(bytes), 0); /* a full disk: the daemon has them */
}
