// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package cgroup

/*
#cgo LDFLAGS: -ldl
#include <dlfcn.h>
#include <stdlib.h>

// The two structures of nvml.h of CUDA 13.4, which go-nvml does not have yet.
struct fs_set { const char *name; unsigned long long soft, hard; };
struct fs_get { const char *name; unsigned long long soft, hard, used; };

struct fs_nvml {
	void *lib;
	int (*init)(void), (*shutdown)(void);
	int (*by_uuid)(const char *, void **);
	int (*set)(void *, struct fs_set *);
	int (*get)(void *, struct fs_get *);
	const char *(*text)(int);
};

// fs_open returns what is missing, NULL if nothing is.
static const char *fs_open(struct fs_nvml *n, const char *path) {
	if ((n->lib = dlopen(path, RTLD_NOW | RTLD_LOCAL)) == NULL)
		return dlerror();
	*(void **)&n->init = dlsym(n->lib, "nvmlInit_v2");
	*(void **)&n->shutdown = dlsym(n->lib, "nvmlShutdown");
	*(void **)&n->by_uuid = dlsym(n->lib, "nvmlDeviceGetHandleByUUID");
	*(void **)&n->text = dlsym(n->lib, "nvmlErrorString");
	*(void **)&n->set = dlsym(n->lib, "nvmlDeviceSetMemoryLimits_v1");
	*(void **)&n->get = dlsym(n->lib, "nvmlDeviceGetMemoryLimits_v1");
	return n->init && n->shutdown && n->by_uuid && n->text ? NULL : "it is not NVML";
}
static int fs_init(struct fs_nvml *n) { return n->init(); }
static const char *fs_text(struct fs_nvml *n, int code) { return n->text(code); }
static void fs_close(struct fs_nvml *n, int up) { if (up) n->shutdown(); dlclose(n->lib); }
static int fs_limit(struct fs_nvml *n, const char *uuid, const char *group, unsigned long long hard) {
	void *device;
	int code = n->by_uuid(uuid, &device);
	struct fs_set s = {group, 0, hard};
	return code ? code : n->set(device, &s);
}
static int fs_read(struct fs_nvml *n, const char *uuid, const char *group, unsigned long long *hard) {
	void *device;
	int code = n->by_uuid(uuid, &device);
	struct fs_get g = {group, 0, 0, 0};
	if (code == 0 && (code = n->get(device, &g)) == 0)
		*hard = g.hard;
	return code;
}
*/
import "C"

import (
	"fmt"
	"unsafe"
)

// Codes of nvmlReturn_t.
const (
	nvmlNotSupported     = 3
	nvmlFunctionNotFound = 13
)

type library struct{ n C.struct_fs_nvml }

// Open loads the driver's library; an empty path means the dynamic linker's choice
// of libnvidia-ml.so.1. A driver older than R615 gives ErrUnsupported.
func Open(path string) (Driver, error) {
	if path == "" {
		path = "libnvidia-ml.so.1"
	}
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	l := &library{}
	if missing := C.fs_open(&l.n, name); missing != nil {
		return nil, fmt.Errorf("loading %s: %s", path, C.GoString(missing))
	}
	if l.n.set == nil || l.n.get == nil {
		C.fs_close(&l.n, 0)
		return nil, fmt.Errorf("%w: %s is older than R615", ErrUnsupported, path)
	}
	if code := C.fs_init(&l.n); code != 0 {
		err := l.failure(code)
		C.fs_close(&l.n, 0)
		return nil, fmt.Errorf("initializing %s: %w", path, err)
	}
	return l, nil
}

func (l *library) failure(code C.int) error {
	switch code {
	case 0:
		return nil
	case nvmlNotSupported, nvmlFunctionNotFound:
		return fmt.Errorf("%w (NVML: %s)", ErrUnsupported, C.GoString(C.fs_text(&l.n, code)))
	}
	return fmt.Errorf("NVML error %d: %s", int(code), C.GoString(C.fs_text(&l.n, code)))
}

func (l *library) SetLimit(uuid, group string, bytes uint64) error {
	u, g := C.CString(uuid), C.CString(group)
	defer C.free(unsafe.Pointer(u))
	defer C.free(unsafe.Pointer(g))
	return l.failure(C.fs_limit(&l.n, u, g, C.ulonglong(bytes)))
}

func (l *library) Limit(uuid, group string) (uint64, error) {
	u, g := C.CString(uuid), C.CString(group)
	defer C.free(unsafe.Pointer(u))
	defer C.free(unsafe.Pointer(g))
	var hard C.ulonglong
	err := l.failure(C.fs_read(&l.n, u, g, &hard))
	return uint64(hard), err
}

func (l *library) Close() error {
	C.fs_close(&l.n, 1)
	return nil
}
