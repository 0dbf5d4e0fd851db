// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package extender

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"sync"
	"time"
)

// TLSFiles are PEM files. They are read again when they change, so that a
// renewed certificate needs no restart.
type TLSFiles struct {
	Cert, Key string
	// ClientCA verifies client certificates; "" accepts none.
	ClientCA string
}

// certReloadInterval bounds how long a renewed certificate goes unnoticed.
const certReloadInterval = 10 * time.Second

// Config returns a configuration that offers HTTP/2 and verifies the
// certificates that clients present.
func (f TLSFiles) Config() (*tls.Config, error) {
	c := &reloader{files: f}
	if _, err := c.current(time.Now()); err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: []string{"h2", "http/1.1"},
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			return c.current(time.Now())
		},
	}, nil
}

type reloader struct {
	files TLSFiles

	mu     sync.Mutex
	loaded *tls.Config
	at     time.Time
}

// current keeps the last good configuration when new files cannot be read: a
// half-written certificate must not stop the service.
func (r *reloader) current(now time.Time) (*tls.Config, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.loaded != nil && now.Sub(r.at) < certReloadInterval {
		return r.loaded, nil
	}
	fresh, err := r.files.load()
	if err != nil && r.loaded == nil {
		return nil, err
	}
	if err == nil {
		r.loaded = fresh
	}
	r.at = now
	return r.loaded, nil
}

func (f TLSFiles) load() (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
	if err != nil {
		return nil, fmt.Errorf("server certificate %s with key %s: %w", f.Cert, f.Key, err)
	}
	cfg := &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}, Certificates: []tls.Certificate{pair},
	}
	if f.ClientCA == "" {
		return cfg, nil
	}
	pem, err := os.ReadFile(f.ClientCA)
	if err != nil {
		return nil, fmt.Errorf("client CA: %w", err)
	}
	cfg.ClientCAs = x509.NewCertPool()
	if !cfg.ClientCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("client CA %s holds no PEM certificate", f.ClientCA)
	}
	cfg.ClientAuth = tls.VerifyClientCertIfGiven
	return cfg, nil
}
