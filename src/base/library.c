/* SPDX-License-Identifier: Apache-2.0 */
#include "base/library.h"

#include <dlfcn.h>
#include <pthread.h>

static bool open_library(struct cay_library *library)
{
    void *handle = dlopen(library->soname, RTLD_NOW | RTLD_LOCAL);
    char *place = library->table;
    for (size_t i = 0; i < library->count; i++, place += sizeof(void *)) {
        void *function = handle ? dlsym(handle, library->names[i]) : NULL;
        if (!function) {
            if (handle)
                dlclose(handle);
            return false;
        }
        /* As POSIX has it for dlsym: an object pointer holds a function's. */
        memcpy(place, &function, sizeof(function));
    }
    return true;
}

bool cay_library_load(struct cay_library *library)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    if (atomic_load_explicit(&library->is_there, memory_order_acquire))
        return true;
    pthread_mutex_lock(&lock);
    bool is_there = atomic_load(&library->is_there) || open_library(library);
    atomic_store_explicit(&library->is_there, is_there, memory_order_release);
    pthread_mutex_unlock(&lock);
    return is_there;
}
