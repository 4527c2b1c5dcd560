/* SPDX-License-Identifier: Apache-2.0 */
#include "host/store/diff_touched.h"

#include <stdlib.h>

static uint64_t *slot_of(uint64_t *slots, size_t cap, uint64_t ino)
{
    size_t at = (ino * 0x9E3779B97F4A7C15u >> 20) & (cap - 1);
    while (slots[at] && slots[at] != ino)
        at = (at + 1) & (cap - 1);
    return &slots[at];
}

bool cay_ino_set_add(struct cay_ino_set *set, uint64_t ino)
{
    if (set->count * 2 >= set->cap) {
        size_t cap = CAY_MAX(set->cap * 2, (size_t)256);
        uint64_t *slots = cay_alloc(cap * sizeof(*slots));
        for (size_t i = 0; i < set->cap; i++) {
            if (set->slots[i])
                *slot_of(slots, cap, set->slots[i]) = set->slots[i];
        }
        free(set->slots);
        set->slots = slots;
        set->cap = cap;
    }
    uint64_t *slot = slot_of(set->slots, set->cap, ino);
    if (*slot)
        return false;
    *slot = ino;
    set->count++;
    return true;
}

bool cay_ino_set_has(const struct cay_ino_set *set, uint64_t ino)
{
    return set->cap && *slot_of(set->slots, set->cap, ino) != 0;
}

void cay_ino_set_finish(struct cay_ino_set *set)
{
    free(set->slots);
    *set = (struct cay_ino_set){};
}

void cay_diff_touched_finish(struct cay_diff_touched *touched)
{
    cay_ino_set_finish(&touched->inodes);
    cay_ino_set_finish(&touched->moved);
}

int cay_diff_touched_names(const struct cay_diff_touched *touched, int from_fd, int to_fd,
                           struct cay_dir_list *out_names)
{
    cay_auto(cay_dir_list_finish) struct cay_dir_list from = {.has_inodes = true};
    cay_auto(cay_dir_list_finish) struct cay_dir_list to = {.has_inodes = true};
    int rc = cay_dir_list_read(&from, from_fd);
    if (!rc)
        rc = cay_dir_list_read(&to, to_fd);
    cay_dir_list_sort(&from);
    cay_dir_list_sort(&to);
    size_t a = 0;
    size_t b = 0;
    while (!rc && (a < from.count || b < to.count)) {
        int order = 0;
        if (a < from.count && b < to.count)
            order = strcmp(cay_dir_list_name(&from, a), cay_dir_list_name(&to, b));
        else
            order = a < from.count ? -1 : 1;
        uint64_t ino = order < 0 ? 0 : cay_dir_list_ino(&to, b);
        bool is_same = order == 0 && cay_dir_list_ino(&from, a) == ino &&
                       !cay_ino_set_has(&touched->inodes, ino);
        if (!is_same)
            rc = cay_dir_list_add(out_names, order > 0 ? cay_dir_list_name(&to, b)
                                                       : cay_dir_list_name(&from, a));
        a += order <= 0;
        b += order >= 0;
    }
    return rc;
}
