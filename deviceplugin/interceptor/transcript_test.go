// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package interceptor_test

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/fairslice/fairslice/deviceplugin/interceptor"
)

// ways are those in which a program reaches the driver; each must meet the limit.
var ways = []string{"link", "dlsym", "dlvsym", "dlvsym-new", "next", "proc", "proc-old", "proc-ptsz", "deepbind", "deepbind-dlsym"}

// TestTranscripts runs testdata/transcripts. Directives:
//
//	machine [gpus=MIB,…] [chunk=MIB] [context=MIB] [aliases] [no-deferred]   a fresh machine, no region
//	region [memory=MIB,…] [compute=MILLI] [context=MIB] [managed-free] [keep]
//	run [way=WAY]      a program that does what the lines say, and ends
//	everyway           the same in every way; the outcomes must be equal
//	start NAME, tell NAME (lines), end NAME, kill NAME    a program that stays
//	usage, physical    what the region and what the stand-in GPU count
//	reset              what the node agent does when a container starts again
//	spoil FILE         overwrites a file of the region with zeroes
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata/transcripts", func(t *testing.T, path string) {
		s := &session{t: t, machine: newMachine(t), running: map[string]*program{}}
		defer s.endAll()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			out, err := s.do(d)
			if err != nil {
				d.Fatalf(t, "%v", err)
			}
			return out
		})
	})
}

type session struct {
	t       *testing.T
	machine *machine
	opened  *interceptor.Region
	running map[string]*program
}

func (s *session) do(d *datadriven.TestData) (string, error) {
	name := ""
	if len(d.CmdArgs) > 0 {
		name = d.CmdArgs[0].Key
	}
	switch d.Cmd {
	case "machine":
		return "", s.newMachine(d)
	case "region":
		return "", s.newRegion(d)
	case "run":
		return s.run(option(d, "way", "link"), d.Input, d.HasArg("bare"))
	case "everyway":
		return s.everyWay(d.Input)
	case "start":
		p, err := start(s.machine.command("probe", "link"))
		if err != nil {
			return "", err
		}
		s.running[name] = p
		_, err = p.tell("nvml 0") // it answers once it runs, with its context made
		return "", err
	case "tell":
		return s.running[name].tell(d.Input)
	case "end", "kill":
		return s.running[name].end(d.Cmd == "kill"), nil
	case "usage":
		return s.usage()
	case "physical":
		return physical(s.machine)
	case "reset":
		return "", s.opened.Reset()
	case "spoil":
		return "", os.WriteFile(filepath.Join(s.machine.region(), name), make([]byte, 4096), 0o666)
	}
	return "", fmt.Errorf("unknown directive %s", d.Cmd)
}

func option(d *datadriven.TestData, key, otherwise string) string {
	for _, a := range d.CmdArgs {
		if a.Key == key && len(a.Vals) > 0 {
			return strings.Join(a.Vals, ",")
		}
	}
	return otherwise
}

func (s *session) newMachine(d *datadriven.TestData) error {
	s.endAll()
	s.machine = newMachine(s.t, "STANDIN_GPUS="+option(d, "gpus", "40960"), "STANDIN_POOL_CHUNK="+option(d, "chunk", "2"),
		"STANDIN_CONTEXT="+option(d, "context", "0"))
	if d.HasArg("aliases") {
		s.machine.env = append(s.machine.env, "STANDIN_ALIASES=1")
	}
	if d.HasArg("no-deferred") {
		s.machine.env = append(s.machine.env, "STANDIN_NO_DEFERRED=1")
	}
	return nil
}

func (s *session) newRegion(d *datadriven.TestData) error {
	limits := interceptor.Limits{ManagedFree: d.HasArg("managed-free")}
	context, err := strconv.ParseUint(option(d, "context", "0"), 10, 64)
	if err != nil {
		return err
	}
	compute, err := strconv.ParseUint(option(d, "compute", "1000"), 10, 32)
	if err != nil {
		return err
	}
	for i, m := range strings.Split(option(d, "memory", "64"), ",") {
		mib, err := strconv.ParseUint(m, 10, 64)
		if err != nil {
			return err
		}
		limits.Devices = append(limits.Devices, interceptor.DeviceLimit{
			UUID: standinUUID(i), MemoryBytes: mib << 20, ContextBytes: context << 20, ComputeMilli: uint32(compute),
		})
	}
	if d.HasArg("keep") {
		return s.opened.SetLimits(limits)
	}
	s.opened, err = interceptor.Create(s.machine.region(), limits)
	return err
}

// standinUUID is what the stand-in makes up for its GPU i.
func standinUUID(i int) string { return fmt.Sprintf("GPU-fa12511c-e000-4000-8000-%012x", i) }

var pidText = regexp.MustCompile(`process \d+`)

func (s *session) run(way, input string, bare bool) (string, error) {
	args := []string{way}
	if bare {
		args = append(args, "bare")
	}
	c := s.machine.command("probe", args...)
	var stdout, stderr bytes.Buffer
	c.Stdin, c.Stdout, c.Stderr = strings.NewReader(input+"\n"), &stdout, &stderr
	if err := c.Run(); err != nil {
		return "", fmt.Errorf("way %s: %w: %s%s", way, err, stdout.String(), stderr.String())
	}
	text := pidText.ReplaceAllString(stderr.String(), "process P")
	return stdout.String() + strings.ReplaceAll(text, s.machine.dir, "DIR"), nil
}

func (s *session) everyWay(input string) (string, error) {
	first := ""
	for _, way := range ways {
		out, err := s.run(way, input, false)
		if err != nil {
			return "", err
		}
		if first == "" {
			first = out
		}
		if out != first {
			return "", fmt.Errorf("way %s differs from %s:\n%s\nand\n%s", way, ways[0], out, first)
		}
	}
	return first, nil
}

func (s *session) usage() (string, error) {
	devices, err := s.opened.Usage()
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for i, d := range devices {
		fmt.Fprintf(&b, "gpu %d: %s of %s by %d processes, %d refusals of %s\n", i, size(d.UsedBytes), size(d.LimitBytes), len(d.Processes), d.Refusals, size(d.RefusedBytes))
	}
	return b.String(), nil
}

func size(n uint64) string {
	if n%(1<<20) == 0 {
		return fmt.Sprintf("%dMiB", n>>20)
	}
	return strconv.FormatUint(n, 10)
}

// physical reads the stand-in's state file: the truth that the library cannot
// influence.
func physical(m *machine) (string, error) {
	used, peak, _, err := readMachine(m)
	return fmt.Sprintf("used %s peak %s\n", size(used), size(peak)), err
}

func readMachine(m *machine) (used, peak, busy uint64, err error) {
	raw, err := os.ReadFile(filepath.Join(m.dir, "machine"))
	if err != nil || len(raw) < 112 {
		return 0, 0, 0, fmt.Errorf("stand-in state: %w", err)
	}
	gpu := raw[56:] // magic, mutex, count
	return binary.LittleEndian.Uint64(gpu[24:]), binary.LittleEndian.Uint64(gpu[32:]), binary.LittleEndian.Uint64(gpu[48:]), nil
}

// program is a probe that stays.
type program struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func start(c *exec.Cmd) (*program, error) {
	in, err := c.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := c.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return &program{c, in, bufio.NewReader(out)}, c.Start()
}

func (p *program) tell(input string) (string, error) {
	var b strings.Builder
	for line := range strings.SplitSeq(strings.TrimSpace(input), "\n") {
		if _, err := fmt.Fprintln(p.in, line); err != nil {
			return "", err
		}
		if line == "exec" {
			continue // another program now, which has nothing to say
		}
		answer, err := p.out.ReadString('\n')
		if err != nil {
			return "", fmt.Errorf("%s: %w", line, err)
		}
		b.WriteString(answer)
	}
	return b.String(), nil
}

func (p *program) end(kill bool) string {
	if p.cmd.ProcessState != nil {
		return ""
	}
	if kill {
		_ = p.cmd.Process.Kill()
	}
	_ = p.in.Close()
	_ = p.cmd.Wait()
	return p.cmd.ProcessState.String() + "\n"
}

func (s *session) endAll() {
	for _, p := range s.running {
		p.end(true)
	}
}
