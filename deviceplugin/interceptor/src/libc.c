// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

// dlsym, dlvsym and dlopen. We define the first two, so the real ones cannot be
// asked for by name; they are read from the symbol table of the C library. Linking
// them would also tie this file to the glibc it was built on.
//
// The real functions look at their caller's address to decide what RTLD_NEXT and
// $ORIGIN mean. Therefore ours are short stubs that ask whether there is anything
// to change and otherwise jump, with registers and stack as they were.

#include "internal.h"
#include "resolve.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <string.h>

void *fs_libc_dlsym, *fs_libc_dlvsym, *fs_libc_dlopen;

#ifdef FS_LINKED
// Built into a test program together with a sanitizer, which owns dlsym.
bool fs_find_libc(void)
{
	fs_libc_dlsym = (void *)dlsym;
	fs_libc_dlopen = (void *)dlopen;
	return true;
}
#else

static uint32_t gnu_hash(const char *name)
{
	uint32_t h = 5381;
	for (; *name; name++)
		h = h * 33 + (uint8_t)*name;
	return h;
}

struct symbols {
	const ElfW(Sym) *symtab;
	const char *strtab;
	const uint32_t *hash;
};

static const void *at(const struct dl_phdr_info *m, ElfW(Addr) p)
{
	return (const void *)(p < m->dlpi_addr ? p + m->dlpi_addr : p);
}

static bool symbols_of(const struct dl_phdr_info *m, struct symbols *s)
{
	const ElfW(Dyn) *d = NULL;
	for (int i = 0; i < m->dlpi_phnum; i++)
		if (m->dlpi_phdr[i].p_type == PT_DYNAMIC)
			d = (const ElfW(Dyn) *)(m->dlpi_addr + m->dlpi_phdr[i].p_vaddr);
	memset(s, 0, sizeof *s);
	for (; d != NULL && d->d_tag != DT_NULL; d++) {
		if (d->d_tag == DT_SYMTAB)
			s->symtab = at(m, d->d_un.d_ptr);
		else if (d->d_tag == DT_STRTAB)
			s->strtab = at(m, d->d_un.d_ptr);
		else if (d->d_tag == DT_GNU_HASH)
			s->hash = at(m, d->d_un.d_ptr);
	}
	return s->symtab && s->strtab && s->hash;
}

static void *lookup(const struct dl_phdr_info *m, const struct symbols *s, const char *name)
{
	uint32_t buckets = s->hash[0], first = s->hash[1], bloom = s->hash[2], h = gnu_hash(name);
	const uint32_t *bucket = s->hash + 4 + bloom * (sizeof(ElfW(Addr)) / 4);
	const uint32_t *chain = bucket + buckets;
	uint32_t i = bucket[h % buckets];
	for (; i >= first; i++) {
		const ElfW(Sym) *sym = &s->symtab[i];
		if ((chain[i - first] | 1) == (h | 1) && sym->st_shndx != SHN_UNDEF && strcmp(s->strtab + sym->st_name, name) == 0)
			return (void *)(m->dlpi_addr + sym->st_value);
		if (chain[i - first] & 1)
			break;
	}
	return NULL;
}

static int visit(struct dl_phdr_info *m, size_t size, void *data)
{
	(void)size, (void)data;
	const char *base = m->dlpi_name ? strrchr(m->dlpi_name, '/') : NULL;
	base = base ? base + 1 : "";
	struct symbols s;
	if ((strncmp(base, "libc.so", 7) && strncmp(base, "libc-", 5) && strncmp(base, "libdl", 5)) || !symbols_of(m, &s))
		return 0;
	// Since glibc 2.34 they are in libc, before in libdl; a name found later wins nothing.
	void *sym = lookup(m, &s, "dlsym"), *vsym = lookup(m, &s, "dlvsym"), *open = lookup(m, &s, "dlopen");
	if (sym && vsym && open && fs_libc_dlopen == NULL) {
		fs_libc_dlsym = sym;
		fs_libc_dlvsym = vsym;
		__atomic_store_n(&fs_libc_dlopen, open, __ATOMIC_RELEASE);
	}
	return fs_libc_dlopen != NULL;
}

bool fs_find_libc(void)
{
	if (__atomic_load_n(&fs_libc_dlopen, __ATOMIC_ACQUIRE) == NULL)
		dl_iterate_phdr(visit, NULL);
	return fs_libc_dlopen != NULL;
}

// The stubs ask these. NULL: jump to the real function.

static _Atomic uint32_t rebind_due;

void *fs_pick(void *handle, const char *symbol, const char *version) __attribute__((visibility("hidden"), used));
void *fs_pick(void *handle, const char *symbol, const char *version)
{
	fs_find_libc();
	if (unlikely(atomic_exchange(&rebind_due, 0)))
		fs_rebind();
	if (!fs_stands_in_for(symbol))
		return NULL;
	// RTLD_NEXT depends on the caller; for a name of the driver it can only mean
	// the driver, or an interposer behind us, which has us behind itself.
	if (handle == RTLD_NEXT)
		handle = RTLD_DEFAULT;
	void *found = version ? ((void *(*)(void *, const char *, const char *))fs_libc_dlvsym)(handle, symbol, version)
			      : ((void *(*)(void *, const char *))fs_libc_dlsym)(handle, symbol);
	return fs_answer(symbol, found);
}

// With RTLD_DEEPBIND a library looks into its own dependencies before it looks at
// us. Where the caller does not matter we open it here and rebind it at once;
// else at the next dlsym, which is how a program gets at what it has opened.
bool fs_pick_open(const char *file, int flags, void **handle) __attribute__((visibility("hidden"), used));
bool fs_pick_open(const char *file, int flags, void **handle)
{
	fs_find_libc();
	if (likely(!(flags & RTLD_DEEPBIND)))
		return false;
	if (file == NULL || *file != '/') {
		atomic_store(&rebind_due, 1);
		return false;
	}
	*handle = ((void *(*)(const char *, int))fs_libc_dlopen)(file, flags);
	if (*handle != NULL)
		fs_rebind();
	return true;
}

#if defined(__x86_64__)
#define STUB3(name, three)                                                       \
	".hidden " name "\n.type " name ",@function\n.globl " name "\n" name ":\n" \
	"	.cfi_startproc\n	endbr64\n"                                      \
	"	push %rdi\n	.cfi_adjust_cfa_offset 8\n"                             \
	"	push %rsi\n	.cfi_adjust_cfa_offset 8\n"                             \
	"	push %rdx\n	.cfi_adjust_cfa_offset 8\n" three                       \
	"	call fs_pick\n"                                                        \
	"	pop %rdx\n	.cfi_adjust_cfa_offset -8\n"                            \
	"	pop %rsi\n	.cfi_adjust_cfa_offset -8\n"                            \
	"	pop %rdi\n	.cfi_adjust_cfa_offset -8\n"                            \
	"	test %rax, %rax\n	jz 1f\n	ret\n1:"
__asm__(".text\n" STUB3("fs_dlsym_stub", "	xor %edx, %edx\n")
	"	jmp *fs_libc_dlsym(%rip)\n	.cfi_endproc\n	.size fs_dlsym_stub, .-fs_dlsym_stub\n"
	STUB3("fs_dlvsym_stub", "")
	"	jmp *fs_libc_dlvsym(%rip)\n	.cfi_endproc\n	.size fs_dlvsym_stub, .-fs_dlvsym_stub\n"
	".hidden fs_dlopen_stub\n.type fs_dlopen_stub,@function\n.globl fs_dlopen_stub\nfs_dlopen_stub:\n"
	"	.cfi_startproc\n	endbr64\n"
	"	push %rdi\n	.cfi_adjust_cfa_offset 8\n"
	"	push %rsi\n	.cfi_adjust_cfa_offset 8\n"
	"	sub $8, %rsp\n	.cfi_adjust_cfa_offset 8\n"
	"	mov %rsp, %rdx\n	call fs_pick_open\n"
	"	pop %rdx\n	.cfi_adjust_cfa_offset -8\n"
	"	pop %rsi\n	.cfi_adjust_cfa_offset -8\n"
	"	pop %rdi\n	.cfi_adjust_cfa_offset -8\n"
	"	test %al, %al\n	jz 1f\n	mov %rdx, %rax\n	ret\n"
	"1:	jmp *fs_libc_dlopen(%rip)\n	.cfi_endproc\n	.size fs_dlopen_stub, .-fs_dlopen_stub\n");
#define OLD_VERSION "GLIBC_2.2.5"
#elif defined(__aarch64__)
#define STUB3(name, three)                                                       \
	".hidden " name "\n.type " name ",%function\n.globl " name "\n" name ":\n" \
	"	stp x29, x30, [sp, #-48]!\n	stp x0, x1, [sp, #16]\n	str x2, [sp, #32]\n" three \
	"	bl fs_pick\n	mov x9, x0\n"                                           \
	"	ldp x0, x1, [sp, #16]\n	ldr x2, [sp, #32]\n	ldp x29, x30, [sp], #48\n" \
	"	cbz x9, 1f\n	mov x0, x9\n	ret\n1:"
#define JUMP(to) "	adrp x9, " to "\n	ldr x9, [x9, #:lo12:" to "]\n	br x9\n"
__asm__(".text\n" STUB3("fs_dlsym_stub", "	mov x2, #0\n") JUMP("fs_libc_dlsym")
	STUB3("fs_dlvsym_stub", "") JUMP("fs_libc_dlvsym")
	".hidden fs_dlopen_stub\n.type fs_dlopen_stub,%function\n.globl fs_dlopen_stub\nfs_dlopen_stub:\n"
	"	stp x29, x30, [sp, #-48]!\n	stp x0, x1, [sp, #16]\n	add x2, sp, #32\n"
	"	bl fs_pick_open\n	mov w9, w0\n"
	"	ldp x0, x1, [sp, #16]\n	ldr x2, [sp, #32]\n	ldp x29, x30, [sp], #48\n"
	"	tst w9, #0xff\n	b.eq 1f\n	mov x0, x2\n	ret\n1:" JUMP("fs_libc_dlopen"));
#define OLD_VERSION "GLIBC_2.17"
#else
#error "libfairslice.so is written for x86-64 and AArch64"
#endif

// Both versions of each name: programs linked before and since glibc 2.34.
#define VERSIONED(name)                                                        \
	__asm__(".globl fs_" name "_new\n.type fs_" name "_new,%function\n.set fs_" name "_new, fs_" name "_stub\n" \
		".symver fs_" name "_new, " name "@@GLIBC_2.34\n"               \
		".globl fs_" name "_old\n.type fs_" name "_old,%function\n.set fs_" name "_old, fs_" name "_stub\n" \
		".symver fs_" name "_old, " name "@" OLD_VERSION "\n");
VERSIONED("dlsym")
VERSIONED("dlvsym")
VERSIONED("dlopen")

#endif
