/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Every bound on what a peer can make us hold or do. A limit lives here when it is part of what
 * callers see or when several rooms must agree on it; a parser's own small limits stand beside the
 * parser.
 */

/* clang-format off */
enum {
    /* HTTP */
    CAY_LIMIT_HEAD_BYTES          = 32 * 1024,        /* request line and header fields */
    CAY_LIMIT_HEADER_COUNT        = 100,
    CAY_LIMIT_HINTS               = 32,               /* heads with a status of 1xx before an answer's own */
    CAY_LIMIT_H2_STREAMS          = 128,              /* at once on one connection */
    CAY_LIMIT_H2_WINDOW_BYTES     = 256 * 1024,       /* per stream, not yet taken by its handler */
    CAY_LIMIT_H2_RESETS           = 20000,            /* burst of streams a client may cancel */
    CAY_LIMIT_H2_RESETS_PER_S     = 2000,
    CAY_LIMIT_BODY_QUEUE_BYTES    = 256 * 1024,       /* per HTTP/1.1 request, not yet taken */
    CAY_LIMIT_SEND_HIGH_BYTES     = 512 * 1024,       /* a producer stops when this much is unsent */
    CAY_LIMIT_SEND_QUEUE_BYTES    = 96 * 1024 * 1024, /* backstop: the connection is cut */
    CAY_LIMIT_LINGER_BYTES        = 32 * 1024 * 1024, /* read and dropped after an early answer */

    /* RPC */
    CAY_LIMIT_MESSAGE_BYTES       = 16 * 1024 * 1024, /* one message, packed or not */
    CAY_LIMIT_CALL_ARENA_BYTES    = 96 * 1024 * 1024, /* what decoding one message may take */
    CAY_LIMIT_GZIP_MIN_BYTES      = 1024,             /* smaller answers are not packed */

    /* names */
    CAY_LIMIT_ID_BYTES            = 128,
    CAY_LIMIT_KEY_NAME_BYTES      = 128,
    CAY_LIMIT_LABELS              = 64,
    CAY_LIMIT_LABEL_KEY_BYTES     = 128,
    CAY_LIMIT_LABEL_VALUE_BYTES   = 1024,
    CAY_LIMIT_ENV_COUNT           = 1024,
    CAY_LIMIT_ENV_BYTES           = 256 * 1024,
    CAY_LIMIT_ARG_COUNT           = 4096,
    CAY_LIMIT_ARG_BYTES           = 1024 * 1024,      /* arguments and environment of a command */
    CAY_LIMIT_ARG_ONE_BYTES       = 128 * 1024 - 1,   /* one of them: the kernel's limit */
    CAY_LIMIT_TAG_BYTES           = 128,
    CAY_LIMIT_INPUT_BYTES         = 1024 * 1024,      /* waiting for a process to read it */
    CAY_LIMIT_TERMINAL_INPUT_BYTES = 64 * 1024,       /* of one message */
    CAY_LIMIT_STREAM_INPUT_BYTES  = 256 * 1024,       /* of one message with it, in JSON */
    CAY_LIMIT_TOOLS_WAITING       = 1024,             /* in one session, for their turn */
    CAY_LIMIT_PROCESS_READERS     = 1024,             /* attached to one process */
    CAY_LIMIT_WATCHES             = 256,              /* of one session, told of changes as they come */
    CAY_LIMIT_EVENT_STREAMS       = 256,              /* of one owner, that follow events */
    CAY_LIMIT_POLLERS             = 32,               /* of one sandbox: watchers asked for news */
    CAY_LIMIT_PATH_BYTES          = 4095,
    CAY_LIMIT_MESSAGE_TEXT_BYTES  = 4096,             /* of a turn */
    CAY_LIMIT_METADATA_BYTES      = 64 * 1024,        /* of a turn, encoded */
    CAY_LIMIT_FORKS               = 100,              /* of one call */
    CAY_LIMIT_FORKS_LISTED        = 100,              /* of one snapshot */
    CAY_LIMIT_DIFF_PATHS          = 1000,             /* a diff may be confined to */
    CAY_LIMIT_PATCH_BYTES         = 8 * 1024 * 1024,  /* of one file in a diff */
    CAY_LIMIT_SPAN_S              = 2'000'000'000,    /* of a deadline: some sixty years */
    CAY_LIMIT_BUILD_FILES_BYTES   = 2'000'000'000,    /* one archive for a build */
    CAY_LIMIT_PAGE_SIZE           = 1000,
    CAY_LIMIT_PAGE_SIZE_DEFAULT   = 100,
    CAY_LIMIT_PAGE_BYTES          = 2 * 1024 * 1024,  /* a page ends here; in JSON it is longer */

    /* sandboxes */
    CAY_LIMIT_MEMORY_BYTES_MIN    = 16 * 1024 * 1024,
    CAY_LIMIT_PIDS_MIN            = 8,
    CAY_LIMIT_DISK_BYTES_MIN      = 1024 * 1024,
    CAY_LIMIT_INODES_MIN          = 16,
    CAY_LIMIT_OUTPUT_RING_BYTES   = 1024 * 1024,      /* kept of a command's output, by default */
    CAY_LIMIT_OUTPUT_RING_MAX     = 8 * 1024 * 1024,
    CAY_LIMIT_RESULT_BYTES        = 256 * 1024,       /* text of a tool's result, by default */
    CAY_LIMIT_RESULT_BYTES_MAX    = 8 * 1024 * 1024,
    CAY_LIMIT_OUTPUT_WINDOW_BYTES = 256 * 1024,       /* output sent ahead of its reader */
};
/* clang-format on */
