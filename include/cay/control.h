/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CONTROL_H
#define CAY_CONTROL_H

/*
 * What an orchestrator holds: it makes and removes sandboxes and starts programs in them. The tools
 * inside of one are cay/env.h's affair.
 *
 *     node:unix:/run/cay/cayd.sock     one cayd, by any URL that cay/client.h takes
 *     node:                            the one of this machine
 *
 * Order: open -> (create -> (launch | status | kill | pause | resume)* -> destroy)* -> close. All
 * functions may be called by several threads at once. A control may be closed while calls use it:
 * they go on, and it is released with the last of them.
 *
 * What a control cannot do fails with `capability_not_supported`.
 */

#include "cay/client.h"

CAY_API_BEGIN

struct cay_control;

struct cay_control_options {
    size_t size;
    const char *key;     /* API key; NULL: none */
    const char *ca_file; /* certificates to trust */
    int64_t timeout_ms;  /* of calls that name none; 0: they may take for ever */
};
#define CAY_CONTROL_OPTIONS CAY_INIT(cay_control_options)

/* Says nothing to a daemon yet. Reasons: invalid_argument. `options` may be NULL. */
CAY_API bool cay_control_open(const char *address, const struct cay_control_options *options,
                              struct cay_control **out_control, struct cay_error *err);
/* Sandboxes stay. Accepts NULL. */
CAY_API void cay_control_close(struct cay_control *control);

struct cay_control_capabilities {
    bool snapshots;
    bool rollback;
    bool pause;
    bool launch_process;
    bool deep_pause;                 /* to cold storage */
    int64_t concurrent_sandboxes;    /* 0: unlimited */
    int64_t max_sandbox_duration_ms; /* 0: unlimited */
    bool expose_port;                /* ports of launched processes can be reached */
};

/* Those of the host, asked once. They belong to the control and are valid until it is closed. */
CAY_API bool cay_control_capabilities(struct cay_control *control,
                                      const struct cay_call_options *options,
                                      const struct cay_control_capabilities **out_capabilities,
                                      struct cay_error *err);

struct cay_sandbox_request {
    size_t size;
    const char *sandbox_id; /* NULL: one is made up */
    const struct cay_pair *labels;
    size_t label_count;
    const char *template_name; /* a base; NULL: the default */
    double cpus;               /* limits; 0: the host's default. Where one cannot be enforced, */
                               /* asking for it fails with capability_not_supported */
    int64_t memory_bytes;
    int64_t disk_bytes;
    int64_t process_count;
    const char *network; /* "none", "open"; NULL: the host's default */
    const char *runtime; /* NULL: the host's default */
};
#define CAY_SANDBOX_REQUEST CAY_INIT(cay_sandbox_request)

struct cay_sandbox_info {
    const char *sandbox_id;
    const char *address; /* host:port or unix:PATH of the host that has it */
    const char *state;   /* "active", "paused", … */
    const char *template_name;
    const struct cay_pair *labels;
    size_t label_count;
    int64_t created_ms; /* since 1970 */
};
CAY_API void cay_sandbox_info_free(struct cay_sandbox_info *info); /* accepts NULL */

/* `request` may be NULL, and so may `out_info`. The same request with the same id again answers the
 * sandbox that it made; other settings under an id that is taken fail with `session_exists`. */
CAY_API bool cay_control_create(struct cay_control *control,
                                const struct cay_sandbox_request *request,
                                const struct cay_call_options *options,
                                struct cay_sandbox_info **out_info, struct cay_error *err);
/* With its files and all that runs in it. One that is gone already is no failure. */
CAY_API bool cay_control_destroy(struct cay_control *control, const char *sandbox_id,
                                 const struct cay_call_options *options, struct cay_error *err);

struct cay_sandbox_list {
    const struct cay_sandbox_info *const *items; /* oldest first */
    size_t count;
};
CAY_API void cay_sandbox_list_free(struct cay_sandbox_list *list); /* accepts NULL */

/* All that the caller may see whose labels are these, and maybe more. */
CAY_API bool cay_control_list(struct cay_control *control, const struct cay_pair *labels,
                              size_t label_count, const struct cay_call_options *options,
                              struct cay_sandbox_list **out_list, struct cay_error *err);

/* What runs in it stands still until it is resumed. A paused one cannot be paused:
 * `session_paused`. */
CAY_API bool cay_control_pause(struct cay_control *control, const char *sandbox_id,
                               const struct cay_call_options *options, struct cay_error *err);
CAY_API bool cay_control_resume(struct cay_control *control, const char *sandbox_id,
                                const struct cay_call_options *options, struct cay_error *err);

enum cay_process_state {
    CAY_PROCESS_STARTING = 1,
    CAY_PROCESS_RUNNING = 2, /* or stands still in a paused sandbox */
    CAY_PROCESS_EXITED = 3
};

struct cay_process_request {
    size_t size;
    const char *sandbox_id;
    const char *binary; /* a path, or a name that is looked up in the sandbox */
    const char *const *args;
    size_t arg_count;
    const struct cay_pair *environment;
    size_t environment_count;
    const char *cwd;  /* NULL: the sandbox's */
    const char *user; /* NULL: the sandbox's */
    int expose_port;  /* that it will listen on inside of the sandbox; 0: none */
    bool has_input;   /* its standard input is written to (cay/stream.h); otherwise it is empty */
    int rows;         /* of its terminal, which takes input, too; both 0: it has none */
    int columns;
};
#define CAY_PROCESS_REQUEST CAY_INIT(cay_process_request)

struct cay_process_status {
    const char *process_id;
    const char *address; /* host:port at which its port is reached from here; "" without one */
    enum cay_process_state state;
    bool has_exit_code; /* it has exited by itself */
    int exit_code;
    int signal;        /* that ended it; 0: none did */
    bool is_listening; /* on its port, when the host looked last, which is seconds ago at most */
};
CAY_API void cay_process_status_free(struct cay_process_status *status); /* accepts NULL */

/* Answers when it was started. Its port is open from then on, and connections are refused until it
 * listens. When the answer is lost (`unavailable`), it may run or not. `out_status` may be NULL. */
CAY_API bool cay_control_launch(struct cay_control *control,
                                const struct cay_process_request *request,
                                const struct cay_call_options *options,
                                struct cay_process_status **out_status, struct cay_error *err);
/* Sends a signal to it and to all that it started; `number` 0: SIGTERM. One that has ended is no
 * failure. */
CAY_API bool cay_control_kill(struct cay_control *control, const char *sandbox_id,
                              const char *process_id, int number,
                              const struct cay_call_options *options, struct cay_error *err);
CAY_API bool cay_control_status(struct cay_control *control, const char *sandbox_id,
                                const char *process_id, const struct cay_call_options *options,
                                struct cay_process_status **out_status, struct cay_error *err);

/* "host:port" as a URL: brackets around IPv6 addresses that have none, their scopes escaped, https
 * when `is_tls`. The number behind the last colon is the port, always. "unix:PATH" is a URL as it
 * is. Released with cay_text_free. */
CAY_API bool cay_address_to_url(const char *address, bool is_tls, struct cay_text *out_url,
                                struct cay_error *err);

CAY_API_END

#endif
