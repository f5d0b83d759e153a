/* A disk that forgets, for LD_PRELOAD: of what is written to files in one flat directory, only that counts which was
 * there when an fsync or fdatasync of the file returned; and of names, those that were there at an fsync of the
 * directory. What counts is kept beside it, in an image:
 *
 *   inodes/INODE.LIFE   content of a file at its last sync; a number that is used again begins another life
 *   inodes/INODE        its present life
 *   entries             INODE LIFE NAME a line: the directory at its last sync
 *
 * A passage is a call that changes a file or the directory, or makes it durable. At the `cut_at`-th the process ends
 * before the call is made. The `fail_at`-th sync gives EIO, once, and what it should have stored counts as stored by
 * no later sync unless it is written again: so does Linux.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BLOCK 4096
#define BLOCKS 16384
#define FILES 256
#define DARK 99 /* exit code */

struct file {
    ino_t inode;
    int life;
    unsigned char lost[BLOCKS]; /* blocks that a failed sync left behind */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char dir[PATH_MAX], image[PATH_MAX];
static long cut_at, fail_at, passages, syncs;
static struct file files[FILES];
static int known;

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static void give_up(const char *what) {
    dprintf(2, "power.c: %s: %s\n", what, strerror(errno));
    _exit(98);
}

void power_arm(const char *watched, const char *kept, long cut, long fail) {
    snprintf(dir, sizeof dir, "%s", watched);
    snprintf(image, sizeof image, "%s", kept);
    cut_at = cut, fail_at = fail, passages = syncs = 0, known = 0;
}

void power_counts(long *all, long *synced) { *all = passages, *synced = syncs; }

static int ours(const char *path) {
    size_t length = strlen(dir);
    return length && !strncmp(path, dir, length) && (path[length] == '/' || !path[length]);
}

static int watched(int fd) {
    char name[64], path[PATH_MAX];
    if (!*dir) return 0;
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(name, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return ours(path);
}

static void pass(void) {
    if (++passages == cut_at) _exit(DARK);
}

static struct file *file_of(ino_t inode) {
    for (int i = 0; i < known; i++)
        if (files[i].inode == inode) return &files[i];
    if (known == FILES) give_up("too many files");
    files[known] = (struct file){.inode = inode};
    return &files[known++];
}

static int make(const char *path) {
    int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
    if (fd < 0) give_up(path);
    return fd;
}

static void put(int fd, const void *from, size_t count, off_t at) {
    if (REAL(pwrite)(fd, from, count, at) != (ssize_t)count) give_up("pwrite");
}

static int durable(struct file *file, char *path, size_t size) {
    snprintf(path, size, "%s/inodes/%lu.%d", image, (unsigned long)file->inode, file->life);
    return open(path, O_RDONLY | O_CLOEXEC);
}

/* The file as it is counts from now on, but for blocks that were lost. */
static void keep_file(int fd, struct file *file) {
    char path[PATH_MAX], made[PATH_MAX + 8];
    static char block[BLOCK];
    int before = durable(file, path, sizeof path);
    snprintf(made, sizeof made, "%s.new", path);
    int to = make(made);
    ssize_t count;
    for (off_t at = 0; (count = pread(fd, block, BLOCK, at)) > 0; at += count) {
        if (file->lost[at / BLOCK % BLOCKS]) {
            memset(block, 0, BLOCK);
            if (before >= 0 && pread(before, block, BLOCK, at) < 0) give_up("pread");
        }
        put(to, block, count, at);
    }
    if (count < 0) give_up("pread");
    close(to);
    if (before >= 0) close(before);
    if (REAL(rename)(made, path)) give_up("rename");
}

/* What should have counted, and was not there before, is lost. */
static void lose(int fd, struct file *file) {
    char path[PATH_MAX], now[BLOCK], then[BLOCK];
    int before = durable(file, path, sizeof path);
    ssize_t count;
    for (off_t at = 0; (count = pread(fd, now, BLOCK, at)) > 0; at += count) {
        ssize_t old = before < 0 ? 0 : pread(before, then, BLOCK, at);
        if (old < count || memcmp(now, then, count)) file->lost[at / BLOCK % BLOCKS] = 1;
    }
    if (before >= 0) close(before);
}

static void keep_entries(void) {
    char path[PATH_MAX + 16], made[PATH_MAX + 16];
    snprintf(path, sizeof path, "%s/entries", image);
    snprintf(made, sizeof made, "%s/entries.new", image);
    FILE *to = fdopen(make(made), "w");
    DIR *listed = opendir(dir);
    if (!to || !listed) give_up("opendir");
    for (struct dirent *entry; (entry = readdir(listed));)
        if (entry->d_type == DT_REG)
            fprintf(to, "%lu %d %s\n", (unsigned long)entry->d_ino, file_of(entry->d_ino)->life, entry->d_name);
    closedir(listed);
    if (fclose(to) || REAL(rename)(made, path)) give_up("rename");
}

static int sync_by(int (*real)(int), int fd) {
    struct stat found;
    pthread_mutex_lock(&lock);
    if (!watched(fd) || fstat(fd, &found)) {
        pthread_mutex_unlock(&lock);
        return real(fd);
    }
    pass();
    int done;
    if (++syncs == fail_at) {
        if (S_ISREG(found.st_mode)) lose(fd, file_of(found.st_ino));
        errno = EIO, done = -1;
    } else if (!(done = real(fd))) {
        if (S_ISDIR(found.st_mode)) keep_entries();
        else if (found.st_nlink) keep_file(fd, file_of(found.st_ino));
    }
    pthread_mutex_unlock(&lock);
    return done;
}

int fsync(int fd) { return sync_by(REAL(fsync), fd); }
int fdatasync(int fd) { return sync_by(REAL(fdatasync), fd); }

static void wrote(int fd, off_t at, size_t count) {
    struct stat found;
    pass();
    if (!count || fstat(fd, &found)) return;
    struct file *file = file_of(found.st_ino);
    for (off_t block = at / BLOCK; block <= (off_t)(at + count - 1) / BLOCK; block++) file->lost[block % BLOCKS] = 0;
}

ssize_t pwrite(int fd, const void *from, size_t count, off_t at) {
    pthread_mutex_lock(&lock);
    if (watched(fd)) wrote(fd, at, count);
    ssize_t done = REAL(pwrite)(fd, from, count, at);
    pthread_mutex_unlock(&lock);
    return done;
}

ssize_t pwrite64(int fd, const void *from, size_t count, off64_t at) { return pwrite(fd, from, count, at); }

ssize_t write(int fd, const void *from, size_t count) {
    /* Without the lock where it is none of ours: a pipe may keep us waiting. */
    if (!watched(fd)) return REAL(write)(fd, from, count);
    pthread_mutex_lock(&lock);
    wrote(fd, lseek(fd, 0, SEEK_CUR), count);
    ssize_t done = REAL(write)(fd, from, count);
    pthread_mutex_unlock(&lock);
    return done;
}

int ftruncate(int fd, off_t size) {
    pthread_mutex_lock(&lock);
    if (watched(fd)) pass();
    int done = REAL(ftruncate)(fd, size);
    pthread_mutex_unlock(&lock);
    return done;
}

int ftruncate64(int fd, off64_t size) { return ftruncate(fd, size); }

int unlink(const char *path) {
    struct stat found;
    pthread_mutex_lock(&lock);
    if (ours(path)) {
        pass();
        if (!lstat(path, &found) && found.st_nlink == 1) {
            char name[PATH_MAX + 32];
            struct file *file = file_of(found.st_ino);
            file->life++;
            memset(file->lost, 0, sizeof file->lost);
            snprintf(name, sizeof name, "%s/inodes/%lu", image, (unsigned long)file->inode);
            int fd = make(name);
            dprintf(fd, "%d", file->life);
            close(fd);
        }
    }
    int done = REAL(unlink)(path);
    pthread_mutex_unlock(&lock);
    return done;
}

static int names(int (*real)(const char *, const char *), const char *from, const char *to) {
    pthread_mutex_lock(&lock);
    if (ours(from) || ours(to)) pass();
    int done = real(from, to);
    pthread_mutex_unlock(&lock);
    return done;
}

int rename(const char *from, const char *to) { return names(REAL(rename), from, to); }
int link(const char *from, const char *to) { return names(REAL(link), from, to); }
