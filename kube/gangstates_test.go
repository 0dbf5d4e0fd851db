// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"os"
	"strconv"
	"strings"
	"testing"
)

// gangStates bring a new gang into each state.
var gangStates = map[string]string{
	"Pending": `
		pod a queue=q group=g gpu=1`,
	"Waiting": `
		pod a queue=q group=g gpu=1
		pod b queue=q group=g gpu=1
		decide`,
	"Scheduling": `
		node n1 gpus=4
		pod a queue=q group=g gpu=1
		pod b queue=q group=g gpu=1
		decide`,
	"Starting": `
		node n1 gpus=4
		pod a queue=q group=g gpu=1 node=n1
		pod b queue=q group=g gpu=1 node=n1
		decide`,
	"Running": `
		node n1 gpus=4
		pod a queue=q group=g gpu=1 node=n1 phase=Running
		pod b queue=q group=g gpu=1 node=n1 phase=Running
		decide`,
	"Degraded": `
		state Running
		pod b queue=q group=g gpu=1 node=n1 phase=Failed
		decide`,
	"Stale": `
		state Degraded
		advance 60s
		decide`,
	"Finished": `
		state Running
		pod a queue=q group=g gpu=1 node=n1 phase=Succeeded
		pod b queue=q group=g gpu=1 node=n1 phase=Succeeded
		decide`,
}

// gangEvents are what happens then.
var gangEvents = map[string]string{
	"a member is created": `
		pod b queue=q group=g gpu=1`,
	"an extra is created": `
		pod c queue=q group=g gpu=1
		decide
		want c promised`,
	"room is free": `
		node n1 gpus=4`,
	"a member is deleted": `
		gone uid=b`,
	"all are bound": `
		assume uid=a node=n1
		assume uid=b node=n1
		confirm uid=a
		confirm uid=b`,
	"the node goes": `
		node n1 gone`,
	"all run": `
		pod a queue=q group=g gpu=1 node=n1 phase=Running
		pod b queue=q group=g gpu=1 node=n1 phase=Running`,
	"a member fails": `
		pod b queue=q group=g gpu=1 node=n1 phase=Failed`,
	"a member fails, ReleaseAll": `
		group min=2 lost=ReleaseAll
		decide
		pod b queue=q group=g gpu=1 node=n1 phase=Failed
		pod b2 queue=q group=g gpu=1
		decide
		want b2 waiting`,
	"a member is evicted": `
		pod b queue=q group=g gpu=1 node=n1 phase=Running deleting`,
	"a member is evicted, ReleaseAll": `
		group min=2 lost=ReleaseAll
		decide
		pod b queue=q group=g gpu=1 node=n1 phase=Running deleting`,
	"a member is stuck on a dead node": `
		pod b queue=q group=g gpu=1 node=n1 phase=Running deleting
		advance 30s`,
	"a member finishes": `
		pod b queue=q group=g gpu=1 node=n1 phase=Succeeded
		decide
		advance 1h`,
	"a member finishes, ReleaseAll": `
		group min=2 lost=ReleaseAll
		decide
		pod b queue=q group=g gpu=1 node=n1 phase=Succeeded`,
	"a member finishes and its pod is deleted": `
		pod b queue=q group=g gpu=1 node=n1 phase=Succeeded
		decide
		gone uid=b
		decide
		advance 1h`,
	"all finish": `
		pod a queue=q group=g gpu=1 node=n1 phase=Succeeded
		pod b queue=q group=g gpu=1 node=n1 phase=Succeeded`,
	"an extra is deleted": `
		pod c queue=q group=g gpu=1 node=n1 phase=Running
		decide
		gone uid=c`,
	"an extra fails": `
		pod c queue=q group=g gpu=1 node=n1 phase=Running
		decide
		pod c queue=q group=g gpu=1 node=n1 phase=Failed`,
	"an extra fails, ReleaseAll": `
		group min=2 lost=ReleaseAll
		pod c queue=q group=g gpu=1 node=n1 phase=Running
		decide
		pod c queue=q group=g gpu=1 node=n1 phase=Failed`,
	"a member fails beside an extra": `
		pod c queue=q group=g gpu=1 node=n1 phase=Running
		decide
		pod a queue=q group=g gpu=1 node=n1 phase=Failed`,
	"a member finishes and another fails": `
		pod a queue=q group=g gpu=1 node=n1 phase=Succeeded
		pod c queue=q group=g gpu=1 node=n1 phase=Running
		group min=3
		decide
		pod b queue=q group=g gpu=1 node=n1 phase=Failed`,
	"a member finishes, another fails and an hour passes": `
		pod a queue=q group=g gpu=1 node=n1 phase=Succeeded
		pod c queue=q group=g gpu=1 node=n1 phase=Running
		group min=3
		decide
		pod b queue=q group=g gpu=1 node=n1 phase=Failed
		decide
		advance 1h`,
	"the minimum is raised": `
		group min=3`,
	"the minimum is raised, ReleaseAll": `
		group min=3 lost=ReleaseAll`,
	"the minimum is raised and an hour passes": `
		group min=3
		decide
		advance 1h`,
	"the minimum is raised and then a member fails": `
		group min=3
		decide
		pod b queue=q group=g gpu=1 node=n1 phase=Failed`,
	"the minimum is raised, the control plane restarts and an hour passes": `
		group min=3
		decide
		restart
		decide
		advance 1h`,
	"the minimum is lowered": `
		group min=1`,
	"the control plane restarts": `
		restart`,
	"a member finishes, its pod is deleted and the control plane restarts": `
		pod b queue=q group=g gpu=1 node=n1 phase=Succeeded
		decide
		gone uid=b
		decide
		restart
		decide
		advance 1h`,
	"the replacement runs": `
		pod b2 queue=q group=g gpu=1
		decide
		want b2 promised
		pod b2 queue=q group=g gpu=1 node=n1 phase=Running`,
	"the replacement has a place and the grace is over": `
		pod b2 queue=q group=g gpu=1
		decide
		advance 60s`,
	"the last members fail": `
		pod a queue=q group=g gpu=1 node=n1 phase=Failed`,
	"the grace is over": `
		advance 60s`,
	"the grace is over while a member is leaving": `
		restore b
		pod b queue=q group=g gpu=1 node=n1 phase=Running deleting
		decide
		advance 60s`,
	"the grace is over while a member is stuck on a dead node": `
		restore b
		pod b queue=q group=g gpu=1 node=n1 phase=Running deleting
		decide
		advance 10m`,
	"the grace is over while a member is leaving a node that is not ready": `
		restore b
		pod b queue=q group=g gpu=1 node=n1 phase=Running deleting
		decide
		node n1 gone
		advance 60s`,
	"the control plane restarts and the grace is over": `
		advance 30s
		restart
		decide
		advance 30s`,
	"the grace is negative and an hour passes": `
		group min=2 grace=-1s
		advance 1h`,
	"the others leave": `
		pod a2 queue=q group=g gpu=1
		pod b2 queue=q group=g gpu=1
		group min=3
		pod a queue=q group=g gpu=1 node=n1 phase=Running deleting
		gone uid=a
		pod c2 queue=q group=g gpu=1
		node n1 gone`,
	"the others leave and nobody comes back": `
		gone uid=a`,
	"the pods are deleted and the control plane restarts": `
		gone uid=a
		gone uid=b
		decide
		restart`,
	"the pods are deleted, the control plane restarts and a pod of the next run is created": `
		gone uid=a
		gone uid=b
		decide
		restart
		decide
		pod a2 queue=q group=g gpu=1`,
	"the next run is created": `
		node n1 gone
		pod a2 queue=q group=g gpu=1
		pod b2 queue=q group=g gpu=1`,
}

// TestGangStates plays the table of docs/gangs.md.
func TestGangStates(t *testing.T) {
	text, err := os.ReadFile("../docs/gangs.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "| from | event | to | evicted |\n|---|---|---|---|\n")
	played := map[string]bool{}
	for line := range strings.Lines(table) {
		if !strings.HasPrefix(line, "|") {
			break
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 4 {
			t.Fatalf("line %q has %d cells", line, len(cells))
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		from, event, to := cells[0], cells[1], cells[2]
		evicted, err := strconv.Atoi(cells[3])
		if err != nil {
			t.Fatal(err)
		}
		played[from], played[event] = true, true
		t.Run(from+"/"+event, func(t *testing.T) {
			p := newGangPlay(t)
			p.run(gangStates[from])
			p.want(from)
			p.evicted = 0
			if gangEvents[event] == "" {
				t.Fatalf("nobody knows how to play %q", event)
			}
			p.run(gangEvents[event])
			p.decide()
			p.want(to)
			if p.evicted != evicted {
				t.Errorf("%d pods are evicted, want %d\n%s", p.evicted, evicted, p.holdings())
			}
			p.decide()
			p.want(to)
			if p.evicted != evicted {
				t.Errorf("the second cycle evicts again: %d in all, want %d\n%s", p.evicted, evicted, p.holdings())
			}
		})
	}
	for _, names := range []map[string]string{gangStates, gangEvents} {
		for name := range names {
			if !played[name] {
				t.Errorf("docs/gangs.md has no line with %q", name)
			}
		}
	}
}
