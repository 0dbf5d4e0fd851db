// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"strconv"

	"github.com/gorilla/mux"

	"github.com/fairslice/fairslice/kube"
	"github.com/fairslice/fairslice/queuecontroller"
)

// views are what people and programs may read of the plan over HTTP, beside the
// API server's own objects. They decide nothing.
type views struct {
	ready   func() error
	pending func(queue string) (kube.Pending, bool)
	// consolidation plans one, without making any move.
	consolidation func() queuecontroller.Consolidation
	log           *slog.Logger
}

// add routes the views; guard lets in whom the verbs let in.
func (v *views) add(routes *mux.Router, guard func(http.Handler) http.Handler) {
	for path, read := range map[string]func(*http.Request) (any, error){
		"/queues/{queue}/pending": v.pendingOf,
		"/consolidation": func(r *http.Request) (any, error) {
			for name := range r.URL.Query() {
				return nil, badRequest("parameter %q is unknown; none is allowed", name)
			}
			return v.consolidation(), nil
		},
	} {
		routes.Handle(path, guard(v.answer(read)))
	}
}

// problem is a request that gets another status than 200, and one sentence.
type problem struct {
	status  int
	message string
}

func (p *problem) Error() string { return p.message }

func badRequest(format string, args ...any) *problem {
	return &problem{http.StatusBadRequest, fmt.Sprintf(format, args...)}
}

// answer serves what read returns as JSON, from the leader alone: what others
// know is not what is decided by.
func (v *views) answer(read func(*http.Request) (any, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			w.Header().Set("Allow", http.MethodGet)
			http.Error(w, "method "+r.Method+" is not served here; allowed is GET", http.StatusMethodNotAllowed)
			return
		}
		if err := v.ready(); err != nil {
			http.Error(w, "the control plane is not ready: "+err.Error(), http.StatusServiceUnavailable)
			return
		}
		out, err := read(r)
		if err != nil {
			status := http.StatusInternalServerError
			if p, ok := err.(*problem); ok { //nolint:errorlint // it is returned as it is made
				status = p.status
			}
			http.Error(w, err.Error(), status)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		body := json.NewEncoder(w)
		body.SetIndent("", "  ")
		if err := body.Encode(out); err != nil {
			v.log.Debug("the caller hung up", "path", r.URL.Path, "err", err)
		}
	})
}

var queueName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?$`)

const (
	defaultPending = 500
	mostPending    = 100_000
)

// pendingOf lists what waits in a queue and below it, the first of each line;
// ?limit= says how many.
func (v *views) pendingOf(r *http.Request) (any, error) {
	queue := mux.Vars(r)["queue"]
	if !queueName.MatchString(queue) {
		return nil, badRequest("%q is no name of a queue: allowed are up to 63 lower-case letters, digits, '-' and '.'", queue)
	}
	limit, err := limitOf(r)
	if err != nil {
		return nil, err
	}
	list, known := v.pending(queue)
	if !known {
		return nil, &problem{http.StatusNotFound, "queue " + queue + " does not exist and no pod that waits names it"}
	}
	list.Workloads = list.Workloads[:min(limit, len(list.Workloads))]
	return list, nil
}

func limitOf(r *http.Request) (int, error) {
	query := r.URL.Query()
	for name := range query {
		if name != "limit" {
			return 0, badRequest("parameter %q is unknown; allowed is limit", name)
		}
	}
	if !query.Has("limit") {
		return defaultPending, nil
	}
	n, err := strconv.Atoi(query.Get("limit"))
	if err != nil || n < 1 || n > mostPending {
		return 0, badRequest("parameter limit is %q; allowed are whole numbers from 1 to %d", query.Get("limit"), mostPending)
	}
	return n, nil
}
