// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

// kubeletSocket is one incarnation of the kubelet's socket.
type kubeletSocket struct {
	dir  string
	poll time.Duration
	info os.FileInfo
}

// awaitKubelet waits until the kubelet's socket exists.
func awaitKubelet(ctx context.Context, dir string, poll time.Duration) (*kubeletSocket, error) {
	k := &kubeletSocket{dir: dir, poll: poll}
	err := k.each(ctx, func() bool {
		info, err := os.Stat(filepath.Join(dir, KubeletSocket))
		if err != nil {
			return false
		}
		k.info = info
		return true
	})
	return k, err
}

// untilReplaced waits until the socket is another one, or one of ours is gone.
func (k *kubeletSocket) untilReplaced(ctx context.Context, ours []string) error {
	return k.each(ctx, func() bool {
		info, err := os.Stat(filepath.Join(k.dir, KubeletSocket))
		if err != nil {
			return os.IsNotExist(err)
		}
		// An inode number may be used again; the time of change tells them apart.
		if !os.SameFile(info, k.info) || !info.ModTime().Equal(k.info.ModTime()) {
			return true
		}
		for _, socket := range ours {
			if _, err := os.Stat(socket); os.IsNotExist(err) {
				return true
			}
		}
		return false
	})
}

// each evaluates a condition now, at every event in the directory, and at every
// poll: events of bind mounts can be lost.
func (k *kubeletSocket) each(ctx context.Context, done func() bool) error {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("watching %s: %w", k.dir, err)
	}
	defer w.Close()
	if err := w.Add(k.dir); err != nil {
		return fmt.Errorf("watching %s, the kubelet's directory for device plugins: %w", k.dir, err)
	}
	tick := time.NewTicker(k.poll)
	defer tick.Stop()
	for !done() {
		select {
		case <-ctx.Done():
			return nil
		case <-w.Events:
		case <-w.Errors: //nolint:errcheck // an overflow loses events; look anyway
		case <-tick.C:
		}
	}
	return nil
}
