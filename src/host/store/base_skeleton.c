/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The rest of the "host" base: an /etc of names on a list (never all of it: keys, passwords and
 * the host's own settings stay out) and files of our own, a user "user" with sudo, and the
 * directories programs expect.
 */

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/store/base.h"
#include "host/store/dir_list.h"
#include "host/store/store_ops.h"
#include "sys/pin.h"
#include "sys/resolve.h"

/* Patterns of names in the host's /etc that programs in /usr need to work. Copied, not linked: an
 * administrator edits them in place. Files not everybody may read are left out. */
static const char *const etc_names[] = {
    "ImageMagick-*",
    "X11",
    "alternatives",
    "bash.bashrc",
    "bash_completion*",
    "bindresvport.blacklist",
    "ca-certificates*",
    "calendar",
    "dconf",
    "debconf.conf",
    "debian_version",
    "deluser.conf",
    "adduser.conf",
    "dpkg",
    "emacs",
    "ethertypes",
    "fonts",
    "gai.conf",
    "ghostscript",
    "groff",
    "gss",
    "gtk-*",
    "host.conf",
    "inputrc",
    "issue",
    "issue.net",
    "java*",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "ldap",
    "libnl-3",
    "locale.alias",
    "localtime",
    "login.defs",
    "lsb-release",
    "lynx",
    "magic",
    "magic.mime",
    "mailcap",
    "manpath.config",
    "mime.types",
    "mke2fs.conf",
    "nanorc",
    "netconfig",
    "networks",
    "nsswitch.conf",
    "openal",
    "os-release",
    "perl",
    "php",
    "profile.d",
    "protocols",
    "python*",
    "rpc",
    "ruby",
    "screenrc",
    "security",
    "selinux",
    "services",
    "sgml",
    "shells",
    "skel",
    "ssl",
    "terminfo",
    "timezone",
    "ucf.conf",
    "vdpau_wrapper.cfg",
    "vim",
    "wgetrc",
    "xattr.conf",
    "xdg",
    "xml",
};

struct own_file {
    const char *path;
    mode_t mode;
    gid_t gid;
    const char *text;
};

static const struct own_file own_files[] = {
    {"etc/passwd", 0644, 0,
     "root:x:0:0:root:/root:/bin/bash\n"
     "daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin\n"
     "bin:x:2:2:bin:/bin:/usr/sbin/nologin\n"
     "sys:x:3:3:sys:/dev:/usr/sbin/nologin\n"
     "sync:x:4:65534:sync:/bin:/bin/sync\n"
     "games:x:5:60:games:/usr/games:/usr/sbin/nologin\n"
     "man:x:6:12:man:/var/cache/man:/usr/sbin/nologin\n"
     "lp:x:7:7:lp:/var/spool/lpd:/usr/sbin/nologin\n"
     "mail:x:8:8:mail:/var/mail:/usr/sbin/nologin\n"
     "news:x:9:9:news:/var/spool/news:/usr/sbin/nologin\n"
     "uucp:x:10:10:uucp:/var/spool/uucp:/usr/sbin/nologin\n"
     "proxy:x:13:13:proxy:/bin:/usr/sbin/nologin\n"
     "www-data:x:33:33:www-data:/var/www:/usr/sbin/nologin\n"
     "backup:x:34:34:backup:/var/backups:/usr/sbin/nologin\n"
     "list:x:38:38:Mailing List Manager:/var/list:/usr/sbin/nologin\n"
     "irc:x:39:39:ircd:/run/ircd:/usr/sbin/nologin\n"
     "_apt:x:42:65534::/nonexistent:/usr/sbin/nologin\n"
     "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
     "user:x:1000:1000:user:/home/user:/bin/bash\n"},
    {"etc/group", 0644, 0,
     "root:x:0:\ndaemon:x:1:\nbin:x:2:\nsys:x:3:\nadm:x:4:\ntty:x:5:\ndisk:x:6:\nlp:x:7:\n"
     "mail:x:8:\nnews:x:9:\nuucp:x:10:\nman:x:12:\nproxy:x:13:\nkmem:x:15:\ndialout:x:20:\n"
     "fax:x:21:\nvoice:x:22:\ncdrom:x:24:\nfloppy:x:25:\ntape:x:26:\nsudo:x:27:user\n"
     "audio:x:29:\ndip:x:30:\nwww-data:x:33:\nbackup:x:34:\noperator:x:37:\nlist:x:38:\n"
     "irc:x:39:\nsrc:x:40:\nshadow:x:42:\nutmp:x:43:\nvideo:x:44:\nsasl:x:45:\nplugdev:x:46:\n"
     "staff:x:50:\ngames:x:60:\nusers:x:100:\nnogroup:x:65534:\nuser:x:1000:\n"},
    {"etc/shadow", 0640, 42, "root:*:19000:0:99999:7:::\nuser:*:19000:0:99999:7:::\n"},
    {"etc/gshadow", 0640, 42, "root:*::\nsudo:*::user\nuser:!::\n"},
    {"etc/subuid", 0644, 0, ""},
    {"etc/subgid", 0644, 0, ""},
    {"etc/hostname", 0644, 0, "sandbox\n"},
    {"etc/hosts", 0644, 0,
     "127.0.0.1 localhost sandbox\n::1 localhost ip6-localhost ip6-loopback\n"},
    {"etc/resolv.conf", 0644, 0, ""},
    {"etc/fstab", 0644, 0, ""},
    {"etc/machine-id", 0444, 0, ""},
    {"etc/environment", 0644, 0, ""},
    {"etc/profile", 0644, 0,
     "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\nexport PATH\n"
     "if [ \"${PS1-}\" ] && [ \"${BASH-}\" ] && [ -f /etc/bash.bashrc ]; then\n"
     "  . /etc/bash.bashrc\nfi\n"
     "for i in /etc/profile.d/*.sh; do\n  [ -r \"$i\" ] && . \"$i\"\ndone\nunset i\n"},
    {"etc/sudoers", 0440, 0,
     /* It would look for an address of the host's name, which is the session's: no file has it. */
     "Defaults env_reset, !fqdn\n"
     "Defaults secure_path=\"/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\"\n"
     "root ALL=(ALL:ALL) ALL\n%sudo ALL=(ALL:ALL) NOPASSWD: ALL\n@includedir /etc/sudoers.d\n"},
    {"etc/pam.d/sudo", 0644, 0,
     "auth required pam_permit.so\naccount required pam_permit.so\n"
     "session required pam_permit.so\n"},
    {"etc/pam.d/sudo-i", 0644, 0,
     "auth required pam_permit.so\naccount required pam_permit.so\n"
     "session required pam_permit.so\n"},
    {"etc/pam.d/su", 0644, 0,
     "auth sufficient pam_rootok.so\nauth required pam_unix.so\naccount required pam_permit.so\n"
     "session required pam_permit.so\n"},
    {"etc/pam.d/su-l", 0644, 0,
     "auth sufficient pam_rootok.so\nauth required pam_unix.so\naccount required pam_permit.so\n"
     "session required pam_permit.so\n"},
    {"etc/pam.d/other", 0644, 0,
     "auth required pam_deny.so\naccount required pam_deny.so\npassword required pam_deny.so\n"
     "session required pam_deny.so\n"},
    {"root/.profile", 0644, 0, "[ -f ~/.bashrc ] && . ~/.bashrc\n"},
    {"root/.bashrc", 0644, 0, ""},
    {"var/lib/dpkg/available", 0644, 0, ""},
    {"var/lib/dpkg/status", 0644, 0, ""},
};

static const struct {
    const char *path;
    mode_t mode;
    uid_t owner;
    gid_t group;
} own_dirs[] = {
    {"etc/pam.d", 0755, 0, 0},
    {"etc/sudoers.d", 0750, 0, 0},
    {"etc/opt", 0755, 0, 0},
    {"etc/apt", 0755, 0, 0},
    {"boot", 0755, 0, 0},
    {"media", 0755, 0, 0},
    {"mnt", 0755, 0, 0},
    {"opt", 0755, 0, 0},
    {"srv", 0755, 0, 0},
    {"var", 0755, 0, 0},
    {"var/backups", 0755, 0, 0},
    {"var/cache", 0755, 0, 0},
    {"var/lib", 0755, 0, 0},
    {"var/lib/dpkg", 0755, 0, 0},
    {"var/lib/misc", 0755, 0, 0},
    {"var/local", 02775, 0, 50},
    {"var/log", 0755, 0, 0},
    {"var/mail", 02775, 0, 8},
    {"var/opt", 0755, 0, 0},
    {"var/spool", 0755, 0, 0},
    {"var/tmp", 01777, 0, 0},
    {"run/lock", 01777, 0, 0},
    /* What dpkg and apt expect; apt fetches as its user. */
    {"etc/apt/apt.conf.d", 0755, 0, 0},
    {"etc/apt/preferences.d", 0755, 0, 0},
    {"etc/apt/sources.list.d", 0755, 0, 0},
    {"etc/apt/trusted.gpg.d", 0755, 0, 0},
    {"var/lib/dpkg/info", 0755, 0, 0},
    {"var/lib/dpkg/updates", 0755, 0, 0},
    {"var/lib/dpkg/triggers", 0755, 0, 0},
    {"var/lib/dpkg/alternatives", 0755, 0, 0},
    {"var/lib/apt", 0755, 0, 0},
    {"var/lib/apt/lists", 0755, 0, 0},
    {"var/lib/apt/lists/partial", 0700, 42, 0},
    {"var/cache/apt", 0755, 0, 0},
    {"var/cache/apt/archives", 0755, 0, 0},
    {"var/cache/apt/archives/partial", 0700, 42, 0},
    {"var/log/apt", 0755, 0, 0},
};

static const struct {
    const char *path;
    const char *target;
} own_links[] = {
    {"etc/mtab", "../proc/self/mounts"},
    {"var/run", "/run"},
    {"var/lock", "/run/lock"},
};

static bool is_wanted(const char *name)
{
    for (size_t i = 0; i < CAY_COUNT(etc_names); i++) {
        if (fnmatch(etc_names[i], name, 0) == 0)
            return true;
    }
    return false;
}

static bool copy_etc_dir(int from_etc, int to_etc, const char *name, struct cay_error *err)
{
    cay_autoclose int from =
        openat(from_etc, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (from < 0 || mkdirat(to_etc, name, 0755) < 0)
        return cay_store_fail(err, -errno, "take over /etc/%s", name);
    cay_autoclose int to = openat(to_etc, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (to < 0)
        return cay_store_fail(err, -errno, "open /etc/%s", name);
    struct cay_copy_request request = {
        .rule = CAY_COPY_IMPORT,
        .from_fd = from,
        .to_fd = to,
        .public_only = true,
        .entries_max = CAY_BASE_ENTRIES_MAX,
        .previous_fd = -1,
    };
    struct cay_copy_stats stats;
    return cay_copy_tree(&request, &stats, err);
}

static int copy_etc_file(int from_etc, int to_etc, const char *name, const struct stat *st)
{
    if (S_ISLNK(st->st_mode)) {
        char target[1024];
        ssize_t len = readlinkat(from_etc, name, target, sizeof(target) - 1);
        if (len < 0)
            return -errno;
        target[len] = '\0';
        return symlinkat(target, to_etc, name) < 0 ? -errno : 0;
    }
    if (!S_ISREG(st->st_mode) || !(st->st_mode & S_IROTH))
        return 0;
    cay_autoclose int from = openat(from_etc, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    cay_autoclose int to =
        openat(to_etc, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (from < 0 || to < 0)
        return -errno;
    int rc = cay_copy_data(from, to, st);
    if (!rc && fchmod(to, st->st_mode & 0777) < 0)
        rc = -errno;
    return rc;
}

static bool copy_etc(int host_fd, int root_fd, struct cay_error *err)
{
    if (mkdirat(root_fd, "etc", 0755) < 0)
        return cay_store_fail(err, -errno, "make /etc");
    cay_autoclose int from =
        openat(host_fd, "etc", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    cay_autoclose int to = openat(root_fd, "etc", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (to < 0)
        return cay_store_fail(err, -errno, "open /etc");
    cay_auto(cay_dir_list_finish) struct cay_dir_list names = {};
    int rc = from < 0 ? 0 : cay_dir_list_read(&names, from);
    if (rc < 0)
        return cay_store_fail(err, rc, "read /etc of the host");
    for (size_t i = 0; i < names.count; i++) {
        const char *name = cay_dir_list_name(&names, i);
        struct stat st;
        if (!is_wanted(name) || fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        if (S_ISDIR(st.st_mode)) {
            if ((st.st_mode & 0005) == 0005 && !copy_etc_dir(from, to, name, err))
                return false;
            continue;
        }
        rc = copy_etc_file(from, to, name, &st);
        if (rc < 0)
            return cay_store_fail(err, rc, "take over /etc/%s", name);
    }
    return true;
}

static bool write_own(int root_fd, const struct own_file *file, struct cay_error *err)
{
    cay_autoclose int fd =
        openat(root_fd, file->path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    size_t len = strlen(file->text);
    if (fd < 0 || write(fd, file->text, len) != (ssize_t)len || fchown(fd, 0, file->gid) < 0 ||
        fchmod(fd, file->mode) < 0)
        return cay_store_fail(err, -errno, "write /%s", file->path);
    return true;
}

/* The user's home starts with what /etc/skel has. */
static bool fill_home(int root_fd, struct cay_error *err)
{
    cay_autoclose int skel =
        openat(root_fd, "etc/skel", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (skel < 0)
        return true;
    cay_autoclose int home =
        openat(root_fd, "home/user", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (home < 0)
        return cay_store_fail(err, -errno, "open /home/user");
    cay_auto(cay_dir_list_finish) struct cay_dir_list names = {};
    int rc = cay_dir_list_read(&names, skel);
    for (size_t i = 0; !rc && i < names.count; i++) {
        const char *name = cay_dir_list_name(&names, i);
        struct stat st;
        if (fstatat(skel, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
            continue;
        rc = copy_etc_file(skel, home, name, &st);
        cay_autoclose int fd = rc ? rc : cay_pin_open(home, name);
        rc = fd == -ENOENT ? 0 : fd < 0 ? fd : cay_pin_chown(fd, 1000, 1000);
    }
    return rc == 0 || cay_store_fail(err, rc, "fill /home/user");
}

bool cay_base_skeleton(int host_fd, int root_fd, struct cay_error *err)
{
    if (!copy_etc(host_fd, root_fd, err) || !cay_base_complete(root_fd, err))
        return false;
    for (size_t i = 0; i < CAY_COUNT(own_dirs); i++) {
        if (mkdirat(root_fd, own_dirs[i].path, 0700) < 0 && errno != EEXIST)
            return cay_store_fail(err, -errno, "make /%s", own_dirs[i].path);
        cay_autoclose int fd =
            cay_resolve_open_plain(root_fd, own_dirs[i].path, O_RDONLY | O_DIRECTORY, 0);
        if (fd < 0 || fchown(fd, own_dirs[i].owner, own_dirs[i].group) < 0 ||
            fchmod(fd, own_dirs[i].mode) < 0)
            return cay_store_fail(err, fd < 0 ? fd : -errno, "make /%s", own_dirs[i].path);
    }
    for (size_t i = 0; i < CAY_COUNT(own_files); i++) {
        if (!write_own(root_fd, &own_files[i], err))
            return false;
    }
    for (size_t i = 0; i < CAY_COUNT(own_links); i++) {
        if (symlinkat(own_links[i].target, root_fd, own_links[i].path) < 0)
            return cay_store_fail(err, -errno, "link /%s", own_links[i].path);
    }
    return fill_home(root_fd, err);
}
