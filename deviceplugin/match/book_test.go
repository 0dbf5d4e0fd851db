// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package match

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fairslice/fairslice/api/v1alpha1"
	"github.com/fairslice/fairslice/deviceplugin/pool"
)

var kindOf = map[string]pool.Kind{"whole": pool.Whole, "slice": pool.Slice, "memory": pool.Memory, "small": pool.Profiles, "media": pool.Profiles + 1}

// testNames serves two profiles of MIG instances that differ in an attribute.
func testNames() Names {
	return append(DefaultNames(), "nvidia.com/mig-1g.5gb", "nvidia.com/mig-1g.5gb.me")
}

// podBuilder makes pods for tests. A request is "<kind>:<count>[@<gpu>=<units>,…]"
// for one container; without "@" nothing is planned.
type podBuilder struct {
	*corev1.Pod
	plan v1alpha1.Assignment
}

func buildPod(uid, node string, created time.Time) *podBuilder {
	return &podBuilder{
		Pod: &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Name: uid, Namespace: "ns", UID: types.UID(uid), CreationTimestamp: metav1.NewTime(created), Annotations: map[string]string{},
			},
			Spec: corev1.PodSpec{NodeName: node},
		},
		plan: v1alpha1.Assignment{PodUID: uid, Node: node},
	}
}

func (p *podBuilder) container(name, request string) error {
	what, planned, hasPlan := strings.Cut(request, "@")
	kind, count, _ := strings.Cut(what, ":")
	q, err := resource.ParseQuantity(count)
	if err != nil {
		return err
	}
	res := testNames()[kindOf[kind]]
	c := corev1.Container{Name: name, Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceName(res): q}}}
	if strings.HasPrefix(name, "init") {
		p.Spec.InitContainers = append(p.Spec.InitContainers, c)
	} else {
		p.Spec.Containers = append(p.Spec.Containers, c)
	}
	if !hasPlan {
		return nil
	}
	entry := v1alpha1.ContainerAssignment{Name: name, Resource: res}
	for part := range strings.SplitSeq(planned, ",") {
		gpu, units, _ := strings.Cut(part, "=")
		n, err := strconv.ParseInt(units, 10, 64)
		if err != nil {
			return err
		}
		entry.GPUs = append(entry.GPUs, v1alpha1.AssignedGPU{UUID: gpu, Units: n})
	}
	p.plan.Containers = append(p.plan.Containers, entry)
	return nil
}

func (p *podBuilder) build() *corev1.Pod {
	if len(p.plan.Containers) > 0 {
		p.Annotations[v1alpha1.AnnotationGPUAssignment], _ = p.plan.Encode()
	}
	return p.Pod
}

// node is the world of one transcript.
type node struct {
	book    *Book
	now     time.Time
	pods    map[string]*corev1.Pod
	records []Record
}

func newNode(mib ...string) *node {
	var gpus []pool.GPU
	for i, m := range mib {
		g := pool.GPU{UUID: fmt.Sprint("g", i), ID: fmt.Sprint("g", i)}
		if as, instance := kindOf[m]; instance {
			g.MemoryMiB, g.Instance, g.As, g.Milli = 4864, true, as, 142
		} else {
			g.MemoryMiB, _ = strconv.ParseInt(m, 10, 64)
		}
		gpus = append(gpus, g)
	}
	p, err := pool.New(gpus)
	if err != nil {
		panic(err)
	}
	return &node{
		book: NewBook(Config{Node: "n1", Names: testNames()}, p),
		now:  time.Unix(1_000_000, 0), pods: map[string]*corev1.Pod{},
	}
}

// expand turns "g0-0..24,g1-3" into IDs.
func expand(list string) []string {
	var out []string
	for part := range strings.SplitSeq(list, ",") {
		gpu, span, isSpan := strings.Cut(part, "-")
		from, to, isRange := strings.Cut(span, "..")
		if !isSpan || !isRange {
			out = append(out, part)
			continue
		}
		a, _ := strconv.Atoi(from)
		z, _ := strconv.Atoi(to)
		for n := a; n <= z; n++ {
			out = append(out, fmt.Sprintf("%s-%d", gpu, n))
		}
	}
	return slices.DeleteFunc(out, func(s string) bool { return s == "" })
}

// summarize is "25 of g0, 3 of g1".
func summarize(ids []string) string {
	count := map[string]int{}
	var gpus []string
	for _, id := range ids {
		gpu, _, _ := strings.Cut(id, "-")
		if count[gpu] == 0 {
			gpus = append(gpus, gpu)
		}
		count[gpu]++
	}
	slices.Sort(gpus)
	for i, g := range gpus {
		gpus[i] = fmt.Sprintf("%d of %s", count[g], g)
	}
	return strings.Join(gpus, ", ")
}

func (n *node) available(k pool.Kind) []string {
	held := map[string]bool{}
	for _, a := range n.book.Allocations() {
		if a.Kind == k {
			for _, id := range a.IDs {
				held[id] = true
			}
		}
	}
	var out []string
	for _, d := range n.book.Devices(k) {
		if d.Healthy && !held[d.ID] {
			out = append(out, d.ID)
		}
	}
	return out
}

func (n *node) run(t *testing.T, line string) string {
	f := strings.Fields(line)
	switch f[0] {
	case "pod", "pod-on":
		where := "n1"
		if f[0] == "pod-on" {
			where, f = f[1], f[1:]
		}
		n.now = n.now.Add(time.Second)
		b := buildPod(f[1], where, n.now)
		for _, c := range f[2:] {
			name, request, _ := strings.Cut(c, "/")
			if err := b.container(name, request); err != nil {
				t.Fatal(err)
			}
		}
		n.pods[f[1]] = b.build()
		n.book.Upsert(n.pods[f[1]])
	case "annotate":
		n.pods[f[1]].Annotations[v1alpha1.AnnotationGPUAssignment] = strings.Join(f[2:], " ")
		n.book.Upsert(n.pods[f[1]])
	case "phase":
		n.pods[f[1]].Status.Phase = corev1.PodPhase(f[2])
		n.book.Upsert(n.pods[f[1]])
	case "terminating":
		now := metav1.NewTime(n.now)
		n.pods[f[1]].DeletionTimestamp = &now
		n.book.Upsert(n.pods[f[1]])
	case "delete":
		n.book.Delete(f[1])
	case "wait":
		s, _ := strconv.Atoi(f[1])
		n.now = n.now.Add(time.Duration(s) * time.Second)
	case "health":
		n.book.SetFit(f[1], map[string]string{"bad": "it is unhealthy"}[f[2]])
	case "prefer": // prefer <kind> <size> [must]
		size, _ := strconv.Atoi(f[2])
		k := kindOf[f[1]]
		var must []string
		if len(f) > 3 {
			must = expand(f[3])
		}
		ids, certain := n.book.Prefer(k, append(n.available(k), must...), must, size)
		return fmt.Sprintf("%s (certain: %t)", summarize(ids), certain)
	case "allocate": // allocate <kind> <ids>
		g, err := n.book.Allocate(kindOf[f[1]], expand(f[2]), true, n.now)
		if err != nil {
			return "refused: " + err.Error()
		}
		return fmt.Sprintf("%s, most likely for %s", describe(f[1], g.Shares), g.Predicted)
	case "record": // record <uid> <container> <kind> <ids>
		n.records = append(n.records, Record{Owner: Owner{PodUID: f[1], Container: f[2]}, Resource: testNames()[kindOf[f[3]]], IDs: expand(f[4])})
	case "forget":
		n.records = slices.DeleteFunc(n.records, func(r Record) bool { return r.PodUID == f[1] })
	case "sync":
		n.book.Sync(n.records, Source{Complete: !slices.Contains(f, "incomplete"), Settled: slices.Contains(f, "settled")}, n.now)
	case "held":
		var out []string
		for _, a := range n.book.Allocations() {
			out = append(out, fmt.Sprintf("%s: %s, %s, confirmed: %t", a.Owner, a.Kind, summarize(a.IDs), a.Confirmed))
		}
		return strings.Join(out, "\n")
	case "corrections":
		var out []string
		for _, c := range n.book.Corrections() {
			v, err := c.Assignment.Encode()
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, c.Pod+" "+v)
		}
		return strings.Join(out, "\n")
	case "healthy":
		var out []string
		for _, k := range n.book.pool.Kinds() {
			var ids []string
			for _, d := range n.book.Devices(k) {
				if d.Healthy {
					ids = append(ids, d.ID)
				}
			}
			out = append(out, fmt.Sprintf("%s: %s", k, summarize(ids)))
		}
		return strings.Join(out, "\n")
	case "counters":
		return fmt.Sprintf("%+v", n.book.Counters())
	default:
		t.Fatalf("unknown command %q", line)
	}
	return ""
}

// TestTranscripts plays what the informer, the kubelet and its records say to one
// book. Every scenario begins with "node <MiB> …", or a kind (whole, small, media)
// in place of the MiB of a MIG instance.
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata/transcripts", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			var sizes []string
			for _, a := range d.CmdArgs {
				sizes = append(sizes, a.Key)
			}
			n := newNode(sizes...)
			var out strings.Builder
			for line := range strings.Lines(d.Input) {
				line = strings.TrimSpace(line)
				answer := n.run(t, line)
				if answer != "" {
					fmt.Fprintf(&out, "%s\n", line)
					for a := range strings.SplitSeq(answer, "\n") {
						fmt.Fprintf(&out, "  %s\n", a)
					}
				}
			}
			return out.String()
		})
	})
}

// TestPreferWhatIsGiven: the kubelet hears of what is taken a moment later, and must
// not be led to a card that it would be refused.
func TestPreferWhatIsGiven(t *testing.T) {
	n := newNode("40960", "40960", "40960")
	n.run(t, "pod s main/slice:25@g0=25")
	n.run(t, "allocate slice g0-0..24")
	n.run(t, "health g1 bad")
	n.run(t, "pod w main/whole:1")
	if got, _ := n.book.Prefer(pool.Whole, []string{"g0", "g1", "g2"}, nil, 1); !slices.Equal(got, []string{"g2"}) {
		t.Errorf("%v are proposed, want g2", got)
	}
}
