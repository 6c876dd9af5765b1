/* A disk that loses what was not synced.
 *
 * Loaded before the program (LD_PRELOAD), it notes which parts of the files below WEIR_SHIM_FROM
 * are written, and copies a file's noted parts to WEIR_SHIM_TO when that file is synced. So that
 * directory holds at every moment what a power cut would leave of the first one, at the least. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FILES_MAX 16

struct range {
    off_t from, to;
};

struct file {
    char name[256];
    struct range *ranges;
    size_t count, room;
};

static struct file files[FILES_MAX];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void give_up(const char *why) {
    fprintf(stderr, "shim: %s\n", why);
    _exit(70);
}

/* The file at `path` if it lies in the directory; called with the lock held. */
static struct file *file_of_path(const char *path) {
    const char *from = getenv("WEIR_SHIM_FROM");
    if (from == NULL)
        return NULL;
    size_t prefix = strlen(from);
    if (strncmp(path, from, prefix) != 0 || path[prefix] != '/' || strchr(path + prefix + 1, '/'))
        return NULL;
    for (int at = 0; at < FILES_MAX; at++) {
        if (files[at].name[0] == 0)
            snprintf(files[at].name, sizeof files[at].name, "%s", path + prefix + 1);
        if (strcmp(files[at].name, path + prefix + 1) == 0)
            return &files[at];
    }
    give_up("too many files");
    return NULL;
}

static struct file *file_of(int fd) {
    char link[64], path[4096];
    if (fd <= 2)
        return NULL;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length <= 0)
        return NULL;
    path[length] = 0;
    return file_of_path(path);
}

static void shadow_of(struct file *file, char *path, size_t room) {
    if ((size_t)snprintf(path, room, "%s/%s", getenv("WEIR_SHIM_TO"), file->name) >= room)
        give_up("a path too long");
}

static void wrote(int fd, off_t from, ssize_t bytes) {
    if (bytes <= 0)
        return;
    pthread_mutex_lock(&lock);
    struct file *file = file_of(fd);
    if (file != NULL) {
        if (file->count == file->room) {
            file->room = file->room * 2 + 64;
            file->ranges = realloc(file->ranges, file->room * sizeof *file->ranges);
            if (file->ranges == NULL)
                give_up("no memory");
        }
        file->ranges[file->count++] = (struct range){from, from + bytes};
    }
    pthread_mutex_unlock(&lock);
}

static void copy(int fd, int shadow, struct range range) {
    char buffer[65536];
    while (range.from < range.to) {
        size_t want = sizeof buffer;
        if ((off_t)want > range.to - range.from)
            want = range.to - range.from;
        ssize_t got = syscall(SYS_pread64, fd, buffer, want, range.from);
        if (got <= 0)
            return; /* Cut off since. */
        if (syscall(SYS_pwrite64, shadow, buffer, got, range.from) != got)
            give_up("cannot write the copy");
        range.from += got;
    }
}

static int sync_file(int fd) {
    char path[4096];
    pthread_mutex_lock(&lock);
    struct file *file = file_of(fd);
    if (file != NULL) {
        shadow_of(file, path, sizeof path);
        int shadow = syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        if (shadow < 0)
            give_up("cannot open the copy");
        for (size_t at = 0; at < file->count; at++)
            copy(fd, shadow, file->ranges[at]);
        file->count = 0;
        struct stat now, then;
        if (fstat(fd, &now) == 0 && fstat(shadow, &then) == 0 && now.st_size < then.st_size
            && syscall(SYS_ftruncate, shadow, now.st_size) != 0)
            give_up("cannot cut the copy");
        syscall(SYS_close, shadow);
    }
    pthread_mutex_unlock(&lock);
    return 0;
}

/* The kernel need not sync: the copy is what counts as the disk. */
int fsync(int fd) {
    return sync_file(fd);
}

int fdatasync(int fd) {
    return sync_file(fd);
}

/* SQLite syncs the directory after it removed a file. */
int unlink(const char *path) {
    char copied[4096];
    pthread_mutex_lock(&lock);
    struct file *file = file_of_path(path);
    if (file != NULL) {
        file->count = 0;
        shadow_of(file, copied, sizeof copied);
        syscall(SYS_unlinkat, AT_FDCWD, copied, 0);
    }
    pthread_mutex_unlock(&lock);
    return syscall(SYS_unlinkat, AT_FDCWD, path, 0);
}

ssize_t write(int fd, const void *bytes, size_t count) {
    ssize_t written = syscall(SYS_write, fd, bytes, count);
    if (fd > 2 && written > 0)
        wrote(fd, syscall(SYS_lseek, fd, 0, SEEK_CUR) - written, written);
    return written;
}

ssize_t pwrite64(int fd, const void *bytes, size_t count, off_t at) {
    ssize_t written = syscall(SYS_pwrite64, fd, bytes, count, at);
    wrote(fd, at, written);
    return written;
}

ssize_t pwrite(int fd, const void *bytes, size_t count, off_t at) {
    return pwrite64(fd, bytes, count, at);
}
