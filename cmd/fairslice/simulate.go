// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/fairslice/fairslice/core/scenario"
	"github.com/fairslice/fairslice/core/sim"
)

// Exit codes of simulate, besides 0 and 1 (input or usage is wrong).
const (
	exitDiffers  = 2 // an expectation is not met, with --check
	exitViolated = 3 // an invariant is broken: a bug, please report it
	// exitInterrupted is what shells expect after Ctrl-C.
	exitInterrupted = 130
)

// outputs are the forms that simulate prints.
var outputs = []string{"table", "json", "yaml"}

type simulateOptions struct {
	file, output string
	check        bool
	trace        traceOptions
}

func newSimulateCommand() *cobra.Command {
	o := &simulateOptions{}
	cmd := &cobra.Command{
		Use:   "simulate -f FILE | simulate --trace NODES.csv TASKS.csv",
		Short: "Run a scenario, or a trace of a production cluster, through the real decisions",
		Long: `simulate shows what Fairslice would do, without a cluster.

With -f it runs scenarios (YAML or JSON, several documents in one file are
several scenarios): in rounds, or in simulated time if there is a timeline.
It prints the final states, every decision with its reason, why workloads wait,
and the fair shares.

With --trace it lets the tasks of a trace arrive one by one and prints how much
of all GPU capacity is allocated.

Exit codes: 0 fine, 1 wrong usage or input, 2 an expectation of the scenario is
not met (with --check), 3 an invariant is broken.`,
		Example: `  fairslice simulate -f scenario.yaml
  fairslice simulate -f scenario.json -o json --check
  fairslice simulate --trace nodes.csv pods.csv --arrive 1.3 --seeds 42-51`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return interruptible(cmd.Context(), func() error { return o.run(cmd, args) })
		},
	}
	f := cmd.Flags()
	f.StringVarP(&o.file, "filename", "f", "", `scenario file, "-" for standard input`)
	f.StringVarP(&o.output, "output", "o", "table", "output: table, json or yaml")
	f.BoolVar(&o.check, "check", false, "exit with code 2 if an expectation of the scenario is not met")
	o.trace.addFlags(f)
	return cmd
}

// interruptible returns early on a signal: the core reads no context, and what
// it computes is of no use then.
func interruptible(ctx context.Context, run func() error) error {
	if ctx == nil {
		ctx = context.Background()
	}
	done := make(chan error, 1)
	go func() { done <- run() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return &exitError{exitInterrupted, errors.New("interrupted")}
	}
}

func (o *simulateOptions) run(cmd *cobra.Command, args []string) error {
	if !slices.Contains(outputs, o.output) {
		return fmt.Errorf("--output is %q; allowed: table, json, yaml", o.output)
	}
	switch {
	case o.trace.nodes != "" && o.file != "":
		return errors.New("-f and --trace exclude each other")
	case o.trace.nodes != "":
		return o.trace.run(cmd.Context(), cmd.OutOrStdout(), args, o.output)
	case len(args) > 0:
		return fmt.Errorf("unexpected argument %q; a scenario is given with -f", args[0])
	case o.file == "":
		return errors.New("nothing to simulate: give a scenario with -f, or a trace with --trace")
	}
	data, err := readInput(o.file, cmd.InOrStdin())
	if err != nil {
		return err
	}
	scenarios, err := readScenarios(data)
	if err != nil {
		return fmt.Errorf("%s: %w", o.file, err)
	}
	return o.runScenarios(cmd.OutOrStdout(), scenarios)
}

func (o *simulateOptions) runScenarios(out io.Writer, scenarios []*scenario.Scenario) error {
	var result error
	buffered := bufio.NewWriter(out)
	for i, s := range scenarios {
		report, err := sim.Run(s)
		if err != nil {
			return fmt.Errorf("%s: %w", o.file, err)
		}
		if i > 0 && o.output != "json" {
			fmt.Fprintln(buffered, "---")
		}
		if err := printReport(buffered, o.output, report); err != nil {
			return err
		}
		result = worst(result, o.verdict(report))
	}
	return errors.Join(result, buffered.Flush())
}

// worst keeps the error with the highest exit code.
func worst(a, b error) error {
	var x, y *exitError
	if !errors.As(a, &x) || errors.As(b, &y) && y.code > x.code {
		return b
	}
	return a
}

func (o *simulateOptions) verdict(report *sim.Report) error {
	for i, r := range report.Rounds {
		if len(r.Violations) > 0 {
			return &exitError{exitViolated, fmt.Errorf("scenario %s, round %d: an invariant is broken, which is a bug: %s", report.ID, i+1, r.Violations[0])}
		}
	}
	for _, d := range report.Differences {
		if o.check && !d.Tie {
			return &exitError{exitDiffers, fmt.Errorf("scenario %s: %s", report.ID, d.Text)}
		}
	}
	return nil
}

func readInput(file string, stdin io.Reader) ([]byte, error) {
	if file == "-" {
		return io.ReadAll(stdin)
	}
	return os.ReadFile(file)
}

// readScenarios reads JSON, or YAML turned into JSON document by document.
func readScenarios(data []byte) ([]*scenario.Scenario, error) {
	if trimmed := bytes.TrimSpace(data); len(trimmed) > 0 && trimmed[0] == '{' {
		return scenario.Read(data)
	}
	var all bytes.Buffer
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for number := 1; ; number++ {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return scenario.Read(all.Bytes())
		}
		if err != nil {
			return nil, fmt.Errorf("not YAML: %w", err)
		}
		converted, err := yaml.YAMLToJSONStrict(document)
		if err != nil {
			return nil, fmt.Errorf("document %d is not YAML: %w", number, err)
		}
		if string(converted) == "null" {
			continue
		}
		all.Write(converted)
		all.WriteByte('\n')
	}
}

func printReport(out io.Writer, form string, report any) error {
	if form == "table" {
		return printTables(out, report)
	}
	data, err := json.MarshalIndent(report, "", " ")
	if err != nil {
		return fmt.Errorf("print report: %w", err)
	}
	if form == "yaml" {
		if data, err = yaml.JSONToYAML(data); err != nil {
			return fmt.Errorf("print report: %w", err)
		}
		_, err = out.Write(data)
		return err
	}
	_, err = fmt.Fprintf(out, "%s\n", data)
	return err
}
