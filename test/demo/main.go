// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/fairslice/fairslice/test/stack"
)

// settleLimit is how long the pods may take to come out as announced.
const settleLimit = 90 * time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	switch {
	case errors.Is(err, context.Canceled):
		fmt.Println("\nStopped; nothing is left behind.")
	case err != nil:
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) (err error) {
	started := time.Now()
	s, err := stack.Start(ctx, stack.Options{Progress: os.Stdout})
	if err != nil {
		return err
	}
	defer func() {
		if left := s.Stop(); left != nil {
			if errors.Is(err, context.Canceled) {
				err = nil // what is left behind is the news
			}
			err = errors.Join(err, left)
		}
	}()
	step("adding 4 simulated GPU nodes: 2 with 4 A100 of 40 GB, 2 with 4 H100 of 80 GB")
	if err := s.AddGPUNodes(ctx, nodes()...); err != nil {
		return err
	}
	list := items()
	if real, err := startRealNode(ctx, s); err != nil {
		step("no real node here: " + err.Error())
	} else {
		list = append(list, real)
	}
	announce(list)
	step("creating 3 queues, a pod group and %d pods", len(list))
	told := map[string]string{}
	refusals, err := submit(ctx, s, list, func(refusals map[string]string) {
		if v, err := look(ctx, s); err == nil {
			tell(v, list, refusals, told)
		}
	})
	if err != nil {
		return err
	}
	v, wrong, err := settle(ctx, s, list, refusals, told)
	if err != nil {
		return err
	}
	report(ctx, s, v, list, refusals, wrong)
	fmt.Printf("\n%d of %d pods came out as announced, %s after the start.\n", len(list)-len(wrong), len(list), time.Since(started).Round(time.Second))
	if os.Getenv("DEMO_EXIT") != "1" {
		return linger(ctx, s)
	}
	if len(wrong) > 0 {
		return fmt.Errorf("not as announced: %s", strings.Join(wrong, ", "))
	}
	return nil
}

func step(format string, args ...any) { fmt.Printf("==> "+format+"\n", args...) }

func announce(list []item) {
	fmt.Println("\nWhat you will see:")
	for _, it := range list {
		if strings.HasPrefix(it.pod.Name, gangName+"-") && it.pod.Name != gangName+"-0" {
			continue
		}
		line := fmt.Sprintf("  %-12s %-38s %s", it.pod.Name, it.shows, it.expect)
		if it.because != "" {
			line += fmt.Sprintf(" (%q)", it.because)
		}
		fmt.Println(line)
	}
	fmt.Println()
}

// settle watches until everything is as announced or the limit is over, and
// tells each change.
func settle(ctx context.Context, s *stack.Stack, list []item, refusals, told map[string]string) (view, []string, error) {
	limit := time.Now().Add(settleLimit)
	for {
		v, err := look(ctx, s)
		if err != nil {
			return v, nil, err
		}
		tell(v, list, refusals, told)
		wrong := mismatches(v, list, refusals)
		if len(wrong) == 0 || time.Now().After(limit) {
			time.Sleep(500 * time.Millisecond) // the status of queues follows within one cycle
			v, err = look(ctx, s)
			return v, wrong, err
		}
		select {
		case <-ctx.Done():
			return v, nil, ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func tell(v view, list []item, refusals, told map[string]string) {
	for _, it := range list {
		name := it.pod.Name
		state, where, why := v.state(name)
		line := ""
		switch {
		case refusals[name] != "":
			line = "refused: " + refusals[name]
		case state == runs:
			line = "runs on " + where
		case state == waits:
			line = "waits: " + why
		}
		if line != "" && told[name] != line {
			told[name] = line
			fmt.Printf("  %s  %-12s %s\n", time.Now().Format("15:04:05.0"), name, line)
		}
	}
}

// mismatches names the pods that are not as announced.
func mismatches(v view, list []item, refusals map[string]string) []string {
	var wrong []string
	for _, it := range list {
		name := it.pod.Name
		state, _, why := v.state(name)
		if refusals[name] != "" {
			state, why = refused, refusals[name]
		}
		if state != it.expect || !strings.Contains(why, it.because) {
			wrong = append(wrong, name)
		}
	}
	return wrong
}

func report(ctx context.Context, s *stack.Stack, v view, list []item, refusals map[string]string, wrong []string) {
	show(ctx, s, "top")
	show(ctx, s, "queues")
	fmt.Println("\nWho waits or was refused, and why:")
	for _, it := range list {
		state, _, why := v.state(it.pod.Name)
		switch {
		case refusals[it.pod.Name] != "":
			fmt.Printf("  %-12s refused  %s\n", it.pod.Name, refusals[it.pod.Name])
		case state == waits:
			fmt.Printf("  %-12s waits    %s\n", it.pod.Name, why)
		}
	}
	showRealNode(ctx, s, v)
	for _, name := range wrong {
		state, where, why := v.state(name)
		fmt.Printf("  %-12s NOT AS ANNOUNCED: %s %s %s\n", name, state, where, why)
	}
}

// show runs a command of the fairslice binary as a user would.
func show(ctx context.Context, s *stack.Stack, command string) {
	fmt.Printf("\n$ fairslice %s\n", command)
	out, err := s.Fairslice(ctx, command)
	fmt.Print(out)
	if err != nil {
		fmt.Println(err)
	}
}

func linger(ctx context.Context, s *stack.Stack) error {
	kubeconfig, err := s.Kubeconfig("admin", "system:masters")
	if err != nil {
		return err
	}
	fmt.Printf("\nThe cluster stays up. Look around, for example:\n\n  export KUBECONFIG=%s PATH=$PATH:%s\n  kubectl get queues,podgroups,pods -o wide\n\nCtrl-C ends it.\n",
		kubeconfig, folder(s.KubectlPath()))
	<-ctx.Done()
	return ctx.Err()
}
