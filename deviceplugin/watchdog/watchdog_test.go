// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package watchdog

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"pgregory.net/rapid"

	"github.com/fairslice/fairslice/deviceplugin/hostproc"
)

var epoch = time.Unix(1_700_000_000, 0)

func number(t *testing.T, s string) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestPolls(t *testing.T) {
	var w *Watchdog
	datadriven.RunTest(t, "testdata/polls.txt", func(t *testing.T, d *datadriven.TestData) string {
		if d.Cmd == "rules" {
			value := func(key string) string { return d.CmdArgs[indexOf(d, key)].Vals[0] }
			w = New(Rules{
				Action: Action(value("action")), Polls: int(number(t, value("polls"))),
				Grace: time.Duration(number(t, value("grace"))) * time.Second, AllowanceBytes: number(t, value("allowance")) << 20,
			})
			return ""
		}
		var out strings.Builder
		for line := range strings.Lines(d.Input) {
			at, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
			now := epoch.Add(time.Duration(number(t, at)) * time.Second)
			for _, v := range w.Observe(looks(t, rest), now) {
				name := v.Name
				if v.ID != "" {
					name += "@" + v.ID
				}
				fmt.Fprintf(&out, "%ss: %s %s: %d of %d MiB for %d polls, process %d\n", at, v.Action, name, v.UsedBytes>>20, v.LimitBytes>>20, v.Polls, v.Victim.PID)
			}
		}
		return out.String()
	})
}

func indexOf(d *datadriven.TestData, key string) int {
	for i, a := range d.CmdArgs {
		if a.Key == key {
			return i
		}
	}
	return len(d.CmdArgs)
}

func looks(t *testing.T, text string) []Look {
	var out []Look
	for one := range strings.SplitSeq(text, ";") {
		f := strings.Fields(one)
		name, id, _ := strings.Cut(f[0], "@")
		l := Look{Container: Container{Name: name, ID: id}, LimitBytes: number(t, strings.TrimPrefix(f[1], "limit=")) << 20}
		for _, x := range f[2:] {
			pid, mib, _ := strings.Cut(x, "=")
			p := Process{Process: hostproc.Process{PID: uint32(number(t, pid)), Start: number(t, pid)}, Unknown: mib == "?"}
			if !p.Unknown {
				p.UsedBytes = number(t, mib) << 20
			}
			l.Processes = append(l.Processes, p)
		}
		out = append(out, l)
	}
	return out
}

// TestNobodyWithinTheLimitIsJudged: over any history, a verdict needs Polls looks
// over the limit in a row just now, none of them in the grace, and its victim is
// the largest known process of that very look.
func TestNobodyWithinTheLimitIsJudged(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := Rules{
			Action: rapid.SampledFrom(Actions).Draw(t, "action"), Polls: rapid.IntRange(1, 4).Draw(t, "polls"),
			Grace: time.Duration(rapid.IntRange(0, 30).Draw(t, "grace")) * time.Second, AllowanceBytes: uint64(rapid.IntRange(0, 3).Draw(t, "allowance")),
		}
		w := New(r)
		run, first := map[string]int{}, map[string]time.Time{}
		now := epoch
		for range rapid.IntRange(1, 30).Draw(t, "looks") {
			now = now.Add(time.Duration(rapid.IntRange(1, 10).Draw(t, "step")) * time.Second)
			var looks []Look
			for _, name := range []string{"a", "b"} {
				if !rapid.Bool().Draw(t, "present") {
					delete(run, name)
					delete(first, name)
					continue
				}
				l := Look{Container: Container{Name: name}, LimitBytes: 10}
				known := uint64(0)
				for pid := range rapid.IntRange(0, 3).Draw(t, "processes") {
					p := Process{Process: hostproc.Process{PID: uint32(pid + 1)}, Unknown: rapid.IntRange(0, 3).Draw(t, "unknown") == 0}
					if !p.Unknown {
						p.UsedBytes = uint64(rapid.IntRange(0, 12).Draw(t, "used"))
						known += p.UsedBytes
					}
					l.Processes = append(l.Processes, p)
				}
				if _, seen := first[name]; !seen {
					first[name] = now
				}
				switch {
				case known <= 10+uint64(len(l.Processes))*r.AllowanceBytes:
					run[name] = 0
				case now.Sub(first[name]) >= r.Grace:
					run[name]++
				}
				looks = append(looks, l)
			}
			got := map[string]Verdict{}
			for _, v := range w.Observe(looks, now) {
				got[v.Name] = v
			}
			for _, l := range looks {
				v, judged := got[l.Name]
				if want := run[l.Name] > 0 && run[l.Name]%r.Polls == 0; judged != want {
					t.Fatalf("%s judged: %v, want %v after %d looks over the limit", l.Name, judged, want, run[l.Name])
				}
				for _, p := range l.Processes {
					if judged && !p.Unknown && p.UsedBytes > v.Victim.UsedBytes {
						t.Fatalf("victim %+v, but %+v is larger", v.Victim, p)
					}
				}
				if judged && v.Victim.Unknown {
					t.Fatalf("victim %+v is unknown", v.Victim)
				}
			}
		}
	})
}
