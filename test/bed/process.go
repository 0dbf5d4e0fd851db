// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package bed

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// process is one component: a child process that can be started again.
type process struct {
	name  string
	path  string
	args  []string
	env   []string // beside the parent's
	log   string   // file that its output is appended to
	flags uintptr  // clone flags
	// ready returns nil once the component serves; it is asked again and again.
	ready func(context.Context) error

	mu   sync.Mutex
	last *run // nil before the first start
}

// run is one life of a process.
type run struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when cmd has ended
	exit error         // to be read after done
}

func (r *run) over() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// startTimeout bounds how long a component may take to serve, on a machine that
// is busy with other things too.
const startTimeout = 90 * time.Second

// start runs the process and waits until it is ready.
func (p *process) start(ctx context.Context) error {
	r, err := p.launch()
	if err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		err := p.ready(ctx)
		if err == nil && !r.over() {
			return nil
		}
		select {
		case <-r.done:
			return fmt.Errorf("%s ended before it was ready: %w; its last lines:\n%s", p.name, r.exit, tail(p.log, 15))
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w (%w); its last lines:\n%s", p.name, err, ctx.Err(), tail(p.log, 15))
		case <-time.After(25 * time.Millisecond):
		}
	}
}

func (p *process) launch() (*run, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.last != nil && !p.last.over() {
		return nil, errors.New("it runs already")
	}
	out, err := os.OpenFile(p.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	cmd := exec.Command(p.path, p.args...)
	cmd.Env = append(os.Environ(), p.env...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{
		// Its own group: Ctrl-C in the terminal is for the parent alone.
		Setpgid:    true,
		Pdeathsig:  syscall.SIGKILL,
		Cloneflags: p.flags,
	}
	if err := startOnLastingThread(cmd); err != nil {
		return nil, err
	}
	r := &run{cmd: cmd, done: make(chan struct{})}
	p.last = r
	go func() {
		r.exit = cmd.Wait()
		if r.exit == nil {
			r.exit = errors.New("exit status 0")
		}
		close(r.done)
	}()
	return r, nil
}

// signal sends the signal to the process and what it started in its group, and
// returns the life that it went to.
func (p *process) signal(sig syscall.Signal) (*run, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.last == nil || p.last.over() {
		return nil, fmt.Errorf("signal %s: it does not run", p.name)
	}
	return p.last, syscall.Kill(-p.last.cmd.Process.Pid, sig)
}

// kill ends the process at once and waits for its end; that it does not run is
// an error.
func (p *process) kill() error {
	r, err := p.signal(syscall.SIGKILL)
	if err == nil {
		<-r.done
	}
	return err
}

// pid of the running or last process.
func (p *process) pid() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last.cmd.Process.Pid
}

var (
	launches   = make(chan launch)
	launchOnce sync.Once
)

type launch struct {
	cmd   *exec.Cmd
	reply chan error
}

// startOnLastingThread starts cmd from a thread that lives as long as this
// program: the parent-death signal is sent when the *thread* that forked ends
// (prctl(2)), and the Go runtime ends threads as it likes.
func startOnLastingThread(cmd *exec.Cmd) error {
	launchOnce.Do(func() {
		go func() {
			runtime.LockOSThread()
			for l := range launches {
				l.reply <- l.cmd.Start()
			}
		}()
	})
	reply := make(chan error)
	launches <- launch{cmd, reply}
	return <-reply
}

// tail returns the last n lines of a file, or why it cannot.
func tail(path string, n int) string {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimRight(string(raw), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
