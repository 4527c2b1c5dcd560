/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Configuration from one table. Each entry says how a key is spelled, what it may hold, what it
 * holds by default and what it is for; the parser, --help, the man page and the printed
 * configuration all come from there. Values land in a plain struct of the caller's.
 *
 *     static const struct cay_conf_entry entries[] = {
 *         {CAY_CONF_FIELD(struct daemon_conf, listen), .type = CAY_CONF_STRING,
 *          .fallback = "127.0.0.1:4747", .letter = 'l', .metavar = "ADDR",
 *          .help = "Address and port to serve on."},
 *     };
 *
 * Sources in rising priority: the fallback, the file (`key = value`), the environment (CAY_KEY),
 * flags (--key VALUE, with dashes for underscores). A value never replaces one of a higher source,
 * so sources may be read in any order: flags first, to learn which file to read.
 *
 * Order: init -> load_* -> use the struct -> finish. Errors are CAY_R_INVALID_ARGUMENT with a
 * sentence for people: conf is the one place in this room that speaks to them.
 */

#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"

enum {
    CAY_CONF_FILE_BYTES_MAX = 1 << 20,
    CAY_CONF_VALUE_BYTES_MAX = 4096,
    CAY_CONF_LIST_ITEMS_MAX = 256,
};

/* The comment names the type of the member. A string may be kept as const, for who only reads, and
 * what is bounded to be no less than 0 as unsigned. */
enum cay_conf_type {
    CAY_CONF_STRING = 1, /* char *, NULL when not set; min and max bound its length */
    CAY_CONF_SECRET,     /* struct cay_secret; never printed */
    CAY_CONF_BOOL,       /* bool */
    CAY_CONF_INTEGER,    /* int64_t */
    CAY_CONF_DURATION,   /* int64_t, milliseconds */
    CAY_CONF_SIZE,       /* uint64_t, bytes */
    CAY_CONF_RATIO,      /* double, 0 to 1 */
    CAY_CONF_DECIMAL,    /* double, from min to max */
    CAY_CONF_ENUM,       /* int, the place in choices */
    CAY_CONF_LIST,       /* struct cay_conf_list; commas between items, repeating adds */
};

/* Ordered by priority; also bits for `sources`. */
enum cay_conf_source {
    CAY_CONF_DEFAULT = 1,
    CAY_CONF_FILE = 2,
    CAY_CONF_ENVIRONMENT = 4,
    CAY_CONF_FLAG = 8,
};

struct cay_conf_list {
    char **items;
    size_t count;
};

struct cay_conf_entry {
    const char *key; /* [a-z0-9_] */
    size_t offset;
    size_t size;
    enum cay_conf_type type;
    unsigned sources;           /* where it may be set; 0 for everywhere */
    int64_t min;                /* in the unit of the type */
    int64_t max;                /* min and max both 0: no bounds */
    const char *const *choices; /* ends with NULL; for CAY_CONF_ENUM */
    const char *fallback;       /* as one would write it; NULL leaves the member zeroed */
    const char *help;           /* a sentence, or some */
    const char *metavar;        /* what to call the value in --help; NULL for the type's name */
    char letter;                /* -x; 0 for none */
};

/* Key, place and size of a member, which may be one of an embedded struct. */
#define CAY_CONF_KEY(key_text, struct_type, member)             \
    .key = (key_text), .offset = offsetof(struct_type, member), \
    .size = sizeof(((struct_type *)(0))->member)

/* The same of a member that is called like its key. */
#define CAY_CONF_FIELD(struct_type, member) CAY_CONF_KEY(#member, struct_type, member)

struct cay_conf_origin;

struct cay_conf {
    const struct cay_conf_entry *entries; /* the caller's, as long as the conf */
    size_t count;
    void *target; /* the caller's */
    struct cay_conf_origin *origins;
};

/* Zeroes the target and fills in the fallbacks. Asserts that the table is sound. */
void cay_conf_init(struct cay_conf *conf, const struct cay_conf_entry *entries, size_t count,
                   void *target, size_t target_size);

/* Also frees and zeroes what the target's members own. */
void cay_conf_finish(struct cay_conf *conf);

/* err->sys_errno is ENOENT when there is no such file: the caller knows whether it must be there.
 */
[[nodiscard]] bool cay_conf_load_file(struct cay_conf *conf, const char *path,
                                      struct cay_error *err);

/* Every variable that begins with CAY_ must be a key or stand in `ignored` (ends with NULL; may be
 * NULL), which holds the variables of other programs. An empty variable counts as not set. */
[[nodiscard]] bool cay_conf_load_environment(struct cay_conf *conf, const char *const *environment,
                                             const char *const *ignored, struct cay_error *err);

/* Reads flags from argv[1] on. Stops at the first word that is none, or after "--", and gives its
 * place. */
[[nodiscard]] bool cay_conf_load_flags(struct cay_conf *conf, int argc, const char *const *argv,
                                       int *out_rest, struct cay_error *err);

/* Where the present value of a key comes from; the key must be in the table. */
[[nodiscard]] enum cay_conf_source cay_conf_source_of(const struct cay_conf *conf, const char *key);

/* The configuration in effect, as a file that could be loaded, with the source of every value. */
void cay_conf_print(const struct cay_conf *conf, struct cay_buf *out);

/* The table for --help and for man pages (scdoc). The latter tell of what a file can hold. */
void cay_conf_print_help(const struct cay_conf_entry *entries, size_t count, struct cay_buf *out);
void cay_conf_print_scdoc(const struct cay_conf_entry *entries, size_t count, struct cay_buf *out);
