// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package binaries

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"time"
)

// build compiles the missing programs, one go build a nested module so that the
// compiler's work is shared and spread over all cores, and renames each into
// the cache.
func build(ctx context.Context, progress io.Writer, root string, dir Dir, missing []string) error {
	pinned, err := versions(root)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(string(dir), 0o755); err != nil {
		return err
	}
	// What a killed build left; this process holds the lock.
	leftovers, err := filepath.Glob(dir.Path(".build-*"))
	if err != nil {
		return err
	}
	for _, leftover := range leftovers {
		if err := os.RemoveAll(leftover); err != nil {
			return err
		}
	}
	for _, module := range []string{toolsModule, runtimeModule} {
		var names []string
		for _, name := range missing {
			if programs[name].module == module {
				names = append(names, name)
			}
		}
		if len(names) == 0 {
			continue
		}
		job := job{root: root, module: module, dir: dir, names: names, versions: pinned}
		if err := job.run(ctx, progress); err != nil {
			return err
		}
	}
	return nil
}

// job is one go build.
type job struct {
	root, module string
	dir          Dir
	names        []string
	versions     map[string]string
}

func (j job) run(ctx context.Context, progress io.Writer) error {
	started := time.Now()
	var titles []string
	for _, name := range j.names {
		titles = append(titles, name+" "+j.versions[programs[name].pins])
	}
	total, err := j.countPackages(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(progress, "test bed: building %s (on %d cores about %s when nothing is cached)\n",
		strings.Join(titles, ", "), runtime.NumCPU(), time.Duration(total)*cpuPerPackage/time.Duration(runtime.NumCPU())/time.Second*time.Second)
	out, err := os.MkdirTemp(string(j.dir), ".build-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(out)
	args := append([]string{"build", "-v", "-o", out + string(filepath.Separator)}, compileFlags...)
	for _, name := range j.names {
		p := programs[name]
		flags, err := p.ldflags(j.versions[p.pins])
		if err != nil {
			return err
		}
		args = append(args, "-ldflags="+p.path+"="+flags)
	}
	for _, name := range j.names {
		args = append(args, programs[name].path)
	}
	if err := j.compile(ctx, progress, total, args); err != nil {
		return err
	}
	for _, name := range j.names {
		if err := os.Rename(filepath.Join(out, output(programs[name].path)), j.dir.Path(name)); err != nil {
			return fmt.Errorf("keep the built %s: %w", name, err)
		}
	}
	fmt.Fprintf(progress, "test bed: built in %s into %s\n", time.Since(started).Round(time.Second), j.dir)
	return nil
}

// cpuPerPackage was measured with an empty build cache: 14 minutes of CPU time
// for the 2993 packages of all programs of test/bed/tools, linking included.
const cpuPerPackage = 290 * time.Millisecond

// countPackages returns how many packages the programs consist of: what go
// build compiles when nothing is cached.
func (j job) countPackages(ctx context.Context) (int, error) {
	args := append([]string{"list", "-deps"}, compileFlags...)
	for _, name := range j.names {
		args = append(args, programs[name].path)
	}
	cmd := j.command(ctx, args)
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil {
		return 0, fmt.Errorf("list the packages of %s: %w\n%s", j.module, err, complaints.String())
	}
	return bytes.Count(out, []byte("\n")), nil
}

// command runs go in the nested module.
func (j job) command(ctx context.Context, args []string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = filepath.Join(j.root, j.module)
	// Static programs run on any machine and in any image; GOFLAGS and a
	// workspace of the user's must not change them.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-mod=readonly", "GOWORK=off")
	return cmd
}

// compile runs go with the arguments and reports how far it is every few
// seconds: with -v it names each package that it compiles.
func (j job) compile(ctx context.Context, progress io.Writer, total int, args []string) error {
	started := time.Now()
	cmd := j.command(ctx, args)
	pipe, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	cmd.Stdout = cmd.Stderr
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start go to build the test bed: %w", err)
	}
	var complaints bytes.Buffer
	packages, told := 0, started
	lines := bufio.NewScanner(pipe)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		switch line := lines.Text(); {
		case strings.HasPrefix(line, "go: downloading "):
		case strings.HasPrefix(line, "#") || strings.ContainsAny(line, ": \t"):
			complaints.WriteString(line + "\n")
		default:
			packages++
		}
		if now := time.Now(); now.Sub(told) >= 15*time.Second {
			told = now
			fmt.Fprintf(progress, "test bed: %d of at most %d packages compiled after %s …\n", packages, total, now.Sub(started).Round(time.Second))
		}
	}
	if err := cmd.Wait(); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("build %s of %s: %w\n%s", strings.Join(j.names, ", "), j.module, err, complaints.String())
	}
	return nil
}

var majorSuffix = regexp.MustCompile(`^v[2-9]\d*$`)

// output is the file name that go build gives to a main package.
func output(importPath string) string {
	if base := path.Base(importPath); !majorSuffix.MatchString(base) {
		return base
	}
	return path.Base(path.Dir(importPath))
}
