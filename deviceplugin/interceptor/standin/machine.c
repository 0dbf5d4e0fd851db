// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

#include "machine.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MAGIC 0x4d4e4454534c46ull

struct machine {
	uint64_t magic;
	pthread_mutex_t lock;
	int gpus;
	struct gpu gpu[MAX_GPUS];
	struct proc proc[MAX_PROCS];
};

static struct machine *m;
static int visible[MAX_GPUS], visible_count;
static struct proc *self;
static pid_t self_pid;
static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;

uint64_t round_up(uint64_t n, uint64_t to) { return n > UINT64_MAX - to ? UINT64_MAX / to * to : (n + to - 1) / to * to; }

uint64_t machine_now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

static const char *setting(const char *name)
{
	static char line[1024];
	const char *v = getenv(name), *path = getenv("STANDIN_CONFIG");
	if (v != NULL && *v)
		return v;
	FILE *f = fopen(path ? path : "/etc/fairslice/standin.conf", "re");
	size_t n = strlen(name);
	while (f != NULL && fgets(line, sizeof line, f)) {
		line[strcspn(line, "\r\n")] = 0;
		if (strncmp(line, name, n) == 0 && line[n] == '=') {
			fclose(f);
			return line + n + 1;
		}
	}
	if (f != NULL)
		fclose(f);
	return NULL;
}

uint64_t machine_setting(const char *name, uint64_t otherwise)
{
	const char *v = setting(name);
	return v ? strtoull(v, NULL, 10) : otherwise;
}

void machine_uuid_text(const uint8_t u[16], char out[48])
{
	snprintf(out, 48, "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", u[0], u[1], u[2], u[3],
		 u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13], u[14], u[15]);
}

static void read_uuid(const char *text, uint8_t out[16])
{
	int n = 0;
	for (const char *p = strncmp(text, "GPU-", 4) ? text : text + 4; *p && *p != ',' && n < 32; p++) {
		if (*p == '-')
			continue;
		int v = *p <= '9' ? *p - '0' : (*p | 0x20) - 'a' + 10;
		out[n / 2] = (uint8_t)(n % 2 ? out[n / 2] | (v & 15) : v << 4);
		n++;
	}
}

static void set_up(void)
{
	pthread_mutexattr_t a;
	pthread_mutexattr_init(&a);
	pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST);
	pthread_mutex_init(&m->lock, &a);
	char sizes[512], uuids[1024];
	const char *s = setting("STANDIN_GPUS");
	snprintf(sizes, sizeof sizes, "%s", s ? s : "40960");
	s = setting("STANDIN_UUIDS");
	snprintf(uuids, sizeof uuids, "%s", s ? s : "");
	const char *u = uuids;
	for (char *p = sizes; p && *p && m->gpus < MAX_GPUS; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL) {
		struct gpu *g = &m->gpu[m->gpus];
		g->size = strtoull(p, NULL, 10) << 20;
		memcpy(g->uuid, "\xfa\x12\x51\x1c\xe0\x00\x40\x00\x80\x00\x00\x00\x00\x00\x00\x00", 16);
		g->uuid[15] = (uint8_t)m->gpus++;
		if (*u)
			read_uuid(u, g->uuid);
		u = strchr(u, ',') ? strchr(u, ',') + 1 : u + strlen(u);
	}
	__atomic_store_n(&m->magic, MAGIC, __ATOMIC_RELEASE);
}

static void choose_visible(void)
{
	const char *v = getenv("NVIDIA_VISIBLE_DEVICES");
	for (int i = 0; i < m->gpus; i++) {
		char text[48];
		machine_uuid_text(m->gpu[i].uuid, text);
		if (v == NULL || strncmp(v, "GPU-", 4) != 0 || strstr(v, text) != NULL)
			visible[visible_count++] = i;
	}
}

static void open_machine(void)
{
	pthread_mutex_lock(&opening);
	if (m == NULL) {
		const char *path = setting("STANDIN_STATE");
		int fd = open(path ? path : "/tmp/fairslice-standin", O_RDWR | O_CREAT | O_CLOEXEC, 0666);
		if (fd < 0) {
			perror("stand-in: cannot open its state file");
			abort();
		}
		flock(fd, LOCK_EX);
		if (lseek(fd, 0, SEEK_END) < (off_t)sizeof *m && ftruncate(fd, sizeof *m) != 0)
			abort();
		struct machine *at = mmap(NULL, sizeof *m, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		if (at == MAP_FAILED)
			abort();
		m = at;
		if (m->magic != MAGIC)
			set_up();
		choose_visible();
		flock(fd, LOCK_UN); // the mapping would keep the lock
		close(fd);
	}
	pthread_mutex_unlock(&opening);
}

static uint64_t start_of(uint32_t pid, char *state)
{
	char path[64], text[1024];
	snprintf(path, sizeof path, "/proc/%u/stat", pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	ssize_t n = read(fd, text, sizeof text - 1);
	close(fd);
	text[n > 0 ? n : 0] = 0;
	char *p = strrchr(text, ')');
	if (p == NULL)
		return 0;
	*state = p[2];
	for (int i = 0; i < 20 && p; i++)
		p = strchr(p + 1, ' ');
	return p ? strtoull(p, NULL, 10) : 0;
}

static void reap(void)
{
	for (int i = 0; i < MAX_PROCS; i++) {
		struct proc *p = &m->proc[i];
		char state = 'R';
		if (p->pid == 0 || (start_of(p->pid, &state) == p->start && state != 'Z' && state != 'X'))
			continue;
		for (int g = 0; g < MAX_GPUS; g++)
			m->gpu[g].used -= p->used[g];
		memset(p, 0, sizeof *p);
	}
}

static void lock(void)
{
	if (m == NULL)
		open_machine();
	if (pthread_mutex_lock(&m->lock) != EOWNERDEAD)
		return;
	for (int g = 0; g < MAX_GPUS; g++) {
		m->gpu[g].used = 0;
		for (int i = 0; i < MAX_PROCS; i++)
			m->gpu[g].used += m->proc[i].used[g];
	}
	pthread_mutex_consistent(&m->lock);
}

static void unlock(void) { pthread_mutex_unlock(&m->lock); }

static struct proc *me(void)
{
	if (self != NULL && self_pid == getpid())
		return self;
	self_pid = getpid();
	char state;
	uint64_t start = start_of((uint32_t)self_pid, &state);
	for (int i = 0; i < MAX_PROCS; i++)
		if (m->proc[i].pid == (uint32_t)self_pid) { // before exec, or a predecessor of that PID
			for (int g = 0; g < MAX_GPUS; g++)
				m->gpu[g].used -= m->proc[i].used[g];
			memset(&m->proc[i], 0, sizeof m->proc[i]);
		}
	for (int pass = 0; pass < 2; pass++, reap())
		for (int i = 0; i < MAX_PROCS; i++)
			if (m->proc[i].pid == 0) {
				self = &m->proc[i];
				*self = (struct proc){.pid = (uint32_t)self_pid, .start = start};
				return self;
			}
	abort();
}

int machine_gpus(void)
{
	if (m == NULL)
		open_machine();
	return visible_count;
}

int machine_index(int v) { return machine_gpus() > v && v >= 0 ? visible[v] : -1; }

struct gpu machine_gpu(int v)
{
	lock();
	reap();
	struct gpu g = m->gpu[machine_index(v)];
	unlock();
	return g;
}

void machine_pause(void)
{
	static int64_t pause = -1;
	if (pause < 0)
		pause = (int64_t)machine_setting("STANDIN_PAUSE", 0);
	if (pause > 0)
		usleep((useconds_t)pause);
}

bool machine_take(int v, uint64_t bytes)
{
	machine_pause();
	lock();
	struct gpu *g = &m->gpu[machine_index(v)];
	if (g->size - g->used < bytes || g->used + bytes > g->peak)
		reap(); // the kernel frees at once what a dead process held
	bool fits = g->size - g->used >= bytes;
	if (fits) {
		me()->used[machine_index(v)] += bytes;
		g->used += bytes;
		if (g->used > g->peak)
			g->peak = g->used;
	}
	unlock();
	return fits;
}

void machine_give(int v, uint64_t bytes)
{
	lock();
	me()->used[machine_index(v)] -= bytes;
	m->gpu[machine_index(v)].used -= bytes;
	unlock();
}

uint64_t machine_run(int v, uint64_t not_before, uint64_t ns)
{
	lock();
	struct gpu *g = &m->gpu[machine_index(v)];
	uint64_t start = machine_now();
	start = start > not_before ? start : not_before;
	start = start > g->busy_until ? start : g->busy_until;
	g->busy_until = start + ns;
	g->busy_ns += ns;
	uint64_t end = g->busy_until;
	unlock();
	return end;
}

int machine_procs(int v, struct proc *out, int max)
{
	int n = 0;
	lock();
	reap();
	for (int i = 0; i < MAX_PROCS && n < max; i++)
		if (m->proc[i].pid != 0 && m->proc[i].used[machine_index(v)] > 0)
			out[n++] = m->proc[i];
	unlock();
	return n;
}
