/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What every function of include/cay does first with what its caller gave it. A caller may have
 * been built with an older or a newer header, and may give NULL, nothing or nonsense: that is an
 * error, never a crash.
 *
 *     struct cay_error spare;
 *     err = cay_entry_error(err, &spare);
 *     struct cay_env_config config;
 *     if (!cay_sized_take(given, &config, sizeof(config), "config", err))
 *         return false;
 */

#include "base/error.h"
#include "cay/api.h"

/* `err`, or `spare` where the caller does not want to know. */
[[nodiscard]] static inline struct cay_error *cay_entry_error(struct cay_error *err,
                                                              struct cay_error *spare)
{
    return err ? err : spare;
}

/* Text that must be there. */
[[nodiscard]] bool cay_entry_text(const char *text, const char *what, struct cay_error *err);

/* Text that may be NULL. What goes over a wire is UTF-8: anything else would arrive as something
 * else. */
[[nodiscard]] bool cay_entry_word(const char *text, const char *what, struct cay_error *err);

/* Names, of which none may be empty, with values. */
[[nodiscard]] bool cay_entry_pairs(const struct cay_pair *pairs, size_t count, const char *what,
                                   struct cay_error *err);

/* `prefix` and 16 random letters and digits, for ids that are made here. `size` has room for both
 * and a NUL. False when the kernel has nothing random to give. */
[[nodiscard]] bool cay_entry_id(char *out, size_t size, const char *prefix, struct cay_error *err);
