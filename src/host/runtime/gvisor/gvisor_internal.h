/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the files of this room share. */

#include "host/runtime/resident.h"
#include "wire/frame/pipe.h"

/* Where runsc finds a sandbox's directory: in a mount namespace of its own, over a directory that
 * every machine has and that everybody may look things up in. */
#define GVISOR_PLACE "/tmp"

enum {
    GVISOR_ID_BYTES = 24,     /* of a sandbox as runsc knows it, all of one length */
    GVISOR_ERROR_AT = 4096,   /* what runsc complains of, behind the page */
    GVISOR_TIMEOUT_MS = 30000 /* of runsc, and of setup */
};

struct gvisor {
    struct cay_resident resident;
    int dir_fd; /* its directory */
    struct cay_pipe_page *page;
    int from_fd; /* pipes it was started with, until somebody takes them; or -1 */
    int to_fd;
    pid_t gofer;
    int gofer_pidfd; /* -1: not known */
};

static inline struct gvisor *gvisor_of(struct cay_sandbox *sandbox)
{
    return CAY_CONTAINER_OF(CAY_CONTAINER_OF(sandbox, struct cay_resident, base), struct gvisor,
                            resident);
}

/* place.c: the directory of a sandbox, which has all of it that is a file. 0, a descriptor or
 * -errno. */
void gvisor_place_name(const char *id, char *out_name, size_t size);
void gvisor_runsc_id(const char *id, char out_id[static GVISOR_ID_BYTES]);
[[nodiscard]] int gvisor_place_make(const struct cay_resident_runtime *runtime,
                                    const struct cay_sandbox_spec *spec);
[[nodiscard]] int gvisor_place_open(const struct cay_resident_runtime *runtime, const char *id);
void gvisor_place_remove(const struct cay_resident_runtime *runtime, const char *id);
[[nodiscard]] struct cay_pipe_page *gvisor_place_map(int dir_fd);
/* The daemon's ends of the pipes. */
[[nodiscard]] int gvisor_place_open_pipes(int dir_fd, int *out_from_fd, int *out_to_fd);
/* A file of a few numbers. -ENOENT, -EBADMSG */
[[nodiscard]] int gvisor_place_read(int dir_fd, const char *name, char *out, size_t size);
[[nodiscard]] int gvisor_place_write(int dir_fd, const char *name, const char *text, size_t len);

/* runsc.c: starts the sandbox of a directory. *out_pid is the one of its first process on the host,
 * *out_gofer of the one that opens files for it. */
[[nodiscard]] bool gvisor_run(const struct gvisor *gvisor, int netns_fd, int userns_fd,
                              pid_t *out_pid, pid_t *out_gofer, struct cay_error *err);

/* tree.c */
[[nodiscard]] int gvisor_tree_open(const struct gvisor *gvisor);
/* A mount of the session's tree that is ours to attach, with what is mounted on in it. */
[[nodiscard]] bool gvisor_tree_prepare(const struct cay_sandbox_spec *spec, int userns_fd,
                                       int *out_fd, struct cay_error *err);
[[nodiscard]] int gvisor_tree_attach(const struct gvisor *gvisor, int root_fd);
bool gvisor_switch_root(struct cay_sandbox *sandbox, int root_fd, int *out_old_fd,
                        struct cay_error *err);
bool gvisor_is_idle(const struct cay_sandbox *sandbox);
