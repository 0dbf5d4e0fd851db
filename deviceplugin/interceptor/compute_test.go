// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package interceptor_test

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestComputeShare measures how busy the stand-in GPU was. A container with a
// share of 250 may not keep it busy for much more than a quarter of the time,
// whatever it launches with and however many processes it has; HAMi-core lets
// cooperative and graph launches pass.
func TestComputeShare(t *testing.T) {
	for _, c := range []struct {
		how       string
		micros    int
		processes int
		way       string
	}{
		{"kernel", 1000, 1, "link"},
		{"kernel", 1000, 1, "proc-ptsz"},
		{"cooperative", 1000, 1, "link"},
		{"ex", 1000, 1, "link"},
		{"grid", 1000, 1, "link"},
		{"graph", 2000, 1, "link"},
		{"graph", 2000, 1, "proc-ptsz"},
		{"kernel", 100, 1, "link"},
		{"kernel", 30000, 1, "link"},
		{"reset", 1000, 1, "link"},
		{"threads", 20000, 1, "link"},
		{"beside", 40000, 1, "link"},
		{"kernel", 1000, 4, "link"},
	} {
		t.Run(fmt.Sprintf("%s of %dus by %d through %s", c.how, c.micros, c.processes, c.way), func(t *testing.T) {
			// Never above the share. A busy machine keeps the program from launching
			// and the GPU idle, so for the lower bound the best of a few runs counts.
			best := 0.0
			for attempt := 0; attempt < 4 && best < 0.15; attempt++ {
				share := busyShare(t, 250, c.how, c.micros, c.processes, c.way)
				t.Logf("busy %.1f%% of the time", share*100)
				if share > 0.31 {
					t.Fatalf("busy %.1f%% of the time, want about 25%%", share*100)
				}
				best = max(best, share)
			}
			if best < 0.15 {
				t.Errorf("busy at best %.1f%% of the time, want about 25%%", best*100)
			}
		})
	}
}

// TestFullShareIsNotThrottled: at 1000 the GPU is busy all the time.
func TestFullShareIsNotThrottled(t *testing.T) {
	if share := busyShare(t, 1000, "kernel", 50000, 1, "link"); share < 0.4 {
		t.Errorf("busy %.1f%% of the time, want about 100%%", share*100)
	}
}

// TestSlowLaunchCall: a run is not over while a call that launches has not returned,
// whatever its events say. What was paid for it in advance would never be given back,
// and the program stand still for ten seconds.
func TestSlowLaunchCall(t *testing.T) {
	m := newMachine(t)
	create(t, m, 64*mib, 250)
	c := m.command("probe", "link")
	c.Stdin = strings.NewReader("busy-beside 60000 1.5 slow 0\n")
	began := time.Now()
	if out, err := c.Output(); err != nil || time.Since(began) > 7*time.Second {
		t.Errorf("%s %v after %v", out, err, time.Since(began))
	}
}

func busyShare(t *testing.T, milli uint32, how string, micros, processes int, way string) float64 {
	t.Helper()
	m := newMachine(t)
	r := create(t, m, 64*mib, milli)
	began := time.Now()
	var cmds []*exec.Cmd
	for range processes {
		c := m.command("probe", way)
		// The queue is bounded by synchronising, so that at a full share the work
		// ends when the launches do.
		mode := how
		before := ""
		if how == "reset" { // in a context that is made anew
			before = "busy " + strconv.Itoa(micros) + " 0.1 sync\nreset-primary 0\nretain-primary 0\n"
		}
		if milli == 1000 || how == "reset" {
			mode = "sync"
		}
		work := "busy " + strconv.Itoa(micros) + " 1.5 " + mode
		if how == "threads" { // on a stream each, with pauses in which nobody looks at what has run
			work = "busy-threads 16 " + strconv.Itoa(micros) + " 1.5 150000"
		}
		if how == "beside" { // an empty kernel that ends says nothing of another thread's
			work = "busy-beside " + strconv.Itoa(micros) + " 1.5 busy 2"
		}
		c.Stdin = strings.NewReader(before + work + "\n")
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		cmds = append(cmds, c)
	}
	for _, c := range cmds {
		if err := c.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	_, _, busy, err := readMachine(m)
	if err != nil {
		t.Fatal(err)
	}
	devices, err := r.Usage()
	if err != nil {
		t.Fatal(err)
	}
	if (devices[0].Throttled > 0) != (milli < 1000) {
		t.Errorf("throttled for %v at a share of %d", devices[0].Throttled, milli)
	}
	return float64(busy) / float64(time.Since(began).Nanoseconds())
}
