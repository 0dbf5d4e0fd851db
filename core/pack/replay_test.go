// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package pack

import (
	"fmt"
	"testing"
)

func median(t testing.TB, trace *Trace, o Options, seeds int, point int) int64 {
	t.Helper()
	var outcomes []*Outcome
	for seed := range seeds {
		o.Seed, o.ArrivePercent = uint64(42+seed), 130
		outcome, err := Replay(trace, o)
		if err != nil {
			t.Fatal(err)
		}
		outcomes = append(outcomes, outcome)
	}
	ppm, ok := MedianPPM(outcomes, point)
	if !ok {
		t.Fatalf("no seed reached %d %%", point)
	}
	return ppm
}

// On the excerpt the order of the policies is that on the whole trace: ours
// beats FGD, which beats best fit, and moves help further.
func TestExpectedFillBeatsFGDOnTheExcerpt(t *testing.T) {
	trace := excerpt(t)
	const seeds = 5
	fill := median(t, trace, Options{Policy: ExpectedFill}, seeds, 100)
	fgd := median(t, trace, Options{Policy: FGD}, seeds, 100)
	best := median(t, trace, Options{Policy: BestFit}, seeds, 100)
	moved := median(t, trace, Options{Policy: ExpectedFill, Consolidate: true}, seeds, 100)
	t.Logf("at 100 %% arrived, in millionths: best fit %d, FGD %d, expected fill %d, with moves %d", best, fgd, fill, moved)
	if best >= fgd || fgd >= fill || fill >= moved {
		t.Error("want best fit < FGD < expected fill < with moves")
	}
}

func TestEqualReplaysAreEqual(t *testing.T) {
	trace := excerpt(t)
	for _, policy := range Policies {
		o := Options{Policy: policy, ArrivePercent: 130, Seed: 7, Consolidate: true}
		one, err := Replay(trace, o)
		if err != nil {
			t.Fatal(err)
		}
		two, err := Replay(trace, o)
		if err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(one) != fmt.Sprint(two) {
			t.Errorf("%s: %v and %v", policy, one, two)
		}
	}
}

// A policy that starts with no knowledge must still place all that fits, and
// learn to do better than best fit.
func TestLearningPolicyBeatsBestFit(t *testing.T) {
	trace := excerpt(t)
	learned := median(t, trace, Options{Policy: ExpectedFill, Learn: true}, 5, 100)
	best := median(t, trace, Options{Policy: BestFit}, 5, 100)
	if learned <= best {
		t.Errorf("learned %d, best fit %d", learned, best)
	}
}

func BenchmarkReplay(b *testing.B) {
	trace := excerpt(b)
	for _, policy := range Policies {
		b.Run(string(policy), func(b *testing.B) {
			arrived := 0
			for b.Loop() {
				o, err := Replay(trace, Options{Policy: policy, ArrivePercent: 130, Seed: 42})
				if err != nil || o.AllocatedPPM[100] == 0 {
					b.Fatalf("%v, %v", o, err)
				}
				arrived = o.Arrived
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(arrived), "ns/task")
		})
	}
}
