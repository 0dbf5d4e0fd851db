// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package kubelet

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// reached are the ways in which a program gets at the driver's functions; see
// deviceplugin/interceptor/testprog/probe_resolve.c.
var reached = []string{"link", "dlsym", "dlvsym", "dlvsym-new", "next", "proc", "proc-old", "proc-ptsz", "deepbind", "deepbind-dlsym"}

// full is what driver and NVML say of a slice without a byte left.
const full = `
	info: ok free 0MiB total 10240MiB
	nvml 0: ok free 0MiB total 10240MiB used 10240MiB`

// waysToTake are the ways to take GPU memory, each with the whole dialogue of a
// program that holds 10 GiB of a GPU: it takes nearly all, is refused the first byte
// too many, and is given what is left to the last byte. One line is a command and,
// behind the colon, what must come of it. Sizes: driver memory has pages of 2 MiB, an
// array takes rows in steps of 64 KiB and one step more.
var waysToTake = []struct{ name, dialogue string }{
	{"cuMemAlloc", `
	alloc 10GiB+1: OUT_OF_MEMORY
	a = alloc 10238MiB: ok
	alloc 2MiB+1: OUT_OF_MEMORY
	b = alloc 2MiB: ok
	alloc 1: OUT_OF_MEMORY
	free b: ok
	c = alloc 1: ok` + full},
	{"cuMemAlloc of API 2.0", `
	a = alloc 10238MiB: ok
	alloc1 2MiB+1: OUT_OF_MEMORY
	b = alloc1 2MiB: ok` + full},
	{"cuMemAllocPitch", `
	a = alloc 10176MiB: ok
	pitch 512 131073: OUT_OF_MEMORY
	b = pitch 512 131072: ok` + full},
	{"cuMemAllocPitch of API 2.0", `
	a = alloc 10176MiB: ok
	pitch1 512 131073: OUT_OF_MEMORY
	b = pitch1 512 131072: ok` + full},
	{"cuMemAllocManaged", `
	a = managed 10238MiB: ok
	managed 2MiB+1: OUT_OF_MEMORY
	b = managed 2MiB: ok` + full},
	{"cuMemHostAlloc is host memory", `
	h = host 20GiB: ok
	a = alloc 10GiB: ok` + full},

	{"cuMemAllocAsync", `
	a = async 10238MiB 0: ok
	async 2MiB+1 0: OUT_OF_MEMORY
	b = async 2MiB 0: ok` + full},
	{"cuMemAllocFromPoolAsync", `
	p = pool 0: ok
	a = async-from p 10238MiB: ok
	async-from p 2MiB+1: OUT_OF_MEMORY
	b = async-from p 2MiB: ok` + full},
	{"cuDeviceSetMemPool", `
	p = pool 0: ok
	use-pool p: ok
	q = current-pool: ok
	a = async 10238MiB 0: ok
	async-from q 2MiB+1: OUT_OF_MEMORY
	b = async-from q 2MiB: ok` + full},
	{"cuMemGetMemPool and cuMemGetDefaultMemPool", `
	p = pool-at 1 0: ok
	a = async-from p 10238MiB: ok
	q = default-pool-at 1 0: ok
	async-from q 2MiB+1: OUT_OF_MEMORY
	b = async-from q 2MiB: ok` + full},
	{"what a pool keeps after its blocks are freed", `
	d = default-pool: ok
	threshold d 10GiB: ok
	a = async 10238MiB 0: ok
	free-async a 0: ok
	sync 0: ok
	nvml 0: ok free 2MiB total 10240MiB used 10238MiB
	alloc 10GiB+1: OUT_OF_MEMORY
	b = alloc 10GiB: ok` + full},
	{"pools of the host and of other processes", `
	h = host-pool: ok
	a = async-from h 20GiB: ok
	i = import-pool: ok
	b = import-pointer i: ok
	nvml 0: ok free 10240MiB total 10240MiB used 0MiB`},

	{"cuMemCreate", `
	a = create 0 10238MiB: ok
	create 0 4MiB: OUT_OF_MEMORY
	b = create 0 2MiB: ok
	create 0 2MiB: OUT_OF_MEMORY` + full},
	{"cuMemCreate of host memory", `
	a = create-host 0 20GiB: ok
	nvml 0: ok free 10240MiB total 10240MiB used 0MiB`},
	{"cuMemMap holds what cuMemRelease gave up", `
	a = create 0 10238MiB: ok
	p = map a 10238MiB: ok
	release a: ok
	create 0 4MiB: OUT_OF_MEMORY
	unmap p 10238MiB: ok
	b = create 0 10GiB: ok` + full},
	{"segments side by side", `
	v = reserve 20GiB: ok
	a = create 0 5GiB: ok
	b = create 0 5118MiB: ok
	map-at v 0 a 5GiB: ok
	map-at v 5GiB b 5118MiB: ok
	release a: ok
	release b: ok
	create 0 4MiB: OUT_OF_MEMORY
	c = create 0 2MiB: ok` + full},
	{"cuMemRetainAllocationHandle", `
	a = create 0 10GiB: ok
	p = map a 10GiB: ok
	r = retain p 0: ok
	release a: ok
	unmap p 10GiB: ok
	create 0 2MiB: OUT_OF_MEMORY` + full},
	{"cuMemImportFromShareableHandle", `
	a = create 0 10GiB: ok
	x = export a: ok
	i = import x: ok
	release a: ok
	create 0 2MiB: OUT_OF_MEMORY` + full},
	{"cuMulticastBindMem", `
	m = multicast 10GiB: ok
	a = create 0 10GiB: ok
	bind m a 10GiB: ok
	release a: ok
	create 0 2MiB: OUT_OF_MEMORY` + full},
	{"cuMulticastBindMem of CUDA 13.1", `
	m = multicast 10GiB: ok
	a = create 0 10GiB: ok
	bind2 m a 10GiB: ok
	release a: ok
	create 0 2MiB: OUT_OF_MEMORY` + full},
	{"cuMulticastBindAddr", `
	m = multicast 10GiB: ok
	a = create 0 10GiB: ok
	p = map a 10GiB: ok
	bind-addr m p 10GiB: ok
	unmap p 10GiB: ok
	release a: ok
	create 0 2MiB: OUT_OF_MEMORY` + full},
	{"cuMulticastBindAddr of CUDA 13.1", `
	m = multicast 10GiB: ok
	a = create 0 10GiB: ok
	p = map a 10GiB: ok
	bind-addr2 m p 10GiB: ok
	unmap p 10GiB: ok
	release a: ok
	create 0 2MiB: OUT_OF_MEMORY` + full},
	{"cuMemMapArrayAsync", `
	s = sparse-array 4096 4096 0: ok
	a = create 0 10GiB: ok
	tile s 0 a: ok
	release a: ok
	create 0 2MiB: OUT_OF_MEMORY` + full},

	{"cuArrayCreate", `
	a = alloc 10176MiB: ok
	array 4096 4093: OUT_OF_MEMORY
	b = array 4096 4092: ok` + full},
	{"cuArrayCreate of API 2.0", `
	a = alloc 10176MiB: ok
	array1 4096 4093: OUT_OF_MEMORY
	b = array1 4096 4092: ok` + full},
	{"cuArray3DCreate", `
	a = alloc 10176MiB: ok
	array3d 4096 1024 4: OUT_OF_MEMORY
	b = array3d 4096 1023 4: ok` + full},
	{"cuArray3DCreate of API 2.0", `
	a = alloc 10176MiB: ok
	array3d1 4096 1024 4: OUT_OF_MEMORY
	b = array3d1 4096 1023 4: ok` + full},
	{"cuMipmappedArrayCreate", `
	a = alloc 10176MiB: ok
	mipmap 4096 4093 1: OUT_OF_MEMORY
	b = mipmap 4096 4092 1: ok` + full},

	{"cuGraphAddMemAllocNode", `
	g = graph: ok
	alloc-node g 10GiB+1: OUT_OF_MEMORY
	n = alloc-node g 10GiB: ok
	e = instantiate g: ok
	a = alloc 2MiB: ok
	launch e: OUT_OF_MEMORY
	free a: ok
	launch e: ok` + full},
	{"cuGraphAddNode of CUDA 12.2", `
	g = graph: ok
	any-node1 g 10GiB+1: OUT_OF_MEMORY
	n = any-node1 g 10GiB: ok
	e = instantiate1 g: ok
	launch e: ok` + full},
	{"cuGraphAddNode of CUDA 12.3", `
	g = graph: ok
	any-node g 10GiB+1: OUT_OF_MEMORY
	n = any-node g 10GiB: ok
	e = instantiate2 g: ok
	launch e: ok` + full},
	{"cuGraphAddNode of CUDA 13.4", `
	g = graph: ok
	any-node3 g 10GiB+1: OUT_OF_MEMORY
	n = any-node3 g 10GiB: ok
	e = instantiate-params g: ok
	upload e: ok` + full},
	{"cuGraphInstantiate of two nodes that do not fit together", `
	g = graph: ok
	a = alloc-node g 6GiB: ok
	b = alloc-node g 4098MiB: ok
	instantiate g: OUT_OF_MEMORY
	instantiate1 g: OUT_OF_MEMORY
	instantiate2 g: OUT_OF_MEMORY
	instantiate-params g: OUT_OF_MEMORY`},
	{"a graph in a graph", `
	c = graph: ok
	a = alloc-node c 6GiB: ok
	b = alloc-node c 4098MiB: ok
	g = graph: ok
	k = child-node g c: ok
	instantiate g: OUT_OF_MEMORY`},
	{"cuMemAllocAsync under capture", `
	a = alloc 2MiB: ok
	s = stream: ok
	capture s: ok
	b = async 10GiB s: ok
	g = end-capture s: ok
	e = instantiate g: ok
	nvml 0: ok free 10238MiB total 10240MiB used 2MiB
	launch e: OUT_OF_MEMORY
	free a: ok
	launch e: ok` + full},

	{"cuCtxSetLimit of the device heap", `
	a = alloc 10192MiB: ok
	heap 56MiB+1: OUT_OF_MEMORY
	heap 56MiB: ok` + full},
	{"a context of one's own", `
	c = context 0: ok
	a = alloc 10GiB: ok
	d = context1 0: ok
	alloc 1: OUT_OF_MEMORY
	e = context3 0: ok
	alloc 1: OUT_OF_MEMORY
	g = context4 0: ok
	alloc 1: OUT_OF_MEMORY
	destroy-context c: ok
	b = alloc 10GiB: ok` + full},
	{"the end of the primary context", `
	a = alloc 10GiB: ok
	alloc 1: OUT_OF_MEMORY
	reset-primary 0: ok
	retain-primary 0: ok
	b = alloc 10GiB: ok` + full},
	{"a context by the driver's private table", `
	release-primary 0: ok
	retain-private: ok
	alloc 10GiB+1: OUT_OF_MEMORY
	a = alloc 10GiB: ok` + full},
	{"threads", `
	a = alloc 9984MiB: ok
	threads 16 2MiB: ok 128 granted` + full},
}

// TestEveryWayToTakeMemory runs each dialogue in a real container, each time by each
// way to reach the driver.
func TestEveryWayToTakeMemory(t *testing.T) {
	f := use(t)
	script := &strings.Builder{}
	script.WriteString("export PROBE_DEEPBIND=/usr/lib/standin/deepbind.so\n")
	for i, w := range waysToTake {
		var commands []string
		for line := range strings.Lines(plain(w.dialogue)) {
			command, _, _ := strings.Cut(line, ": ")
			commands = append(commands, command)
		}
		fmt.Fprintf(script, "cat >/tmp/in <<END\n%s\nEND\n", strings.Join(commands, "\n"))
		fmt.Fprintf(script, "for by in %s; do echo \"= %d $by\"; probe $by </tmp/in 2>/tmp/errors; done\n", strings.Join(reached, " "), i)
	}
	f.create(cuda("ways", script.String()))
	f.eventuallyIs(180*time.Second, corev1.PodSucceeded, "ways")
	got := map[string]string{}
	for _, section := range strings.Split("\n"+f.log("ways"), "\n= ")[1:] {
		head, text, _ := strings.Cut(section, "\n")
		got[head] = strings.TrimSpace(text)
	}
	for i, w := range waysToTake {
		t.Run(w.name, func(t *testing.T) {
			for _, by := range reached {
				if text := got[fmt.Sprintf("%d %s", i, by)]; text != plain(w.dialogue) {
					t.Errorf("by %s the program printed\n%s\nwant\n%s", by, text, plain(w.dialogue))
				}
			}
		})
	}
}

// plain takes the indentation of this file out of a dialogue.
func plain(dialogue string) string {
	return strings.TrimSpace(strings.ReplaceAll(dialogue, "\n\t", "\n"))
}
