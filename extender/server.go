// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package extender

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/gorilla/mux"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
)

// Options of a Server. Zero values of durations and sizes mean the defaults.
type Options struct {
	Ledger Ledger
	Binder Binder
	Log    *slog.Logger
	// Registry takes the server's metrics and is served under /metrics.
	Registry *prometheus.Registry
	// ReservedResources make a pod that the ledger does not know yet the
	// extender's business: GPU resources and the queued marker.
	ReservedResources []string
	// QueueLabel, on such a pod, does the same.
	QueueLabel string
	// RequireClientCert refuses the verbs to clients without a verified
	// certificate; probes and metrics stay open.
	RequireClientCert bool

	MaxBodyBytes   int64         // 16 MiB
	ReadTimeout    time.Duration // 10 s, for receiving a request
	BarrierTimeout time.Duration // 20 s; with WriteTimeout below the scheduler's httpTimeout
	WriteTimeout   time.Duration // 5 s, for one binding with its retries
	RetryDelay     time.Duration // 50 ms, doubled from try to try
	CacheWait      time.Duration // 200 ms, for a pod that our watch has not brought yet
	GangCheck      time.Duration // 100 ms, how often a waiting member looks whether its gang still holds
}

func (o *Options) setDefaults() {
	defaultTo(&o.MaxBodyBytes, 16<<20)
	defaultTo(&o.ReadTimeout, 10*time.Second)
	defaultTo(&o.BarrierTimeout, 20*time.Second)
	defaultTo(&o.WriteTimeout, 5*time.Second)
	defaultTo(&o.RetryDelay, 50*time.Millisecond)
	defaultTo(&o.CacheWait, 200*time.Millisecond)
	defaultTo(&o.GangCheck, 100*time.Millisecond)
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Registry == nil {
		o.Registry = prometheus.NewRegistry()
	}
}

func defaultTo[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Server answers kube-scheduler. It holds no state but the calls in flight.
type Server struct {
	options Options
	ledger  Ledger
	binder  Binder
	metrics metrics
	flights flights
	gangs   barrier
	reserve map[string]bool
}

// New returns a server that is not listening yet.
func New(o Options) (*Server, error) {
	if o.Ledger == nil || o.Binder == nil {
		return nil, errors.New("extender: Ledger and Binder must be set")
	}
	o.setDefaults()
	s := &Server{options: o, ledger: o.Ledger, binder: o.Binder, reserve: map[string]bool{}}
	s.flights.byID = map[PodKey]*flight{}
	for _, r := range o.ReservedResources {
		s.reserve[r] = true
	}
	var err error
	s.metrics, err = newMetrics(o.Registry)
	return s, err
}

// Handler routes all paths of the server.
func (s *Server) Handler() http.Handler {
	r := mux.NewRouter()
	r.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { writeText(w, http.StatusOK, "ok") }).Methods(http.MethodGet)
	r.HandleFunc("/readyz", s.ready).Methods(http.MethodGet)
	r.Handle("/metrics", promhttp.HandlerFor(s.options.Registry, promhttp.HandlerOpts{})).Methods(http.MethodGet)

	verbs := r.Methods(http.MethodPost).Subrouter()
	verbs.Use(s.recoverPanic, s.authenticate, s.limit, s.onlyWhenReady)
	for _, v := range []struct {
		name   string
		handle http.HandlerFunc
	}{{"filter", s.filter}, {"prioritize", s.prioritize}, {"preempt", s.preempt}, {"bind", s.bind}} {
		verbs.Handle("/"+v.name, s.timed(v.name, v.handle))
	}
	return r
}

// HTTPServer returns a server for Handler with the time limits set.
func (s *Server) HTTPServer() *http.Server {
	return &http.Server{
		Handler:           s.Handler(),
		ReadTimeout:       s.options.ReadTimeout,
		ReadHeaderTimeout: s.options.ReadTimeout,
		WriteTimeout:      s.options.ReadTimeout + s.options.BarrierTimeout + 2*s.options.WriteTimeout,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(s.options.Log.Handler(), slog.LevelWarn),
	}
}

func (s *Server) ready(w http.ResponseWriter, _ *http.Request) {
	if err := s.ledger.Ready(); err != nil {
		writeText(w, http.StatusServiceUnavailable, err.Error())
		return
	}
	writeText(w, http.StatusOK, "ok")
}

// recoverPanic keeps one bad call from ending the process, and tells
// kube-scheduler in the form it understands.
func (s *Server) recoverPanic(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if p := recover(); p != nil {
				s.options.Log.Error("panic in a call", "path", r.URL.Path, "panic", p, "stack", string(debug.Stack()))
				s.metrics.panics.Inc()
				s.answer(w, extenderv1.ExtenderBindingResult{Error: errPanicked.Error()})
			}
		}()
		next.ServeHTTP(w, r)
	})
}

func (s *Server) authenticate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.options.RequireClientCert && (r.TLS == nil || len(r.TLS.VerifiedChains) == 0) {
			writeText(w, http.StatusUnauthorized, "a client certificate signed by the extender's client CA is required")
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (s *Server) limit(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, s.options.MaxBodyBytes)
		next.ServeHTTP(w, r)
	})
}

// onlyWhenReady keeps a server that has not seen the whole cluster, or has lost
// the lease, from deciding anything.
func (s *Server) onlyWhenReady(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := s.ledger.Ready(); err != nil {
			s.answer(w, extenderv1.ExtenderBindingResult{Error: fmt.Sprintf("the fairslice extender is not ready: %v", err)})
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (s *Server) timed(verb string, next http.HandlerFunc) http.Handler {
	seconds := s.metrics.seconds.WithLabelValues(verb)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		started := time.Now()
		next(w, r)
		seconds.Observe(time.Since(started).Seconds())
	})
}

// reject answers a request that could not be understood.
func (s *Server) reject(w http.ResponseWriter, err error) {
	s.metrics.rejected.Inc()
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		writeText(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("request body is over the limit of %d bytes", tooLarge.Limit))
		return
	}
	writeText(w, http.StatusBadRequest, err.Error())
}

// answer writes a result with its length, so that the connection is kept.
func (s *Server) answer(w http.ResponseWriter, result any) {
	raw, err := json.Marshal(result)
	if err != nil {
		s.options.Log.Error("encoding an answer", "error", err)
		writeText(w, http.StatusInternalServerError, err.Error())
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(raw)))
	if _, err := w.Write(raw); err != nil && !errors.Is(err, context.Canceled) {
		s.options.Log.Debug("the caller hung up", "error", err)
	}
}

func writeText(w http.ResponseWriter, status int, line string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	fmt.Fprintln(w, line)
}
