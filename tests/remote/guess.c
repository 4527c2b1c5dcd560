/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/remote/guess.h"

#include <stdlib.h>

static struct cay_service_ops ops;
static struct cay_loop *loop;
static const char *key;

struct guess {
    struct cay_task task;
    struct cay_whois *whois; /* NULL: nobody waits */
    bool is_key;
};

static void answer(struct cay_task *task)
{
    static const struct cay_caller tester = {
        .role = CAY_ROLE_USER, .owner = "tester", .key_id = "key-1"};
    struct guess *guess = CAY_CONTAINER_OF(task, struct guess, task);
    struct cay_whois *whois = guess->whois;
    bool is_key = guess->is_key;
    struct cay_error err = {};
    cay_fail(&err, CAY_R_UNAUTHENTICATED, "this is not the key");
    free(guess);
    if (whois)
        cay_whois_answer(whois, is_key ? &tester : NULL, is_key ? NULL : &err);
}

static void authenticate(struct cay_service *, struct cay_str secret, struct cay_whois *whois)
{
    struct guess *guess = cay_new(struct guess);
    guess->task.run = answer;
    guess->whois = whois;
    guess->is_key = key && cay_str_is(secret, key);
    whois->state = guess;
    cay_loop_post(loop, &guess->task);
}

static void forget(struct cay_service *, struct cay_whois *whois)
{
    struct guess *guess = whois->state;
    guess->whois = NULL;
}

void guess_init(struct cay_service *service, struct cay_loop *on_loop, const char *own_key)
{
    loop = on_loop;
    key = own_key;
    ops = *service->ops;
    ops.authenticate = authenticate;
    ops.forget = forget;
    service->ops = &ops;
}
