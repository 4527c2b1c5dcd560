/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A service that answers with what it is asked, for tests and fuzzers of the doors. One verb for
 * every kind of call:
 *
 *   KeyService/ListKeys       unary, also by GET: next_page_token is the owner asked for
 *   FileService/RemoveFile    unary, held until echo_release (an id of "now" answers at once)
 *   FileService/ReadFile      streams `length` bytes in messages of `offset` bytes (or 32 KiB)
 *   FileService/WriteFile     client stream: bytes_written and, in entries_written, messages
 *   ProcessService/Terminal   both ways: every input comes back as output
 *
 *   KeyService/FindCaller     who holds the secret, as the doors are told
 *
 * The secret "good" opens it: at once, or when echo_tell says so (`thinks`). So does "trusted",
 * whose holder may vouch for callers.
 */

#include "api/service.h"

enum { ECHO_HELD_MAX = 64 };

struct echo {
    struct cay_service service; /* first */
    struct cay_call *held[ECHO_HELD_MAX];
    size_t held_count;
    size_t cancelled_count;
    size_t open_count;  /* calls begun and not answered */
    const char *filler; /* what ReadFile sends, filler_len bytes of it at most per message */
    size_t filler_len;
    bool thinks; /* about who is there, until echo_tell */
    struct cay_whois *asking[ECHO_HELD_MAX];
    bool asking_is_good[ECHO_HELD_MAX];
    size_t asking_count;
};

void echo_init(struct echo *echo);
void echo_finish(struct echo *echo);

/* Answers who was there, to all who asked. */
void echo_tell(struct echo *echo);

/* Answers every held call. */
void echo_release(struct echo *echo);
