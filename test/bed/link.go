// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package bed

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/url"
	"sync"

	"k8s.io/client-go/rest"
)

// Link is the network between one component and the API server, for tests that
// need it to fail: it relays bytes until it is told otherwise.
type Link struct {
	listener net.Listener
	target   string

	mu          sync.Mutex
	changed     *sync.Cond
	silent, cut bool
	open        map[net.Conn]bool
}

// Through makes a link to the API server and points the config at it. It works as
// long as the test's process.
func (c *Cluster) Through(config *rest.Config) (*Link, error) {
	target, err := url.Parse(config.Host)
	if err != nil {
		return nil, fmt.Errorf("link to %s: %w", config.Host, err)
	}
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("link to %s: %w", config.Host, err)
	}
	l := &Link{listener: listener, target: target.Host, open: map[net.Conn]bool{}}
	l.changed = sync.NewCond(&l.mu)
	config.Host = "https://" + listener.Addr().String()
	go l.accept()
	return l, nil
}

// Cut breaks every connection and every attempt to make one, until Restore.
func (l *Link) Cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = true
	for conn := range l.open {
		conn.Close()
	}
	l.changed.Broadcast()
}

// Silence delivers nothing in either direction, and breaks nothing, until
// Restore: what was sent meanwhile arrives then.
func (l *Link) Silence() { l.set(true, false) }

// Restore makes the link work again.
func (l *Link) Restore() { l.set(false, false) }

func (l *Link) set(silent, cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.silent, l.cut = silent, cut
	l.changed.Broadcast()
}

func (l *Link) accept() {
	for {
		client, err := l.listener.Accept()
		if err != nil {
			return
		}
		server, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", l.target)
		if err != nil || !l.add(client, server) {
			client.Close()
			if err == nil {
				server.Close()
			}
			continue
		}
		go l.relay(client, server)
		go l.relay(server, client)
	}
}

func (l *Link) add(conns ...net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, conn := range conns {
		if !l.cut {
			l.open[conn] = true
		}
	}
	return !l.cut
}

// relay copies one direction; when that ends, so does the other.
func (l *Link) relay(to, from net.Conn) {
	io.Copy(&gate{l, to}, from) //nolint:errcheck // a broken connection is what tests ask for
	to.Close()
	from.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, to)
	delete(l.open, from)
}

// gate holds writes back while the link is silent.
type gate struct {
	*Link
	net.Conn
}

func (g *gate) Write(b []byte) (int, error) {
	g.mu.Lock()
	for g.silent && !g.cut {
		g.changed.Wait()
	}
	cut := g.cut
	g.mu.Unlock()
	if cut {
		return 0, io.ErrClosedPipe
	}
	return g.Conn.Write(b)
}
