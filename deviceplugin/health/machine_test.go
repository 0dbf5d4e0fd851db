// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
)

// TestTranscripts plays the life of one card. Commands, each at a second:
//
//	at <s> xid <n> | at <s> ok | at <s> fail
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		var m Machine
		start := time.Unix(1_000_000, 0)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			rules := Rules{Ignored: DefaultIgnored, Probation: time.Minute, MaxProbation: 5 * time.Minute}
			var out strings.Builder
			for line := range strings.Lines(d.Input) {
				f := strings.Fields(line)
				at, err := strconv.Atoi(f[1])
				if err != nil {
					t.Fatal(err)
				}
				now := start.Add(time.Duration(at) * time.Second)
				switch f[2] {
				case "xid":
					xid, _ := strconv.ParseUint(f[3], 10, 64)
					m.OnXID(rules, xid, now)
				case "ok":
					m.OnProbe(rules, nil, now)
				case "fail":
					m.OnProbe(rules, errors.New("it does not answer"), now)
				default:
					t.Fatalf("unknown event %q", f[2])
				}
				state, why := m.State()
				fmt.Fprintf(&out, "%4d %-9s %s\n", at, state, why)
			}
			return strings.ReplaceAll(out.String(), " \n", "\n")
		})
	})
}
