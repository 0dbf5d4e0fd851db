// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"github.com/fairslice/fairslice/core/pack"
)

// traceOptions are the flags of a trace replay.
type traceOptions struct {
	nodes, seeds, policy string
	arrive               float64
	consolidate, learn   bool
	maxMoves             int
}

// maxSeeds keeps a slip of the pen from running for days.
const maxSeeds = 1000

func (o *traceOptions) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.nodes, "trace", "", "replay a trace: node list (CSV); the task list (CSV) is the argument after it")
	f.Float64Var(&o.arrive, "arrive", 1.3, "let tasks arrive until they demand this many times the GPU capacity (trace)")
	f.StringVar(&o.seeds, "seeds", "42-51", "seeds of the replays, such as 42-51 or 1,5,9 (trace)")
	f.StringVar(&o.policy, "policy", string(pack.ExpectedFill), "placement policy: fill (ours), fgd or bestfit (trace)")
	f.BoolVar(&o.learn, "learn", false, "let the policy know only the tasks seen so far, not the trace's mix (trace)")
	f.BoolVar(&o.consolidate, "consolidate", false, "move running tasks for one that does not fit; every move is counted (trace)")
	f.IntVar(&o.maxMoves, "max-moves", 0, "most moves for one task with --consolidate; 0 is the default of 8 (trace)")
}

func parseSeeds(text string) ([]uint64, error) {
	bad := fmt.Errorf("--seeds is %q; allowed: numbers and ranges such as 42-51 or 1,5,9, at most %d", text, maxSeeds)
	var seeds []uint64
	for part := range strings.SplitSeq(text, ",") {
		low, high, isRange := strings.Cut(strings.TrimSpace(part), "-")
		if !isRange {
			high = low
		}
		first, err1 := strconv.ParseUint(low, 10, 32)
		last, err2 := strconv.ParseUint(high, 10, 32)
		if err1 != nil || err2 != nil || last < first || last-first >= maxSeeds {
			return nil, bad
		}
		for seed := first; seed <= last; seed++ {
			seeds = append(seeds, seed)
		}
	}
	if len(seeds) > maxSeeds {
		return nil, bad
	}
	return seeds, nil
}

// run replays the trace once a seed, on all cores.
func (o *traceOptions) run(ctx context.Context, out io.Writer, args []string, form string) error {
	if len(args) != 1 {
		return errors.New("--trace takes two files: --trace NODES.csv TASKS.csv")
	}
	policy, err := pack.ParsePolicy(o.policy)
	if err != nil {
		return fmt.Errorf("--%w", err)
	}
	seeds, err := parseSeeds(o.seeds)
	if err != nil {
		return err
	}
	if !(o.arrive > 0 && o.arrive <= 10) {
		return fmt.Errorf("--arrive is %g; allowed: above 0, at most 10", o.arrive)
	}
	if o.maxMoves < 0 || o.maxMoves > 0 && !o.consolidate {
		return fmt.Errorf("--max-moves is %d; allowed: at least 0, and only with --consolidate", o.maxMoves)
	}
	trace, err := readTraceFiles(o.nodes, args[0])
	if err != nil {
		return err
	}
	outcomes := make([]*pack.Outcome, len(seeds))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i, seed := range seeds {
		group.Go(func() error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			outcome, err := pack.Replay(trace, pack.Options{
				Policy: policy, ArrivePercent: int64(o.arrive*100 + 0.5), Seed: seed,
				Learn: o.learn, Consolidate: o.consolidate, MaxMoves: o.maxMoves,
			})
			outcomes[i] = outcome
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return printReport(out, form, newTraceReport(policy, o, trace, outcomes))
}

func readTraceFiles(nodes, tasks string) (*pack.Trace, error) {
	nodeFile, err := os.Open(nodes)
	if err != nil {
		return nil, err
	}
	defer nodeFile.Close()
	taskFile, err := os.Open(tasks)
	if err != nil {
		return nil, err
	}
	defer taskFile.Close()
	return pack.ReadTrace(nodeFile, taskFile)
}

// traceReport is the outcome of replays: medians over the seeds, and each seed.
type traceReport struct {
	Policy      string `json:"policy"`
	Knows       string `json:"knows"`
	Nodes       int    `json:"nodes"`
	GPUs        int64  `json:"gpus"`
	Consolidate bool   `json:"consolidate"`
	// AllocatedPercentAt is the median allocated share of all GPU capacity, by
	// the share of it that had been asked for.
	AllocatedPercentAt map[string]json.Number `json:"allocatedPercentAt"`
	// MovesAt is the median number of moves until then.
	MovesAt map[string]int `json:"movesAt,omitempty"`
	Seeds   []seedReport   `json:"seeds"`
}

type seedReport struct {
	Seed               uint64                 `json:"seed"`
	AllocatedPercentAt map[string]json.Number `json:"allocatedPercentAt"`
	Arrived            int                    `json:"arrived"`
	Dropped            int                    `json:"dropped"`
	Moves              int                    `json:"moves"`
}

func newTraceReport(policy pack.Policy, o *traceOptions, trace *pack.Trace, outcomes []*pack.Outcome) *traceReport {
	r := &traceReport{
		Policy: string(policy), Knows: "the trace's mix of task classes", Nodes: len(trace.Nodes),
		GPUs: trace.Capacity() / pack.Whole, Consolidate: o.consolidate, AllocatedPercentAt: map[string]json.Number{},
	}
	if o.learn {
		r.Knows = "the mix of the tasks seen so far"
	}
	if o.consolidate {
		r.MovesAt = map[string]int{}
	}
	for _, point := range pack.Points {
		median, ok := pack.MedianPPM(outcomes, point)
		if !ok {
			continue
		}
		key := strconv.Itoa(point)
		r.AllocatedPercentAt[key] = decimalPercent(median)
		if o.consolidate {
			r.MovesAt[key] = medianMoves(outcomes, point)
		}
	}
	for _, outcome := range outcomes {
		s := seedReport{
			Seed: outcome.Seed, AllocatedPercentAt: map[string]json.Number{},
			Arrived: outcome.Arrived, Dropped: outcome.Dropped, Moves: outcome.Moves,
		}
		for point, ppm := range outcome.AllocatedPPM {
			s.AllocatedPercentAt[strconv.Itoa(point)] = decimalPercent(ppm)
		}
		r.Seeds = append(r.Seeds, s)
	}
	return r
}

// decimalPercent writes millionths with two decimals, cut off.
func decimalPercent(ppm int64) json.Number {
	return json.Number(fmt.Sprintf("%d.%02d", ppm/10_000, ppm/100%100))
}

func medianMoves(outcomes []*pack.Outcome, point int) int {
	var moves []int
	for _, o := range outcomes {
		moves = append(moves, o.MovesAt[point])
	}
	slices.Sort(moves)
	return (moves[(len(moves)-1)/2] + moves[len(moves)/2]) / 2
}

func (r *traceReport) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(out, "%d nodes, %d GPUs; policy %s, which knows %s; median of %d seeds\n", r.Nodes, r.GPUs, r.Policy, r.Knows, len(r.Seeds))
	fmt.Fprint(w, "arrived %\t")
	for _, point := range pack.Points {
		fmt.Fprintf(w, "%d\t", point)
	}
	fmt.Fprint(w, "\nallocated %\t")
	for _, point := range pack.Points {
		fmt.Fprintf(w, "%s\t", r.AllocatedPercentAt[strconv.Itoa(point)])
	}
	if r.Consolidate {
		fmt.Fprint(w, "\nmoves\t")
		for _, point := range pack.Points {
			fmt.Fprintf(w, "%d\t", r.MovesAt[strconv.Itoa(point)])
		}
	}
	fmt.Fprintln(w)
	return w.Flush()
}
