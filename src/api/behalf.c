/* SPDX-License-Identifier: Apache-2.0 */
#include "api/behalf.h"

#include <stddef.h>
#include <stdio.h>

/* What there is to say, but for the role. */
static const struct part {
    const char *name;
    size_t offset;
    size_t size; /* 0: a word, which is there or not */
} parts[] = {
    {"owner", offsetof(struct cay_caller, owner), CAY_ID_SIZE},
    {"key", offsetof(struct cay_caller, key_id), sizeof(((struct cay_caller *)0)->key_id)},
    {"session", offsetof(struct cay_caller, session_id), CAY_ID_SIZE},
    {"local", offsetof(struct cay_caller, is_local), 0},
    {"door", offsetof(struct cay_caller, is_door), 0},
};

void cay_behalf_write(const struct cay_caller *caller, struct cay_buf *out)
{
    cay_buf_printf(out, "role=%s", caller->role == CAY_ROLE_ADMIN ? "admin" : "user");
    for (size_t i = 0; i < CAY_COUNT(parts); i++) {
        const char *field = (const char *)caller + parts[i].offset;
        if (parts[i].size && *field)
            cay_buf_printf(out, "; %s=%s", parts[i].name, field);
        else if (!parts[i].size && *(const bool *)field)
            cay_buf_printf(out, "; %s", parts[i].name);
    }
}

static bool read_role(struct cay_str value, struct cay_caller *caller)
{
    if (caller->role)
        return false;
    caller->role = cay_str_is(value, "admin")  ? CAY_ROLE_ADMIN
                   : cay_str_is(value, "user") ? CAY_ROLE_USER
                                               : 0;
    return caller->role != 0;
}

static bool read_part(struct cay_str name, struct cay_str value, struct cay_caller *caller)
{
    if (cay_str_is(name, "role"))
        return read_role(value, caller);
    for (size_t i = 0; i < CAY_COUNT(parts); i++) {
        char *field = (char *)caller + parts[i].offset;
        if (!cay_str_is(name, parts[i].name) || *field)
            continue;
        if (!parts[i].size) {
            *(bool *)field = true;
            return !value.ptr;
        }
        if (!cay_id_valid(value) || value.len >= parts[i].size)
            return false;
        memcpy(field, value.ptr, value.len);
        return true;
    }
    return false;
}

bool cay_behalf_read(struct cay_str text, struct cay_caller *out_caller, struct cay_error *err)
{
    struct cay_caller caller = {};
    struct cay_str item;
    bool is_good = text.len > 0;
    while (is_good && cay_str_split(&text, ';', &item)) {
        struct cay_str value = cay_str_trim(item);
        struct cay_str name = {};
        is_good = cay_str_split(&value, '=', &name) && read_part(name, value, &caller);
    }
    if (!is_good || !caller.role || !caller.owner[0])
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        CAY_BEHALF_HEADER ": 'role=user; owner=OWNER', then key=ID, session=ID, "
                                          "local or door, each once at most");
    *out_caller = caller;
    return true;
}
