// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/mux"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/fairslice/fairslice/core/explain"
	"github.com/fairslice/fairslice/kube"
	"github.com/fairslice/fairslice/queuecontroller"
)

// line is the waiting line of queue team: a gang, a pod, and a pod without a
// position.
func line() kube.Pending {
	began := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	return kube.Pending{Queue: "team", Exists: true, Cycle: 7, Total: 3, Workloads: []kube.PendingWorkload{
		{
			Position: 1, Queue: "team", Namespace: "ns", Workload: "train", Gang: true, Priority: 50,
			Pods: []string{"train-1", "train-2"}, PodsPlaced: 1, PodsMissing: 2, Since: began,
			Asks:   map[string]resource.Quantity{"gpu": resource.MustParse("2500m"), "cpu": resource.MustParse("4")},
			Reason: explain.Reason{Code: explain.NoNodeFits, Message: "no node fits"},
		},
		{
			Position: 2, Queue: "team", Namespace: "ns", Workload: "one", Pods: []string{"one"}, Since: began.Add(time.Minute),
			Asks: map[string]resource.Quantity{}, Reason: explain.Reason{Code: explain.OverLimit, Message: "over its limit"},
		},
		{
			Queue: "team", Namespace: "ns", Workload: "held", Pods: []string{"held"}, Since: began.Add(time.Minute),
			Asks: map[string]resource.Quantity{}, Reason: explain.Reason{Code: kube.HeldByGate, Message: "a gate of somebody else"},
		},
	}}
}

// moves is a report of one move that frees a node.
func moves() queuecontroller.Consolidation {
	run := kube.Consolidation{
		Moves: []kube.ConsolidationMove{{
			Namespace: "ns", Pod: "p", Queue: "team", From: "n1", To: "n2",
			Reason: "moved to node n2, where room is held for it, by scheduled consolidation to free all GPUs of node n1",
		}},
		GPUs: []kube.ConsolidationGPUs{{
			Model:  "A100",
			Before: kube.ConsolidationFree{MilliGPUs: 5250, WholeGPUs: 5, LargestBlock: 3},
			After:  kube.ConsolidationFree{MilliGPUs: 5250, WholeGPUs: 5, LargestBlock: 4, Nodes: 1},
		}},
	}
	return queuecontroller.Consolidation{Every: "1h0m0s", DryRun: true, Now: run}
}

// TestConsolidationCommand shows the schedule, the moves and the gain.
func TestConsolidationCommand(t *testing.T) {
	server := viewServer(t, &views{ready: func() error { return nil }, consolidation: moves})
	cmd := newRootCommand()
	var out strings.Builder
	cmd.SetOut(&out)
	cmd.SetArgs([]string{"consolidation", "--server=" + server.URL})
	want := `every 1h0m0s, only reported

now it would do this
POD   QUEUE  FROM  TO  WHY
ns/p  team   n1    n2  to free all GPUs of node n1
GPU MODEL  FREE  WHOLE GPUS  LARGEST BLOCK  FREE NODES
A100       5.25  5           3, then 4      0, then 1
`
	if err := cmd.ExecuteContext(t.Context()); err != nil || out.String() != want {
		t.Errorf("printed\n%s and failed with %v, want\n%s", out.String(), err, want)
	}
}

func viewServer(t *testing.T, v *views) *httptest.Server {
	t.Helper()
	v.log = slog.New(slog.DiscardHandler)
	routes := mux.NewRouter()
	v.add(routes, func(next http.Handler) http.Handler { return next })
	server := httptest.NewServer(routes)
	t.Cleanup(server.Close)
	return server
}

// TestViews: what is served, and that rubbish gets one sentence.
func TestViews(t *testing.T) {
	var notReady error
	server := viewServer(t, &views{
		ready:         func() error { return notReady },
		pending:       func(queue string) (kube.Pending, bool) { return line(), queue == "team" },
		consolidation: moves,
	})
	for _, c := range []struct {
		method, path string
		notReady     error
		status       int
		want         string
	}{
		{"GET", "/queues/team/pending", nil, 200, `"position": 2`},
		{"GET", "/queues/team/pending", nil, 200, `"gpu": "2500m"`},
		{"GET", "/queues/team/pending", nil, 200, `"code": "HeldByGate"`},
		{"GET", "/queues/team/pending?limit=1", nil, 200, `"total": 3`},
		{"GET", "/queues/nobody/pending", nil, 404, "queue nobody does not exist and no pod that waits names it"},
		{"GET", "/queues/Team!/pending", nil, 400, `"Team!" is no name of a queue: allowed are up to 63 lower-case letters, digits, '-' and '.'`},
		{"GET", "/queues/" + strings.Repeat("x", 64) + "/pending", nil, 400, "is no name of a queue"},
		{"GET", "/queues/team/pending?limit=0", nil, 400, `parameter limit is "0"; allowed are whole numbers from 1 to 100000`},
		{"GET", "/queues/team/pending?limit=", nil, 400, `parameter limit is ""; allowed are whole numbers from 1 to 100000`},
		{"GET", "/queues/team/pending?limits=3", nil, 400, `parameter "limits" is unknown; allowed is limit`},
		{"GET", "/consolidation", nil, 200, `"largestBlock": 4`},
		{"GET", "/consolidation?now=yes", nil, 400, `parameter "now" is unknown; none is allowed`},
		{"DELETE", "/consolidation", nil, 405, "method DELETE is not served here; allowed is GET"},
		{"POST", "/queues/team/pending", nil, 405, "method POST is not served here; allowed is GET"},
		{"GET", "/queues/team/pending", errors.New("another replica holds the lease"), 503, "the control plane is not ready: another replica holds the lease"},
	} {
		notReady = c.notReady
		req, err := http.NewRequestWithContext(t.Context(), c.method, server.URL+c.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != c.status || !strings.Contains(string(body), c.want) {
			t.Errorf("%s %s answers %d %s, want %d with %q", c.method, c.path, resp.StatusCode, body, c.status, c.want)
		}
		if c.status != 200 && strings.Count(strings.TrimSpace(string(body)), "\n") > 0 {
			t.Errorf("%s %s answers more than one sentence: %s", c.method, c.path, body)
		}
		if c.path == "/queues/team/pending?limit=1" && strings.Contains(string(body), "one") {
			t.Errorf("limit=1 lists more than one: %s", body)
		}
	}
}

// TestPendingCommand shows the line, asks for what is needed, and repeats what
// the control plane says.
func TestPendingCommand(t *testing.T) {
	server := viewServer(t, &views{
		ready:   func() error { return nil },
		pending: func(queue string) (kube.Pending, bool) { return line(), queue == "team" },
	})
	for _, c := range []struct {
		args []string
		want string
		err  string
	}{
		{[]string{"queues", "team", "--server=" + server.URL}, "1         team   ns/train  2 wait, 1 placed, 2 missing  gpu=2500m,cpu=4", ""},
		{[]string{"queues", "team", "--server=" + server.URL}, "-         team   ns/held   1 wait", ""},
		{[]string{"queues", "team", "--server=" + server.URL, "--limit=1"}, "and 2 more", ""},
		{[]string{"queues", "nobody", "--server=" + server.URL}, "", "queue nobody does not exist and no pod that waits names it"},
		{[]string{"queues", "team", "--server=127.0.0.1:8443"}, "", `--server is "127.0.0.1:8443"; it must be an address such as https://127.0.0.1:8443`},
		{[]string{"queues", "team", "--server="}, "", "--server is not set: this is read from the control plane"},
		{[]string{"queues", "team", "--server=" + server.URL, "--server-ca=/nowhere"}, "", "--server-ca: open /nowhere"},
		{[]string{"queues", "team", "--server=" + server.URL, "--client-cert=/nowhere"}, "", "--client-cert and --client-key: "},
	} {
		cmd := newRootCommand()
		var out strings.Builder
		cmd.SetOut(&out)
		cmd.SetArgs(c.args)
		err := cmd.ExecuteContext(t.Context())
		switch {
		case c.err == "" && (err != nil || !strings.Contains(out.String(), c.want)):
			t.Errorf("%v prints\n%s and fails with %v, want %q", c.args, out.String(), err, c.want)
		case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)):
			t.Errorf("%v fails with %v, want %q", c.args, err, c.err)
		}
	}
}

// TestLineOfPod is the second sentence of why.
func TestLineOfPod(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 5, 0, 0, time.UTC)
	for pod, want := range map[string]string{
		"train-2": "its gang train (2 wait, 1 placed, 2 missing) is number 1 of queue team, waits for 5m0s, asks gpu=2500m,cpu=4",
		"one":     "it is number 2 of queue team, waits for 4m0s, asks nothing",
		"held":    "it waits for 4m0s, asks nothing and has no position in queue team",
		"other":   "",
	} {
		if got := lineOf(line(), "ns", pod, now); got != want {
			t.Errorf("pod %s: %q, want %q", pod, got, want)
		}
	}
}

// TestViewsAreGuarded: where the verbs want a client certificate the views want
// one too, or the token of a user who may read them.
func TestViewsAreGuarded(t *testing.T) {
	client := fake.NewClientset()
	client.PrependReactor("create", "tokenreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
		review := a.(clienttesting.CreateAction).GetObject().(*authenticationv1.TokenReview)
		review.Status.Authenticated = review.Spec.Token != "unknown"
		review.Status.User.Username = review.Spec.Token
		return true, review, nil
	})
	client.PrependReactor("create", "subjectaccessreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
		review := a.(clienttesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview)
		what := review.Spec.ResourceAttributes
		review.Status.Allowed = what.Group == "fairslice.io" && what.Verb == "get" && what.Resource == "queues" &&
			(review.Spec.User == "ann" && what.Subresource == "pending" && what.Name == "team" || review.Spec.User == "admin")
		return true, review, nil
	})
	v := &views{
		ready: func() error { return nil }, log: slog.New(slog.DiscardHandler), consolidation: moves,
		pending: func(string) (kube.Pending, bool) { return line(), true },
	}
	for _, c := range []struct {
		certificates bool
		path, token  string
		status       int
		want         string
	}{
		{false, "/queues/team/pending", "", http.StatusOK, "train"},
		{true, "/queues/team/pending", "", http.StatusUnauthorized, "a client certificate signed by --client-ca or a bearer token of a user of the cluster is required"},
		{true, "/queues/team/pending", "unknown", http.StatusUnauthorized, "the bearer token is not one of a user of the cluster"},
		{true, "/queues/team/pending", "ann", http.StatusOK, "train"},
		{true, "/queues/other/pending", "ann", http.StatusForbidden, "user ann may not get queues/pending of group fairslice.io"},
		{true, "/consolidation", "ann", http.StatusForbidden, "user ann may not get queues/consolidation of group fairslice.io"},
		{true, "/consolidation", "admin", http.StatusOK, "1h0m0s"},
	} {
		routes := mux.NewRouter()
		v.add(routes, newTokenGuard(client, c.certificates).wrap)
		request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, c.path, nil)
		if c.token != "" {
			request.Header.Set("Authorization", "Bearer "+c.token)
		}
		answer := httptest.NewRecorder()
		routes.ServeHTTP(answer, request)
		if answer.Code != c.status || !strings.Contains(answer.Body.String(), c.want) {
			t.Errorf("%s with token %q answers %d %s, want %d with %q", c.path, c.token, answer.Code, answer.Body, c.status, c.want)
		}
	}
}

// TestTokensAreReviewedOnce: a token that is shown again and again, known or not,
// is one question to the API server, and what failed is asked again.
func TestTokensAreReviewedOnce(t *testing.T) {
	client, reviews, down := fake.NewClientset(), 0, true
	client.PrependReactor("create", "tokenreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
		reviews++
		review := a.(clienttesting.CreateAction).GetObject().(*authenticationv1.TokenReview)
		review.Status.Authenticated = review.Spec.Token == "known"
		if down {
			return true, nil, errors.New("no connection")
		}
		return true, review, nil
	})
	client.PrependReactor("create", "subjectaccessreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
		review := a.(clienttesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview)
		review.Status.Allowed = true
		return true, review, nil
	})
	guarded := newTokenGuard(client, true).wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for _, c := range []struct {
		token           string
		down            bool
		status, reviews int
	}{
		{"known", true, http.StatusServiceUnavailable, 1},
		{"known", false, http.StatusOK, 2},
		{"known", false, http.StatusOK, 2},
		{"unknown", false, http.StatusUnauthorized, 3},
		{"unknown", false, http.StatusUnauthorized, 3},
		{"known", false, http.StatusOK, 3},
	} {
		down = c.down
		request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/consolidation", nil)
		request.Header.Set("Authorization", "Bearer "+c.token)
		answer := httptest.NewRecorder()
		guarded.ServeHTTP(answer, request)
		if answer.Code != c.status || reviews != c.reviews {
			t.Errorf("token %q answers %d after %d reviews, want %d after %d", c.token, answer.Code, reviews, c.status, c.reviews)
		}
	}
}
