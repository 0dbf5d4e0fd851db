// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package interceptor_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fairslice/fairslice/deviceplugin/interceptor"
)

const mib = uint64(1) << 20

func create(t testing.TB, m *machine, memory uint64, milli uint32) *interceptor.Region {
	t.Helper()
	r, err := interceptor.Create(m.region(), interceptor.Limits{Devices: []interceptor.DeviceLimit{
		{UUID: standinUUID(0), MemoryBytes: memory, ComputeMilli: milli},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// checkExact compares the library's account with the stand-in GPU's own.
func checkExact(t *testing.T, m *machine, r *interceptor.Region, limit uint64) {
	t.Helper()
	used, peak, _, err := readMachine(m)
	if err != nil {
		t.Fatal(err)
	}
	devices, err := r.Usage()
	if err != nil {
		t.Fatal(err)
	}
	if devices[0].UsedBytes != used {
		t.Errorf("account says %d bytes, the GPU says %d", devices[0].UsedBytes, used)
	}
	if peak > limit {
		t.Errorf("the GPU once held %d bytes, the limit is %d", peak, limit)
	}
}

// TestRandomSequencesOfEightProcesses runs 10,000 sequences of 10 random
// allocations and frees of every kind, by 8 processes of 2 threads, on one budget
// that is always too small for all. Guards against HAMi #1181 (underflow) and
// against leaks.
func TestRandomSequencesOfEightProcesses(t *testing.T) {
	const limit = 160 * mib
	m := newMachine(t)
	r := create(t, m, limit, 1000)
	var all []*program
	for i := range 8 {
		p, err := start(m.command("stress", "2", "625", strconv.Itoa(i+1)))
		if err != nil {
			t.Fatal(err)
		}
		defer p.end(true)
		all = append(all, p)
	}
	for i, p := range all {
		if line, err := p.out.ReadString('\n'); err != nil || line != "done\n" {
			t.Fatalf("process %d said %q: %v", i, line, err)
		}
	}
	checkExact(t, m, r, limit)
	for i, p := range all {
		_ = p.in.Close()
		if line, err := p.out.ReadString('\n'); err != nil || line != "ok\n" {
			t.Fatalf("process %d said %q at its end: %v", i, line, err)
		}
	}
	for _, p := range all {
		p.end(false)
	}
	if devices, err := r.Usage(); err != nil || devices[0].UsedBytes != 0 || devices[0].Refusals == 0 {
		t.Errorf("at the end %+v, %v; want nothing used and some refusals", devices, err)
	}
}

// TestRefusedExactly plays one random request after the other to 8 processes and
// to a model: granted if and only if the pages fit.
func TestRefusedExactly(t *testing.T) {
	const limit, page = 256 * mib, 2 * mib
	m := newMachine(t)
	r := create(t, m, limit, 1000)
	type block struct {
		name  string
		pages uint64
	}
	var (
		random = rand.New(rand.NewPCG(1, 2))
		procs  []*program
		held   = map[int][]block{}
		used   uint64
	)
	for range 8 {
		p, err := start(m.command("probe", "link"))
		if err != nil {
			t.Fatal(err)
		}
		defer p.end(true)
		procs = append(procs, p)
	}
	for step := range 6000 {
		i := random.IntN(8)
		if n := len(held[i]); n > 0 && (random.IntN(2) == 0 || n > 20) {
			k := random.IntN(n)
			if got, err := procs[i].tell("free " + held[i][k].name); err != nil || !strings.HasSuffix(got, ": ok\n") {
				t.Fatalf("step %d: %s %v", step, got, err)
			}
			used -= held[i][k].pages * page
			held[i] = append(held[i][:k], held[i][k+1:]...)
			continue
		}
		size := random.Uint64N(24*mib) + page
		pages := (size + page - 1) / page
		b := block{fmt.Sprintf("b%d", random.IntN(1<<30)%200), pages}
		for _, other := range held[i] {
			if other.name == b.name {
				b.name += "x"
			}
		}
		got, err := procs[i].tell(fmt.Sprintf("%s = alloc %d", b.name, size))
		if err != nil {
			t.Fatal(err)
		}
		fits := used+pages*page <= limit
		if granted := strings.HasSuffix(got, ": ok\n"); granted != fits {
			t.Fatalf("step %d: %d bytes on top of %d of %d: granted %t", step, size, used, limit, granted)
		}
		if fits {
			used += pages * page
			held[i] = append(held[i], b)
		}
	}
	checkExact(t, m, r, limit)
	if devices, _ := r.Usage(); devices[0].UsedBytes != used {
		t.Errorf("account says %d bytes, the model says %d", devices[0].UsedBytes, used)
	}
}

// TestKilledInTheMiddle kills processes at random instants while they allocate.
// Others go on, and when all are dead everything is free again. Guards against
// HAMi #2500, core #86 (a lock held by a dead process).
func TestKilledInTheMiddle(t *testing.T) {
	const limit = 128 * mib
	m := newMachine(t)
	r := create(t, m, limit, 1000)
	witness, err := start(m.command("probe", "link"))
	if err != nil {
		t.Fatal(err)
	}
	defer witness.end(true)
	random := rand.New(rand.NewPCG(3, 4))
	for range 40 {
		var victims []*exec.Cmd
		for v := range 3 {
			c := m.command("probe", "link")
			c.Stdin = strings.NewReader(fmt.Sprintf("churn %dMiB %d\n", 2+2*v, v%2))
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			victims = append(victims, c)
		}
		time.Sleep(time.Duration(5+random.IntN(15)) * time.Millisecond)
		for _, c := range victims {
			_ = c.Process.Kill()
		}
		began := time.Now()
		if _, err := witness.tell("info"); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(began); d > 2*time.Second {
			t.Errorf("a query took %v after processes were killed", d)
		}
		for _, c := range victims {
			_ = c.Wait()
		}
	}
	out, err := witness.tell("a = alloc 128MiB")
	if err != nil || out != "a = alloc 128MiB: ok\n" {
		t.Errorf("after all were killed: %s %v", out, err)
	}
	checkExact(t, m, r, limit)
}

// TestSelfKilledThreads ends processes by SIGKILL out of their own threads.
func TestSelfKilledThreads(t *testing.T) {
	const limit = 64 * mib
	m := newMachine(t)
	r := create(t, m, limit, 1000)
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() { _ = m.command("stress", "4", "100000", strconv.Itoa(i), "die").Run() })
	}
	wg.Wait()
	c := m.command("probe", "link")
	c.Stdin = strings.NewReader("a = alloc 64MiB\ninfo\n")
	out, err := c.Output()
	if err != nil || !strings.HasPrefix(string(out), "a = alloc 64MiB: ok\n") {
		t.Errorf("%s %v", out, err)
	}
	if _, peak, _, err := readMachine(m); err != nil || peak > limit {
		t.Errorf("the GPU once held %d bytes, the limit is %d (%v)", peak, limit, err)
	}
	_ = r
}

// TestTwoHundredProcesses starts 200 programs together, each with its context and
// an allocation. Guards against HAMi #1662 (one start took minutes).
func TestTwoHundredProcesses(t *testing.T) {
	const n, limit = 200, 400 * mib
	m := newMachine(t)
	r := create(t, m, limit, 1000)
	plain := startTogether(t, m, n, false)
	took := startTogether(t, m, n, true)
	t.Logf("200 processes: %v with the library, %v without", took, plain)
	// What the library adds is bounded; the rest is starting 200 programs.
	if took-plain > 2*time.Second {
		t.Errorf("200 processes took %v longer with the library, at most 2s are allowed", took-plain)
	}
	checkPeak(t, m, limit)
	c := m.command("probe", "link")
	c.Stdin = strings.NewReader("info\n")
	if out, err := c.Output(); err != nil || string(out) != "info: ok free 400MiB total 400MiB\n" {
		t.Errorf("afterwards %s %v", out, err)
	}
	_ = r
}

// TestPoolEndsWhileOthersSynchronise: a synchronisation settles all pools, and must
// not ask one that another thread is just destroying.
func TestPoolEndsWhileOthersSynchronise(t *testing.T) {
	m := newMachine(t, "STANDIN_PAUSE=1000")
	create(t, m, 64*mib, 1000)
	c := m.command("probe", "link")
	c.Stdin = strings.NewReader("destroy-pools 50\n")
	if out, err := c.Output(); err != nil || string(out) != "destroy-pools 50: ok 0 times the block was not charged\n" {
		t.Errorf("%s %v", out, err)
	}
}

// TestFirstCallsOfManyThreads: who comes while another thread still looks up the
// driver's functions waits for all of them.
func TestFirstCallsOfManyThreads(t *testing.T) {
	m := newMachine(t)
	create(t, m, 64*mib, 1000)
	for range 200 {
		c := m.command("probe", "link", "bare")
		c.Stdin = strings.NewReader("first-calls 16\n")
		if out, err := c.Output(); err != nil || string(out) != "first-calls 16: INVALID_CONTEXT\n" {
			t.Fatalf("%s %v", out, err)
		}
	}
}

func checkPeak(t *testing.T, m *machine, limit uint64) {
	t.Helper()
	if _, peak, _, err := readMachine(m); err != nil || peak > limit {
		t.Errorf("the GPU once held %d bytes, the limit is %d (%v)", peak, limit, err)
	}
}

func startTogether(t *testing.T, m *machine, n int, under bool) time.Duration {
	t.Helper()
	began := time.Now()
	outputs := make([]bytes.Buffer, n)
	cmds := make([]*exec.Cmd, n)
	for i := range cmds {
		cmds[i] = m.command("probe", "link")
		if !under {
			cmds[i].Env = append(cmds[i].Env, "LD_PRELOAD=")
		}
		cmds[i].Stdin, cmds[i].Stdout = strings.NewReader("a = alloc 2MiB\n"), &outputs[i]
		if err := cmds[i].Start(); err != nil {
			t.Fatal(err)
		}
	}
	for i, c := range cmds {
		if err := c.Wait(); err != nil || outputs[i].String() != "a = alloc 2MiB: ok\n" {
			t.Fatalf("process %d: %q %v", i, outputs[i].String(), err)
		}
	}
	return time.Since(began)
}
