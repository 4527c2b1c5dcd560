/* SPDX-License-Identifier: Apache-2.0 */
#include "host/exec/once.h"

#include <stdio.h>
#include <stdlib.h>

#include "api/limits.h"
#include "base/hash.h"

struct cay_once {
    struct cay_list_node in_table; /* linked while the table knows it */
    struct cay_once_table *table;
    char id[CAY_ID_SIZE];
    uint64_t digest; /* of the request */
    bool is_running;
    struct cay_buf result;
    struct cay_list waiters;
};

void cay_once_init(struct cay_once_table *table)
{
    *table = (struct cay_once_table){};
    cay_list_init(&table->calls);
}

static void unlink_once(struct cay_once *once)
{
    if (!once->table)
        return;
    cay_list_remove(&once->in_table);
    once->table->count--;
    once->table = NULL;
}

/* One that runs is freed by who runs it. */
static void drop(struct cay_once *once)
{
    unlink_once(once);
    if (once->is_running)
        return;
    cay_buf_finish(&once->result);
    free(once);
}

void cay_once_finish(struct cay_once_table *table)
{
    cay_list_for_each (struct cay_once, once, &table->calls, in_table)
        drop(once);
}

static void drop_oldest(struct cay_once_table *table)
{
    cay_list_for_each (struct cay_once, once, &table->calls, in_table) {
        if (table->count <= CAY_ONCE_RESULTS_MAX)
            return;
        if (!once->is_running)
            drop(once);
    }
}

static struct cay_once *find(const struct cay_once_table *table, struct cay_str id)
{
    cay_list_for_each (struct cay_once, once, &table->calls, in_table) {
        if (cay_str_is(id, once->id))
            return once;
    }
    return NULL;
}

static bool digest_of(const struct cay_v1_tool_call *request, uint64_t *out_digest)
{
    static const uint64_t key[2] = {0x6f6e6365, 0x63616c6c}; /* compares, protects nothing */
    cay_auto(cay_buf_finish) struct cay_buf bytes;
    cay_buf_init(&bytes, (size_t)2 * CAY_LIMIT_MESSAGE_BYTES);
    if (cay_pb_encode(&cay_v1_tool_call_desc, request, &bytes) < 0)
        return false;
    *out_digest = cay_hash(key, cay_buf_str(&bytes));
    return true;
}

static void answer_kept(const struct cay_once *once, struct cay_once_waiter *waiter)
{
    struct cay_v1_tool_result result = {};
    struct cay_error err = {};
    bool is_good = cay_pb_decode(&cay_v1_tool_result_desc, cay_buf_str(&once->result),
                                 &waiter->call->arena, &result) == 0;
    if (!is_good)
        cay_fail(&err, CAY_R_MESSAGE_TOO_LARGE, NULL);
    waiter->answer(waiter, is_good ? &result : NULL, is_good ? NULL : &err);
}

bool cay_once_begin(struct cay_once_table *table, const struct cay_v1_tool_call *request,
                    struct cay_once_waiter *waiter, struct cay_once **out_mine,
                    struct cay_error *err)
{
    uint64_t digest = 0;
    *out_mine = NULL;
    if (!digest_of(request, &digest))
        return cay_fail(err, CAY_R_MESSAGE_TOO_LARGE, NULL);
    struct cay_once *once = find(table, request->tool_call_id);
    if (once && once->digest != digest)
        return cay_fail(err, CAY_R_ALREADY_EXISTS,
                        "call.tool_call_id: '%s' was another call; every call has its own id",
                        once->id);
    if (once) {
        if (once->is_running)
            cay_list_push_back(&once->waiters, &waiter->in_once);
        else
            answer_kept(once, waiter);
        return true;
    }
    once = cay_new(struct cay_once);
    once->table = table;
    once->digest = digest;
    once->is_running = true;
    snprintf(once->id, sizeof(once->id), "%.*s", (int)request->tool_call_id.len,
             request->tool_call_id.ptr);
    cay_buf_init(&once->result, CAY_ONCE_RESULT_BYTES_MAX);
    cay_list_init(&once->waiters);
    cay_list_push_back(&table->calls, &once->in_table);
    table->count++;
    drop_oldest(table);
    *out_mine = once;
    return true;
}

void cay_once_end(struct cay_once *once, const struct cay_v1_tool_result *result,
                  const struct cay_error *err)
{
    struct cay_error too_large = {};
    if (!once)
        return;
    once->is_running = false;
    bool is_encoded = result && cay_pb_encode(&cay_v1_tool_result_desc, result, &once->result) == 0;
    if (result && !is_encoded) {
        cay_fail(&too_large, CAY_R_RESOURCE_EXHAUSTED,
                 "the result of the call it joined is too large to be kept");
        err = &too_large;
    }
    for (struct cay_list_node *node; (node = cay_list_pop_front(&once->waiters));) {
        struct cay_once_waiter *waiter = CAY_CONTAINER_OF(node, struct cay_once_waiter, in_once);
        if (is_encoded)
            answer_kept(once, waiter);
        else
            waiter->answer(waiter, NULL, err);
    }
    if (!is_encoded || !once->table)
        drop(once);
}
