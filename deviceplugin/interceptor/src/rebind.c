// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

// Libraries opened with RTLD_DEEPBIND have bound the driver's functions past us.
// Their relocation slots are pointed at our functions afterwards. Slots that hold
// anything else than the driver's own function are left alone.

#include "internal.h"
#include "resolve.h"

#include <elf.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifdef FS_LINKED
void fs_rebind(void) {}
#else

#if defined(__x86_64__)
#define SLOT_TYPES(t) ((t) == R_X86_64_JUMP_SLOT || (t) == R_X86_64_GLOB_DAT || (t) == R_X86_64_64)
#else
#define SLOT_TYPES(t) ((t) == R_AARCH64_JUMP_SLOT || (t) == R_AARCH64_GLOB_DAT || (t) == R_AARCH64_ABS64)
#endif

extern char fs_dlsym_stub, fs_dlvsym_stub, fs_dlopen_stub;

struct module {
	const struct dl_phdr_info *info;
	const ElfW(Sym) *symtab;
	const char *strtab;
	uintptr_t relro, relro_end; // whole pages: only those are sealed
};

static uintptr_t page_of(uintptr_t address) { return address & ~((uintptr_t)getpagesize() - 1); }

static bool inside(const struct dl_phdr_info *m, uintptr_t address)
{
	for (int i = 0; i < m->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &m->dlpi_phdr[i];
		if (p->p_type == PT_LOAD && address - (m->dlpi_addr + p->p_vaddr) < p->p_memsz)
			return true;
	}
	return false;
}

// wanted returns what the slot should hold, or NULL to leave it.
static void *wanted(const struct module *m, const char *name, uintptr_t now)
{
	void *w = fs_wrapper_named(name);
	if (w != NULL)
		// Not yet bound: it still points into the module's own PLT.
		return fs_wrapper_of((void *)now) == w || (now != (uintptr_t)w && inside(m->info, now)) ? w : NULL;
	if (strcmp(name, "dlsym") == 0 && ((void *)now == fs_libc_dlsym || inside(m->info, now)))
		return &fs_dlsym_stub;
	if (strcmp(name, "dlvsym") == 0 && ((void *)now == fs_libc_dlvsym || inside(m->info, now)))
		return &fs_dlvsym_stub;
	if (strcmp(name, "dlopen") == 0 && ((void *)now == fs_libc_dlopen || inside(m->info, now)))
		return &fs_dlopen_stub;
	return NULL;
}

static void set_slot(const struct module *m, uintptr_t *slot, void *value)
{
	uintptr_t page = page_of((uintptr_t)slot);
	bool sealed = (uintptr_t)slot >= m->relro && (uintptr_t)slot < m->relro_end;
	if (sealed && mprotect((void *)page, (size_t)getpagesize(), PROT_READ | PROT_WRITE) != 0)
		return;
	__atomic_store_n(slot, (uintptr_t)value, __ATOMIC_RELEASE);
	if (sealed)
		mprotect((void *)page, (size_t)getpagesize(), PROT_READ);
}

static void rebind_table(const struct module *m, const ElfW(Rela) *r, size_t bytes)
{
	for (size_t i = 0; r != NULL && i < bytes / sizeof *r; i++) {
		if (!SLOT_TYPES(ELF64_R_TYPE(r[i].r_info)) || r[i].r_addend != 0)
			continue;
		const char *name = m->strtab + m->symtab[ELF64_R_SYM(r[i].r_info)].st_name;
		uintptr_t *slot = (uintptr_t *)(m->info->dlpi_addr + r[i].r_offset);
		void *value = wanted(m, name, *slot);
		if (value != NULL)
			set_slot(m, slot, value);
	}
}

static bool leave_alone(const char *path)
{
	static const char *const names[] = {"libcuda.", "libnvidia-", "libc.so", "libc-", "libdl", "ld-linux", "libfairslice"};
	const char *base = strrchr(path, '/');
	base = base ? base + 1 : path;
	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
		if (strncmp(base, names[i], strlen(names[i])) == 0)
			return true;
	return false;
}

static int visit(struct dl_phdr_info *info, size_t size, void *data)
{
	(void)size, (void)data;
	struct module m = {.info = info};
	const ElfW(Dyn) *d = NULL;
	const ElfW(Rela) *plt = NULL, *rela = NULL;
	size_t plt_bytes = 0, rela_bytes = 0;
	if (info->dlpi_name == NULL || leave_alone(info->dlpi_name))
		return 0;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		if (p->p_type == PT_DYNAMIC)
			d = (const ElfW(Dyn) *)(info->dlpi_addr + p->p_vaddr);
		else if (p->p_type == PT_GNU_RELRO) {
			m.relro = page_of(info->dlpi_addr + p->p_vaddr);
			m.relro_end = page_of(info->dlpi_addr + p->p_vaddr + p->p_memsz);
		}
	}
	for (; d != NULL && d->d_tag != DT_NULL; d++) {
		ElfW(Addr) p = d->d_un.d_ptr;
		const void *at = (const void *)(p < info->dlpi_addr ? p + info->dlpi_addr : p);
		switch (d->d_tag) {
		case DT_SYMTAB: m.symtab = at; break;
		case DT_STRTAB: m.strtab = at; break;
		case DT_JMPREL: plt = at; break;
		case DT_PLTRELSZ: plt_bytes = d->d_un.d_val; break;
		case DT_RELA: rela = at; break;
		case DT_RELASZ: rela_bytes = d->d_un.d_val; break;
		}
	}
	if (m.symtab == NULL || m.strtab == NULL)
		return 0;
	rebind_table(&m, plt, plt_bytes);
	rebind_table(&m, rela, rela_bytes);
	return 0;
}

void fs_rebind(void)
{
	fs_resolve_loaded();
	dl_iterate_phdr(visit, NULL);
}
#endif
