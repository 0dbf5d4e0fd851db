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

// togetherInAContainer are what processes of one container do, one after the other in
// a shell of the CUDA image, with 10 GiB of a GPU for all of them.
var togetherInAContainer = []struct{ name, script, want string }{
	{"a child of fork shares its parent's budget", `
	printf 'a = alloc 6GiB\nfork alloc 4GiB+1\nfork alloc 4GiB\nfork info\ninfo\n' | probe link`, `
	a = alloc 6GiB: ok
	  child: OUT_OF_MEMORY
	  child: ok
	  child: ok free 4096MiB total 10240MiB
	info: ok free 4096MiB total 10240MiB`},

	{"a program after exec holds nothing", `
	printf 'a = alloc 10GiB\nexec\ninfo\nb = alloc 10GiB\nalloc 1\n' | probe link`, `
	a = alloc 10GiB: ok
	info: ok free 10240MiB total 10240MiB
	b = alloc 10GiB: ok
	alloc 1: OUT_OF_MEMORY`},

	{"an empty environment changes nothing", `
	printf 'alloc 10GiB+1\na = alloc 10GiB\ninfo\n' | env -i LD_LIBRARY_PATH=$LD_LIBRARY_PATH STANDIN_GPUS=$STANDIN_GPUS STANDIN_UUIDS=$STANDIN_UUIDS probe proc`, `
	alloc 10GiB+1: OUT_OF_MEMORY
	a = alloc 10GiB: ok
	info: ok free 0MiB total 10240MiB`},

	{"another user shares the budget", `
	chmod 666 /tmp/fairslice-standin
	background root; echo 'a = alloc 6GiB' >/tmp/in.root; await root 1
	su -s /bin/sh nobody -c "printf 'processes\nalloc 4GiB+1\na = alloc 4GiB\ninfo\n' | probe link"
	kill -9 $root`, `
	processes: ok 1 processes use 6144MiB, this one 0MiB; graphics 0, mps 0, details 1, utilisation 1, sizing right
	alloc 4GiB+1: OUT_OF_MEMORY
	a = alloc 4GiB: ok
	info: ok free 0MiB total 10240MiB`},

	{"memory of another process is charged once", `
	background exporter; printf 'h = alloc 10GiB\nipc-get h\n' >/tmp/in.exporter; await exporter 2
	handle=$(sed -n 's/^ipc-get h: ok //p' /tmp/out.exporter)
	printf "i = ipc-open $handle\nprocesses\nalloc 1\nipc-close i\n" | probe link | sed "s/$handle/HANDLE/"
	kill -9 $exporter`, `
	i = ipc-open HANDLE: ok
	processes: ok 1 processes use 10240MiB, this one 0MiB; graphics 0, mps 0, details 1, utilisation 1, sizing right
	alloc 1: OUT_OF_MEMORY
	ipc-close i: ok`},

	{"one that is killed in the middle of an allocation frees its part", `
	export STANDIN_PAUSE=6000000
	background slow; unset STANDIN_PAUSE; echo 'a = alloc 10GiB' >/tmp/in.slow
	until printf 'alloc 2MiB\n' | timeout 5 probe link | grep OUT_OF; do sleep 0.2; done
	kill -9 $slow; cat /tmp/out.slow
	printf 'info\na = alloc 10GiB\n' | probe link`, `
	alloc 2MiB: OUT_OF_MEMORY
	info: ok free 10240MiB total 10240MiB
	a = alloc 10GiB: ok`},

	{"two hundred that start together are given what there is", `
	for i in $(seq 200); do printf 'a = alloc 51MiB\nsleep 60000\n' | probe link >/tmp/one.$i & done
	until [ $(cat /tmp/one.* | wc -l) = 200 ]; do sleep 0.2; done
	cat /tmp/one.* | sort | uniq -c | sed 's/^ *//'
	kill -9 $(pidof probe)
	printf 'info\na = alloc 10GiB\n' | probe link`, `
	4 a = alloc 51MiB: OUT_OF_MEMORY
	196 a = alloc 51MiB: ok
	info: ok free 10240MiB total 10240MiB
	a = alloc 10GiB: ok`},
}

// inBackground are shell functions: background NAME starts a probe that takes lines
// from /tmp/in.NAME, its PID in $NAME; await NAME N waits for N lines of its output.
const inBackground = `exec 2>/dev/null
	background() { mkfifo /tmp/in.$1; sleep 600 >/tmp/in.$1 & probe link </tmp/in.$1 >/tmp/out.$1 & eval $1=$!; }
	await() { until [ $(cat /tmp/out.$1 | wc -l) -ge $2 ]; do sleep 0.1; done; }
`

// TestProcessesOfAContainer plays them in a container of a real kubelet.
func TestProcessesOfAContainer(t *testing.T) {
	f := use(t)
	script := &strings.Builder{}
	script.WriteString(inBackground)
	for i, s := range togetherInAContainer {
		fmt.Fprintf(script, "echo '= %d'\n%s\n", i, plain(s.script))
	}
	f.create(cuda("together", script.String()+"exit 0"))
	f.eventuallyIs(180*time.Second, corev1.PodSucceeded, "together")
	sections := strings.Split("\n"+f.log("together"), "\n= ")[1:]
	for i, s := range togetherInAContainer {
		t.Run(s.name, func(t *testing.T) {
			got := ""
			if i < len(sections) {
				_, got, _ = strings.Cut(sections[i], "\n")
			}
			if want := plain(s.want); strings.TrimSpace(got) != want {
				t.Errorf("the processes printed\n%s\nwant\n%s", got, want)
			}
		})
	}
}
