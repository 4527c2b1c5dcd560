/* SPDX-License-Identifier: Apache-2.0 */
#include "host/build/build_files.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    KEPT_MS = 15 * 60 * 1000,
    LOOK_MS = 60 * 1000,
};

void cay_build_file_unref(struct cay_build_file *file)
{
    if (!file || --file->refs)
        return;
    cay_passing_end(&file->passing);
    free(file);
}

static void drop(struct cay_build_file *file)
{
    cay_list_remove(&file->in_table);
    cay_build_file_unref(file);
}

static void on_look(struct cay_timer *timer)
{
    struct cay_build_files *files = CAY_CONTAINER_OF(timer, struct cay_build_files, timer);
    uint64_t now_ms = cay_loop_now_ms(files->loop);
    cay_list_for_each (struct cay_build_file, file, &files->list, in_table) {
        if (now_ms - file->used_ms > KEPT_MS)
            drop(file);
    }
    if (cay_list_empty(&files->list))
        cay_timer_stop(&files->timer);
}

struct cay_build_files *cay_build_files_create(struct cay_loop *loop)
{
    struct cay_build_files *files = cay_new(struct cay_build_files);
    files->loop = loop;
    cay_list_init(&files->list);
    cay_timer_open(&files->timer, loop, on_look);
    return files;
}

void cay_build_files_destroy(struct cay_build_files *files)
{
    cay_timer_close(&files->timer);
    cay_list_for_each (struct cay_build_file, file, &files->list, in_table)
        drop(file);
    free(files);
}

static struct cay_build_file *find(const struct cay_build_files *files, const char *owner,
                                   struct cay_str key)
{
    cay_list_for_each (struct cay_build_file, file, &files->list, in_table) {
        if (strcmp(file->owner, owner) == 0 && cay_str_is(key, file->key))
            return file;
    }
    return NULL;
}

/* Until one more fits. */
static void make_room(struct cay_build_files *files, const char *owner, int64_t bytes)
{
    size_t own = 0;
    size_t all = 0;
    cay_list_for_each (const struct cay_build_file, file, &files->list, in_table) {
        bool is_own = strcmp(file->owner, owner) == 0;
        all++;
        own += is_own;
        bytes += is_own ? file->bytes : 0;
    }
    cay_list_for_each (struct cay_build_file, file, &files->list, in_table) {
        bool is_own = strcmp(file->owner, owner) == 0;
        bool is_in_the_way = all >= CAY_BUILD_FILES_IN_ALL;
        if (is_own)
            is_in_the_way = is_in_the_way || own >= CAY_BUILD_FILES_OF_OWNER ||
                            bytes > CAY_BUILD_FILES_BYTES_OF_OWNER;
        if (!is_in_the_way)
            continue;
        all--;
        own -= is_own;
        bytes -= is_own ? file->bytes : 0;
        drop(file);
    }
}

bool cay_build_files_drop_one(struct cay_build_files *files, const char *owner)
{
    cay_list_for_each (struct cay_build_file, file, &files->list, in_table) {
        if (file->refs > 1 || strcmp(file->owner, owner) != 0)
            continue;
        drop(file);
        return true;
    }
    return false;
}

static void touch(struct cay_build_files *files, struct cay_build_file *file)
{
    file->used_ms = cay_loop_now_ms(files->loop);
    cay_list_remove(&file->in_table);
    cay_list_push_back(&files->list, &file->in_table);
}

void cay_build_files_put(struct cay_build_files *files, const char *owner, struct cay_str key,
                         struct cay_passing *passing, int64_t bytes)
{
    struct cay_build_file *old = find(files, owner, key);
    if (old)
        drop(old);
    make_room(files, owner, bytes);
    struct cay_build_file *file = cay_new(struct cay_build_file);
    snprintf(file->owner, sizeof(file->owner), "%s", owner);
    snprintf(file->key, sizeof(file->key), "%.*s", (int)key.len, key.ptr);
    cay_passing_move(passing, &file->passing);
    file->bytes = bytes;
    file->refs = 1;
    if (cay_list_empty(&files->list))
        cay_timer_start(&files->timer, LOOK_MS, LOOK_MS);
    touch(files, file);
}

const struct cay_build_file *cay_build_files_find(struct cay_build_files *files, const char *owner,
                                                  struct cay_str key)
{
    struct cay_build_file *file = find(files, owner, key);
    if (file)
        touch(files, file);
    return file;
}

struct cay_build_file *cay_build_files_ref(struct cay_build_files *files, const char *owner,
                                           struct cay_str key)
{
    struct cay_build_file *file = find(files, owner, key);
    if (!file)
        return NULL;
    touch(files, file);
    file->refs++;
    return file;
}
