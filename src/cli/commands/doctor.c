/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/cay_v1.h"
#include "base/json.h"
#include "cli/command.h"
#include "cli/programs.h"

enum {
    DAEMON_TIMEOUT_MS = 1000,
    LISTING_BYTES_MAX = 256 * 1024,
    FINDINGS_MAX = 64,
};

enum verdict { VERDICT_OK = 1, VERDICT_WARN, VERDICT_FAIL };

static const char *const verdict_names[] = {
    [VERDICT_OK] = "ok", [VERDICT_WARN] = "warn", [VERDICT_FAIL] = "fail"};

struct finding {
    enum verdict verdict;
    struct cay_str name;
    struct cay_str text;
    struct cay_str fix; /* empty when there is nothing to mend */
};

struct doctor {
    struct cay_cli *cli;
    struct cay_buf said; /* by cayd; the findings point into it */
    struct finding findings[FINDINGS_MAX];
    size_t count;
};

static void note(struct doctor *doctor, enum verdict verdict, const char *name, const char *text,
                 const char *fix)
{
    if (doctor->count < FINDINGS_MAX)
        doctor->findings[doctor->count++] =
            (struct finding){verdict, cay_str(name), cay_str(text), cay_str(fix)};
}

/* What the program says on its standard output; its errors are ours. 0 or an errno. */
static int listen_to(const char *program, char **argv, struct cay_buf *out, int *out_status)
{
    enum { PIECE = 16 * 1024 };
    int ends[2];
    pid_t pid;
    if (pipe2(ends, O_CLOEXEC) < 0)
        return errno;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    int error = posix_spawnp(&pid, program, &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    for (char *room; !error && (room = cay_buf_reserve(out, PIECE));) {
        ssize_t len = read(ends[0], room, PIECE);
        if (len <= 0 && !(len < 0 && errno == EINTR))
            break;
        cay_buf_grew(out, (size_t)CAY_MAX(len, 0));
    }
    close(ends[0]);
    while (!error && waitpid(pid, out_status, 0) < 0 && errno == EINTR)
        ;
    return error;
}

static void take_findings(struct doctor *doctor)
{
    struct cay_str rest = cay_buf_str(&doctor->said);
    struct cay_str line;
    while (doctor->count < FINDINGS_MAX && rest.len && cay_str_split(&rest, '\n', &line)) {
        struct finding *finding = &doctor->findings[doctor->count];
        struct cay_str verdict;
        if (!cay_str_split(&line, '\t', &verdict) || !cay_str_split(&line, '\t', &finding->name) ||
            !cay_str_split(&line, '\t', &finding->text))
            continue;
        finding->fix = line;
        finding->verdict = VERDICT_FAIL;
        for (enum verdict i = VERDICT_OK; i <= VERDICT_FAIL; i++)
            if (cay_str_is(verdict, verdict_names[i]))
                finding->verdict = i;
        doctor->count++;
    }
}

static void check_machine(struct doctor *doctor)
{
    struct cay_arena *arena = &doctor->cli->arena;
    const char *found = cay_program_find(arena, CAY_PROGRAM_DAEMON);
    const char *program = found ? found : "cayd"; /* in PATH, perhaps */
    const char *data_dir = cay_args_text(&doctor->cli->args, "data");
    char name[] = "cayd";
    char flag[] = "--check";
    cay_autofree char *data_flag = data_dir ? cay_asprintf("--data=%s", data_dir) : NULL;
    char *argv[] = {name, flag, data_flag, NULL};
    int status = 0;
    int error = listen_to(program, argv, &doctor->said, &status);
    take_findings(doctor);
    if (error)
        note(doctor, VERDICT_FAIL, "cayd", "the program cayd cannot be run",
             "install it ('./dev install'), and call 'cay doctor' on the machine it is for");
    else if (!doctor->count)
        note(doctor, VERDICT_FAIL, "cayd", "'cayd --check' says nothing of this machine",
             "mend what cayd complains of: its flags, environment or configuration file");
}

static void check_daemon(struct doctor *doctor)
{
    struct cay_cli *cli = doctor->cli;
    struct cay_v1_health_check_request request = {};
    static struct cay_v1_health_check_response response;
    static struct cay_error err;
    if (!cli->has_timeout) {
        cli->has_timeout = true;
        cli->timeout_ms = DAEMON_TIMEOUT_MS;
    }
    bool is_there =
        cay_cli_call(cli, CAY_V1_SANDBOX_SERVICE_HEALTH_CHECK, &request, &response, &err);
    const char *text = cay_arena_printf(
        &cli->arena, is_there ? "cayd answers at %s" : "no cayd answers at %s", cay_cli_url(cli));
    note(doctor, is_there ? VERDICT_OK : VERDICT_WARN, "daemon", text ? text : "",
         is_there ? "" : err.text);
    for (size_t i = 0; is_there && i < response.problems.count && doctor->count < FINDINGS_MAX; i++)
        doctor->findings[doctor->count++] =
            (struct finding){.verdict = VERDICT_WARN,
                             .name = cay_str("daemon"),
                             .text = response.problems.items[i].message};
}

static void print_findings(struct cay_output *out, const struct doctor *doctor)
{
    static const enum cay_style styles[] = {
        [VERDICT_OK] = CAY_STYLE_GOOD,
        [VERDICT_WARN] = CAY_STYLE_WARN,
        [VERDICT_FAIL] = CAY_STYLE_BAD,
    };
    size_t counts[VERDICT_FAIL + 1] = {};
    for (size_t i = 0; i < doctor->count; i++) {
        const struct finding *finding = &doctor->findings[i];
        counts[finding->verdict]++;
        cay_output_text(out, styles[finding->verdict], cay_str(verdict_names[finding->verdict]));
        cay_output_printf(out, "%*s%-12.*s ", (int)(6 - strlen(verdict_names[finding->verdict])),
                          "", (int)finding->name.len, finding->name.ptr);
        cay_output_text(out, CAY_STYLE_PLAIN, finding->text);
        cay_output_printf(out, "\n");
        if (finding->fix.len) {
            cay_output_printf(out, "%*s", 6 + 12 + 1, "");
            cay_output_text(out, CAY_STYLE_BOLD, finding->fix);
            cay_output_printf(out, "\n");
        }
    }
    if (counts[VERDICT_FAIL])
        cay_output_printf(out, "\nSandboxes cannot work here until what failed is mended.\n");
    else if (counts[VERDICT_WARN])
        cay_output_printf(out, "\nSandboxes can work here.\n");
    else
        cay_output_printf(out, "\nAll is well.\n");
}

static void print_json(struct cay_output *out, const struct doctor *doctor, bool is_ok)
{
    cay_auto(cay_buf_finish) struct cay_buf buf;
    cay_buf_init(&buf, LISTING_BYTES_MAX);
    struct cay_json_writer json = {.buf = &buf};
    cay_json_object_begin(&json);
    cay_json_key(&json, "ok");
    cay_json_bool(&json, is_ok);
    cay_json_key(&json, "checks");
    cay_json_array_begin(&json);
    for (size_t i = 0; i < doctor->count; i++) {
        const struct finding *finding = &doctor->findings[i];
        cay_json_object_begin(&json);
        cay_json_key(&json, "name");
        cay_json_string(&json, finding->name);
        cay_json_key(&json, "verdict");
        cay_json_text(&json, verdict_names[finding->verdict]);
        cay_json_key(&json, "text");
        cay_json_string(&json, finding->text);
        if (finding->fix.len) {
            cay_json_key(&json, "fix");
            cay_json_string(&json, finding->fix);
        }
        cay_json_object_end(&json);
    }
    cay_json_array_end(&json);
    cay_json_object_end(&json);
    cay_output_json(out, cay_buf_str(&buf));
}

static bool run_doctor(struct cay_cli *cli, struct cay_error *)
{
    struct doctor doctor = {.cli = cli};
    cay_buf_init(&doctor.said, LISTING_BYTES_MAX);
    check_machine(&doctor);
    check_daemon(&doctor);
    bool is_ok = true;
    for (size_t i = 0; i < doctor.count; i++)
        is_ok = is_ok && doctor.findings[i].verdict != VERDICT_FAIL;
    cli->exit_status = is_ok ? 0 : CAY_EXIT_UNHEALTHY;
    if (cli->out.is_json)
        print_json(&cli->out, &doctor, is_ok);
    else
        print_findings(&cli->out, &doctor);
    cay_buf_finish(&doctor.said);
    return true;
}

static const struct cay_flag doctor_flags[] = {
    {.name = "data",
     .value = "DIR",
     .help = "the daemon's data directory; the configured one otherwise"},
    {},
};

const struct cay_command cay_command_doctor = {
    .name = "doctor",
    .arguments = "",
    .summary = "Check whether sandboxes can work on this machine",
    .details =
        "The check looks at the kernel, control groups, disk and files, and says how to mend\n"
        "what is wrong. It needs no running daemon, but says whether one answers; it needs\n"
        "the program cayd, and root to try mounts. The exit status is 1 when something failed.",
    .flags = doctor_flags,
    .group = CAY_GROUP_HOST,
    .run = run_doctor,
};
