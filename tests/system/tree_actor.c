/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs inside a sandbox and changes or tells a tree.
 *
 *     tree_actor do DIR OPERATION...   each one argument, its words separated by blanks
 *     tree_actor dump DIR              every node with all that is kept of it, a line each
 *
 * Names have no blanks. An operation that fails ends the program with its text and the reason.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

enum { WORDS_MAX = 8, PATH_SIZE = 4096, LINKS_MAX = 4096 };

static int open_file(const char *path)
{
    return open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
}

/* write PATH OFFSET COUNT TEXT: the text again and again. */
static int put(const char *path, const char *offset, const char *count, const char *text)
{
    int fd = open_file(path);
    off_t at = strtoll(offset, NULL, 10);
    size_t len = strlen(text);
    size_t total = len * strtoul(count, NULL, 10);
    char *data = malloc(total + 1);
    for (size_t i = 0; data && i < total; i += len)
        memcpy(data + i, text, len);
    int result = fd >= 0 && data && pwrite(fd, data, total, at) == (ssize_t)total ? 0 : -1;
    free(data);
    if (fd >= 0)
        close(fd);
    return result;
}

/* The same by a page of the file's own, as databases do it. The file must be long enough. */
static int put_mapped(const char *path, const char *offset, const char *text)
{
    int fd = open_file(path);
    off_t at = strtoll(offset, NULL, 10);
    off_t page = at & ~(off_t)4095;
    char *data =
        fd < 0 ? MAP_FAILED : mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, page);
    if (data == MAP_FAILED)
        return -1;
    memcpy(data + (at - page), text, strlen(text));
    close(fd);
    return munmap(data, 8192);
}

static int punch(const char *path, const char *offset, const char *size)
{
    int fd = open_file(path);
    int result = fd < 0 ? -1
                        : fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                    strtoll(offset, NULL, 10), strtoll(size, NULL, 10));
    if (fd >= 0)
        close(fd);
    return result;
}

static int remove_tree(const char *path)
{
    struct stat st;
    if (lstat(path, &st) < 0)
        return -1;
    if (!S_ISDIR(st.st_mode))
        return unlink(path);
    DIR *dir = opendir(path);
    int result = dir ? 0 : -1;
    for (struct dirent *entry; result == 0 && (entry = readdir(dir));) {
        char child[PATH_SIZE];
        snprintf(child, sizeof(child), "%s/%s", path, entry->d_name);
        if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
            result = remove_tree(child);
    }
    if (dir)
        closedir(dir);
    return result < 0 ? result : rmdir(path);
}

static mode_t mode_of(const char *text)
{
    return (mode_t)strtoul(text, NULL, 8);
}

static unsigned number_of(const char *text)
{
    return (unsigned)strtoul(text, NULL, 10);
}

static int act(char **word, int count)
{
    const char *verb = word[0];
    if (!strcmp(verb, "write") && count == 5)
        return put(word[1], word[2], word[3], word[4]);
    if (!strcmp(verb, "map") && count == 4)
        return put_mapped(word[1], word[2], word[3]);
    if (!strcmp(verb, "punch") && count == 4)
        return punch(word[1], word[2], word[3]);
    if (!strcmp(verb, "truncate") && count == 3)
        return truncate(word[1], strtoll(word[2], NULL, 10));
    if (!strcmp(verb, "mkdir") && count == 3)
        return mkdir(word[1], 0700) < 0 ? -1 : chmod(word[1], mode_of(word[2]));
    if (!strcmp(verb, "fifo") && count == 3)
        return mkfifo(word[1], 0600) < 0 ? -1 : chmod(word[1], mode_of(word[2]));
    if (!strcmp(verb, "symlink") && count == 3)
        return symlink(word[1], word[2]);
    if (!strcmp(verb, "link") && count == 3)
        return link(word[1], word[2]);
    if (!strcmp(verb, "rename") && count == 3)
        return rename(word[1], word[2]);
    if (!strcmp(verb, "exchange") && count == 3)
        return (int)syscall(SYS_renameat2, AT_FDCWD, word[1], AT_FDCWD, word[2], RENAME_EXCHANGE);
    if (!strcmp(verb, "remove") && count == 2)
        return remove_tree(word[1]);
    if (!strcmp(verb, "chmod") && count == 3)
        return chmod(word[1], mode_of(word[2]));
    if (!strcmp(verb, "chown") && count == 4)
        return lchown(word[1], number_of(word[2]), number_of(word[3]));
    if (!strcmp(verb, "setxattr") && count == 4)
        return lsetxattr(word[1], word[2], word[3], strlen(word[3]), 0);
    if (!strcmp(verb, "delxattr") && count == 3)
        return lremovexattr(word[1], word[2]);
    errno = EINVAL;
    return -1;
}

static int do_one(char *operation)
{
    char *word[WORDS_MAX];
    char told[PATH_SIZE];
    int count = 0;
    snprintf(told, sizeof(told), "%s", operation);
    for (char *at = strtok(operation, " "); at && count < WORDS_MAX; at = strtok(NULL, " "))
        word[count++] = at;
    if (count > 0 && act(word, count) == 0)
        return 0;
    fprintf(stderr, "%s: %s\n", told, strerror(errno));
    return 1;
}

/* The first name of each file that has several. */
static struct {
    dev_t dev;
    ino_t ino;
    char *path;
} links[LINKS_MAX];
static size_t link_count;

static const char *first_name(const char *path, const struct stat *st)
{
    for (size_t i = 0; i < link_count; i++) {
        if (links[i].dev == st->st_dev && links[i].ino == st->st_ino)
            return links[i].path;
    }
    if (link_count < LINKS_MAX) {
        links[link_count].dev = st->st_dev;
        links[link_count].ino = st->st_ino;
        links[link_count++].path = strdup(path);
    }
    return "-";
}

/* CRC-32 as zlib has it. */
static uint32_t checksum(uint32_t sum, const unsigned char *data, size_t len)
{
    static uint32_t table[256];
    for (uint32_t i = 256; !table[1] && i-- > 0;) { /* table[1] comes nearly last */
        table[i] = i;
        for (int bit = 0; bit < 8; bit++)
            table[i] = table[i] >> 1 ^ (table[i] & 1 ? 0xedb88320 : 0);
    }
    for (size_t i = 0; i < len; i++)
        sum = table[(sum ^ data[i]) & 255] ^ sum >> 8;
    return sum;
}

static void tell_content(const char *path, off_t size)
{
    static unsigned char data[65536];
    uint32_t sum = 0xffffffff;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        printf("\t!%s", strerror(errno));
        return;
    }
    for (ssize_t len; (len = read(fd, data, sizeof(data))) > 0;)
        sum = checksum(sum, data, (size_t)len);
    printf("\t%08x\t", ~sum);
    for (off_t at = 0; at < size;) {
        off_t from = lseek(fd, at, SEEK_DATA);
        off_t to = from < 0 ? -1 : lseek(fd, from, SEEK_HOLE);
        if (to <= from)
            break;
        printf("%lld-%lld,", (long long)from, (long long)to);
        at = to;
    }
    close(fd);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void tell_xattrs(const char *path)
{
    static char names[65536];
    ssize_t len = llistxattr(path, names, sizeof(names));
    char *sorted[64];
    size_t count = 0;
    for (ssize_t at = 0; at < len && count < 64; at += (ssize_t)strlen(names + at) + 1)
        sorted[count++] = names + at;
    qsort(sorted, count, sizeof(*sorted), by_name);
    putchar('\t');
    for (size_t i = 0; i < count; i++) {
        static char value[65536];
        ssize_t size = lgetxattr(path, sorted[i], value, sizeof(value));
        printf("%s=", sorted[i]);
        for (ssize_t j = 0; j < size; j++)
            printf("%02x", (unsigned char)value[j]);
        putchar(',');
    }
}

static void tell(const char *path);

static void tell_children(const char *path)
{
    static const char *const not_ours[] = {"./proc", "./dev", "./sys"};
    char **names = NULL;
    size_t count = 0;
    DIR *dir = opendir(path);
    if (!dir)
        printf("%s\t!%s\n", path, strerror(errno));
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
            continue;
        names = realloc(names, (count + 1) * sizeof(*names));
        names[count++] = strdup(entry->d_name);
    }
    if (dir)
        closedir(dir);
    if (count)
        qsort(names, count, sizeof(*names), by_name);
    for (size_t i = 0; i < count; i++) {
        char child[PATH_SIZE];
        snprintf(child, sizeof(child), "%s/%s", path, names[i]);
        int is_ours = 1;
        for (size_t j = 0; j < sizeof(not_ours) / sizeof(*not_ours); j++)
            is_ours = is_ours && strcmp(child, not_ours[j]);
        if (is_ours)
            tell(child);
        free(names[i]);
    }
    free(names);
}

/* path type mode uid gid size mtime first-name xattrs [hash extents | target] */
static void tell(const char *path)
{
    struct stat st;
    if (lstat(path, &st) < 0) {
        printf("%s\t!%s\n", path, strerror(errno));
        return;
    }
    char type = S_ISREG(st.st_mode)    ? 'f'
                : S_ISDIR(st.st_mode)  ? 'd'
                : S_ISLNK(st.st_mode)  ? 'l'
                : S_ISFIFO(st.st_mode) ? 'p'
                : S_ISSOCK(st.st_mode) ? 's'
                                       : '?';
    int is_dir = type == 'd';
    printf("%s\t%c\t%o\t%u\t%u\t%lld\t%lld.%09ld\t%s", path, type, st.st_mode & 07777, st.st_uid,
           st.st_gid, is_dir ? 0LL : (long long)st.st_size, (long long)st.st_mtim.tv_sec,
           st.st_mtim.tv_nsec, is_dir || st.st_nlink < 2 ? "-" : first_name(path, &st));
    tell_xattrs(path);
    if (type == 'f')
        tell_content(path, st.st_size);
    if (type == 'l') {
        char target[PATH_SIZE] = "";
        (void)!readlink(path, target, sizeof(target) - 1);
        printf("\t%s", target);
    }
    putchar('\n');
    if (is_dir)
        tell_children(path);
}

int main(int argc, char **argv)
{
    umask(0);
    if (argc < 3 || chdir(argv[2]) < 0) {
        perror("tree_actor");
        return 2;
    }
    if (!strcmp(argv[1], "dump")) {
        tell(".");
        return 0;
    }
    for (int i = 3; i < argc; i++) {
        if (do_one(argv[i]))
            return 1;
    }
    return 0;
}
