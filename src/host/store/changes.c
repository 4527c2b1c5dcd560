/* SPDX-License-Identifier: Apache-2.0 */
#include "host/store/changes.h"

#include <stdlib.h>

#include "host/store/base.h"
#include "host/store/diff.h"

void cay_changes_init(struct cay_changes *changes)
{
    *changes = (struct cay_changes){};
    cay_map_init(&changes->by_path);
}

void cay_changes_finish(struct cay_changes *changes)
{
    cay_map_finish(&changes->by_path);
    for (size_t i = 0; i < changes->count; i++) {
        free(changes->items[i].path);
        free(changes->items[i].link);
    }
    free(changes->items);
    free(changes->left_out_first);
    free(changes->left_out_last);
    *changes = (struct cay_changes){};
}

/* Items move when the list grows: the map has their places, counted from 1. */
static struct cay_change *find(const struct cay_changes *changes, const char *path)
{
    uintptr_t at = (uintptr_t)cay_map_get(&changes->by_path, cay_str(path));
    return at ? &changes->items[at - 1] : NULL;
}

static struct cay_change *add(struct cay_changes *changes, const char *path)
{
    struct cay_change *known = find(changes, path);
    if (known)
        return known;
    if (changes->count == changes->cap) {
        changes->cap = CAY_MAX(changes->cap * 2, (size_t)64);
        changes->items = cay_realloc_array(changes->items, changes->cap, sizeof(*changes->items));
    }
    struct cay_change *change = &changes->items[changes->count++];
    *change = (struct cay_change){.path = cay_strdup(path)};
    cay_map_put(&changes->by_path, cay_str(change->path), (void *)(uintptr_t)changes->count);
    return change;
}

/* Of what lies in a directory that is left out, only that is told. */
static void leave_out(struct cay_changes *changes, const char *path)
{
    size_t len = changes->left_out_last ? strlen(changes->left_out_last) : 0;
    if (len && strncmp(path, changes->left_out_last, len) == 0 && path[len] == '/')
        return;
    free(changes->left_out_last);
    changes->left_out_last = cay_strdup(path);
    if (!changes->left_out_first)
        changes->left_out_first = cay_strdup(path);
    changes->left_out++;
}

struct finding {
    struct cay_changes *changes;
    bool has_links; /* something that was touched has other names, wherever these are */
};

static void on_same(void *ctx, const struct stat *after)
{
    struct finding *finding = ctx;
    finding->has_links = finding->has_links || after->st_nlink > 1;
}

static bool on_change(void *ctx, const struct cay_diff_entry *entry)
{
    struct finding *finding = ctx;
    struct cay_changes *changes = finding->changes;
    if (entry->after.dir_fd >= 0 && !S_ISDIR(entry->after.st.st_mode))
        on_same(finding, &entry->after.st);
    if (changes->count >= CAY_BASE_ENTRIES_MAX)
        return false;
    bool is_too_long = strlen(entry->path) >= CAY_LINKS_PATH_MAX;
    if (entry->is_too_deep || is_too_long)
        leave_out(changes, entry->path);
    if (is_too_long)
        return true;
    struct cay_change *change = add(changes, entry->path);
    change->is_deleted = entry->kind == CAY_DIFF_DELETED || entry->kind == CAY_DIFF_TYPE;
    change->is_written = entry->kind != CAY_DIFF_DELETED;
    return true;
}

static void link_to(struct cay_changes *changes, const char *path, const char *leader)
{
    struct cay_change *change = add(changes, path);
    change->is_written = false;
    free(change->link);
    change->link = cay_strdup(leader);
}

/* Names that are one file now and were not, or of which one is written anew: the first of them is
 * written, so that a point can be unpacked by itself, and the others are linked to it. */
static void add_links(struct cay_changes *changes, const struct cay_links *before,
                      const struct cay_links *after)
{
    for (const struct cay_link_group *group = after->groups; group; group = group->next) {
        if (group->count < 2)
            continue;
        const char *leader = group->first->path;
        const struct cay_link_group *old = before ? cay_links_find(before, leader) : NULL;
        bool is_new = false;
        for (const struct cay_link_name *name = group->first; name; name = name->next)
            is_new = is_new || !old || cay_links_find(before, name->path) != old ||
                     find(changes, name->path);
        if (!is_new)
            continue;
        add(changes, leader)->is_written = true;
        for (const struct cay_link_name *name = group->first->next; name; name = name->next)
            link_to(changes, name->path, leader);
    }
}

/* It went with a directory above it. */
static bool is_gone(const struct cay_changes *changes, const char *path)
{
    for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
        const struct cay_str above = {path, (size_t)(slash - path)};
        uintptr_t at = (uintptr_t)cay_map_get(&changes->by_path, above);
        if (at && changes->items[at - 1].is_deleted)
            return true;
    }
    return false;
}

/* Names that were one file and are not any more, though nothing else tells them apart. */
static void part_links(struct cay_changes *changes, const struct cay_links *before,
                       const struct cay_links *after)
{
    for (const struct cay_link_group *group = before->groups; group; group = group->next) {
        if (group->count < 2)
            continue;
        const struct cay_link_group *leader = cay_links_find(after, group->first->path);
        for (const struct cay_link_name *name = group->first->next; name; name = name->next) {
            const struct cay_link_group *now = cay_links_find(after, name->path);
            /* One that has another file's names now was linked to those above. */
            if (!find(changes, name->path) && !is_gone(changes, name->path) &&
                (!now || now != leader) &&
                (!now || now->first == NULL || !strcmp(now->first->path, name->path)))
                add(changes, name->path)->is_written = true;
        }
    }
}

bool cay_changes_find(struct cay_changes *changes, struct cay_store *store,
                      const struct cay_store_ref *from, const struct cay_store_ref *to, int to_fd,
                      const struct cay_links *before, struct cay_links *out_after,
                      struct cay_error *err)
{
    struct finding finding = {.changes = changes};
    const struct cay_diff_request request = {
        .from = *from, .to = *to, .visit = on_change, .same = on_same, .ctx = &finding};
    struct cay_diff_stats stats;
    if (!cay_store_diff(store, &request, &stats, err))
        return false;
    if (changes->count >= CAY_BASE_ENTRIES_MAX)
        return cay_fail(err, CAY_R_RESOURCE_EXHAUSTED, "there are more than %d changes",
                        CAY_BASE_ENTRIES_MAX);
    if (!finding.has_links)
        cay_links_follow(out_after, before, to_fd);
    else if (!cay_links_read(out_after, to_fd, NULL, NULL, err))
        return false;
    part_links(changes, before, out_after);
    add_links(changes, before, out_after);
    return true;
}

static bool on_entry(void *ctx, const char *path, struct cay_error *)
{
    if (strlen(path) >= CAY_LINKS_PATH_MAX)
        leave_out(ctx, path);
    else
        add(ctx, path)->is_written = true;
    return true;
}

bool cay_changes_all(struct cay_changes *changes, int root_fd, struct cay_links *links,
                     struct cay_error *err)
{
    if (!cay_links_read(links, root_fd, on_entry, changes, err))
        return false;
    changes->left_out += links->too_deep;
    add_links(changes, NULL, links);
    return true;
}
