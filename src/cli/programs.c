/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/programs.h"

#include <limits.h>
#include <unistd.h>

enum { PLACES = 3 };

/* As it is built, as it is installed next to us, as it was to be installed. */
static const char *const places[][PLACES] = {
    [CAY_PROGRAM_DAEMON] = {"cayd", "../sbin/cayd"},
    [CAY_PROGRAM_PROBE] = {"../probe/cay-probe", "../libexec/cay/cay-probe",
                           CAY_LIBEXECDIR "/cay/cay-probe"},
};

const char *cay_program_find(struct cay_arena *arena, enum cay_program program)
{
    char self[PATH_MAX];
    ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);
    const char *slash = len > 0 ? memrchr(self, '/', (size_t)len) : NULL;
    for (size_t i = 0; i < PLACES && places[program][i]; i++) {
        const char *place = places[program][i];
        const char *path = NULL;
        if (place[0] == '/')
            path = cay_arena_copy(arena, cay_str(place));
        else if (slash)
            path = cay_arena_printf(arena, "%.*s/%s", (int)(slash - self), self, place);
        if (path && access(path, X_OK) == 0)
            return path;
    }
    return NULL;
}
