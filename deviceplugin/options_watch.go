// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package deviceplugin

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/fairslice/fairslice/deviceplugin/watchdog"
)

// WatchOff looks at no process.
const WatchOff = "off"

// watchActions are the values of WatchOptions.Action.
func watchActions() []string {
	out := []string{WatchOff}
	for _, a := range watchdog.Actions {
		out = append(out, string(a))
	}
	return out
}

// WatchOptions of the watchdog, which sees what containers use by the driver's
// lists of processes.
type WatchOptions struct {
	// Action about a container that stays over its limit: off, report, kill or evict.
	Action string
	// Every is the time between two looks at a GPU; a look takes the driver's locks.
	Every time.Duration
	// Polls in a row over the limit before anything happens.
	Polls int
	// Grace after the first look at a container.
	Grace time.Duration
	// ContextMiB is what each process may use beyond the limit: the driver counts
	// contexts.
	ContextMiB int64
	// ProcRoot is the host's /proc.
	ProcRoot string
}

func defaultWatchOptions() WatchOptions {
	return WatchOptions{
		Action: string(watchdog.Report), Every: 5 * time.Second, Polls: 3, Grace: 30 * time.Second,
		// The upper end of what users report for one context.
		ContextMiB: 600, ProcRoot: "/proc",
	}
}

func (w *WatchOptions) addFlags(f *pflag.FlagSet) {
	f.StringVar(&w.Action, "watch", w.Action, "what is done about a container that stays over its memory: "+strings.Join(watchActions(), ", "))
	f.DurationVar(&w.Every, "watch-every", w.Every, "time between two looks at the processes of a GPU")
	f.IntVar(&w.Polls, "watch-polls", w.Polls, "looks in a row over the limit before anything is done")
	f.DurationVar(&w.Grace, "watch-grace", w.Grace, "how long after its start a container may exceed its limit")
	f.Int64Var(&w.ContextMiB, "watch-context-mib", w.ContextMiB, "memory that each process may use beyond the limit, for its contexts")
	f.StringVar(&w.ProcRoot, "proc-root", w.ProcRoot, "where the host's /proc is seen")
}

func (w *WatchOptions) validate() error {
	switch {
	case !slices.Contains(watchActions(), w.Action):
		return fmt.Errorf("option watch is %q, must be %s", w.Action, strings.Join(watchActions(), ", "))
	case w.Action == WatchOff:
		return nil
	case w.Every <= 0:
		return fmt.Errorf("option watch-every is %v, must be above 0", w.Every)
	case w.Polls < 1:
		return fmt.Errorf("option watch-polls is %d, must be 1 or more", w.Polls)
	case w.Grace < 0:
		return fmt.Errorf("option watch-grace is %v, must be 0 or more", w.Grace)
	case w.ContextMiB < 0 || w.ContextMiB > maxContextMiB:
		return fmt.Errorf("option watch-context-mib is %d, must be from 0 to %d", w.ContextMiB, maxContextMiB)
	case !filepath.IsAbs(w.ProcRoot):
		return fmt.Errorf("option proc-root is %q, must be an absolute path", w.ProcRoot)
	}
	return nil
}

const maxContextMiB = 1 << 20

func (w *WatchOptions) rules() watchdog.Rules {
	return watchdog.Rules{Action: watchdog.Action(w.Action), Polls: w.Polls, Grace: w.Grace, AllowanceBytes: uint64(w.ContextMiB) << 20}
}
