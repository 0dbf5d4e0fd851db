// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"errors"
	"fmt"
	"maps"
)

func (s *Scenario) checkRun(workloads, pods, nodes names) error {
	if s.Rounds != nil && s.Timeline != nil {
		return errors.New("rounds and timeline exclude each other")
	}
	if x := s.Settings; x != nil {
		if err := errors.Join(within("settings.evictionsPerMinute", x.EvictionsPerMinute, 0, maxEvictions),
			within("settings.queueEvictionsPerMinute", x.QueueEvictionsPerMinute, 0, maxEvictions)); err != nil {
			return err
		}
	}
	if s.Rounds != nil {
		return s.Rounds.check()
	}
	if s.Timeline == nil {
		return nil
	}
	workloads, pods, nodes = maps.Clone(workloads), maps.Clone(pods), maps.Clone(nodes)
	for i := range s.Timeline.Events {
		e := &s.Timeline.Events[i]
		path := fmt.Sprintf("timeline.events[%d]", i)
		if err := e.check(path, workloads, pods, nodes); err != nil {
			return err
		}
	}
	if s.Timeline.TerminationSeconds < 0 {
		return errors.New("timeline.terminationSeconds: is negative; allowed: at least 0")
	}
	return nil
}

func (r *Rounds) check() error {
	if err := oneOf("rounds.mode", r.Mode, roundsModes); err != nil {
		return err
	}
	for i, a := range r.Actions {
		if err := oneOf(fmt.Sprintf("rounds.actions[%d]", i), a, Actions); err != nil {
			return err
		}
	}
	if r.Mode == ModeSingle && len(r.Actions) != 1 {
		return fmt.Errorf("rounds.actions: has %d; single mode takes exactly one", len(r.Actions))
	}
	return errors.Join(within("rounds.until", r.Until, 1, maxRounds), within("rounds.after", r.After, 0, maxRounds))
}

// check also keeps the sets of names up to date, so that a later event may
// name what an earlier one added.
func (e *Event) check(path string, workloads, pods, nodes names) error {
	kinds := 0
	for _, set := range []bool{
		e.Submit != nil, e.Finish != "", e.Fail != "", e.Delete != "", e.NodeDown != "", e.NodeUp != "",
		e.Cordon != "", e.Uncordon != "", e.SetNode != nil, e.SetQueue != nil, e.RemoveQueue != "",
	} {
		if set {
			kinds++
		}
	}
	if kinds != 1 {
		return at(path, fmt.Errorf("has %d changes; exactly one of submit, finish, fail, delete, nodeDown, nodeUp, cordon, uncordon, setNode, setQueue, removeQueue is needed", kinds))
	}
	if e.AtSeconds < 0 {
		return at(path+".atSeconds", errors.New("is negative; allowed: at least 0"))
	}
	switch {
	case e.Submit != nil:
		return e.Submit.check(path+".submit", workloads, pods, nodes)
	case e.SetNode != nil:
		nodes[e.SetNode.Name] = true
		return e.SetNode.check(path + ".setNode")
	case e.SetQueue != nil:
		return e.SetQueue.check(path + ".setQueue")
	}
	for field, name := range map[string]string{"finish": e.Finish, "fail": e.Fail, "delete": e.Delete} {
		if name != "" && !workloads[name] && !pods[name] {
			return at(path+"."+field, fmt.Errorf("names %s, which is neither a workload nor a pod", name))
		}
	}
	for field, name := range map[string]string{"nodeDown": e.NodeDown, "nodeUp": e.NodeUp, "cordon": e.Cordon, "uncordon": e.Uncordon} {
		if name != "" && !nodes[name] {
			return at(path+"."+field, fmt.Errorf("names node %s, which does not exist", name))
		}
	}
	return nil
}

func (s *Scenario) checkExpect(workloads, pods, nodes names) error {
	if s.Expect == nil {
		return nil
	}
	if s.Timeline != nil {
		workloads, pods = maps.Clone(workloads), maps.Clone(pods)
		for _, e := range s.Timeline.Events {
			if e.Submit != nil {
				workloads[e.Submit.Name] = true
				for _, name := range e.Submit.PodNames() {
					pods[name] = true
				}
			}
		}
	}
	return errors.Join(
		checkExpectations("expect.workloads", s.Expect.Workloads, workloads),
		checkExpectations("expect.pods", s.Expect.Pods, pods),
		checkNamed("expect.nodes", s.Expect.Nodes, nodes),
	)
}

func checkNamed[V any](path string, wants map[string]V, known names) error {
	for _, name := range sortedKeys(wants) {
		if !known[name] {
			return at(path, fmt.Errorf("names %s, which does not exist", name))
		}
	}
	return nil
}

func checkExpectations(path string, wants map[string]Expectation, known names) error {
	if err := checkNamed(path, wants, known); err != nil {
		return err
	}
	for _, name := range sortedKeys(wants) {
		if state := wants[name].State; state != "" {
			if err := oneOf(join(path, name)+".state", state, States); err != nil {
				return err
			}
		}
	}
	return nil
}
