// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package pack

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// Trace is a cluster and the tasks that arrived at it.
type Trace struct {
	Nodes []Node
	Tasks []Task
	// Models names the GPU models by index.
	Models []string
}

// Bounds of what a trace may hold.
const (
	maxModels   = 63
	maxGPUs     = 1024
	maxQuantity = 1 << 40
)

// Capacity is the GPU capacity of all nodes, in thousandths.
func (t *Trace) Capacity() int64 {
	var sum int64
	for i := range t.Nodes {
		free, _ := t.Nodes[i].free()
		sum += free
	}
	return sum
}

// ReadTrace reads CSV files with a header; columns are found by name. Nodes:
// cpu_milli, memory_mib, gpu (count), model. Tasks: cpu_milli, memory_mib,
// num_gpu, gpu_milli (of one GPU, where num_gpu is 1), gpu_spec (allowed models
// joined with "|"; empty or missing is any). Errors name file, line and column.
func ReadTrace(nodes, tasks io.Reader) (*Trace, error) {
	t := &Trace{}
	if err := eachRow("nodes", nodes, []string{"cpu_milli", "memory_mib", "gpu"}, t.addNode); err != nil {
		return nil, err
	}
	if err := eachRow("tasks", tasks, []string{"cpu_milli", "memory_mib", "num_gpu", "gpu_milli"}, t.addTask); err != nil {
		return nil, err
	}
	return t, nil
}

// row is one line of a file.
type row struct {
	file    string
	line    int
	columns map[string]int
	fields  []string
}

func eachRow(file string, in io.Reader, needed []string, add func(row) error) error {
	reader := csv.NewReader(in)
	header, err := reader.Read()
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("%s: the file is empty", file)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	columns := map[string]int{}
	for i, name := range header {
		columns[strings.TrimSpace(name)] = i
	}
	for _, name := range needed {
		if _, ok := columns[name]; !ok {
			return fmt.Errorf("%s: column %s is missing; the header has %s", file, name, strings.Join(header, ", "))
		}
	}
	for {
		fields, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		line, _ := reader.FieldPos(0)
		if err := add(row{file, line, columns, fields}); err != nil {
			return err
		}
	}
}

func (r row) text(column string) string {
	i, ok := r.columns[column]
	if !ok {
		return ""
	}
	return strings.TrimSpace(r.fields[i])
}

// number reads a whole number; empty is 0.
func (r row) number(column string, most int64) (int64, error) {
	text := r.text(column)
	if text == "" {
		return 0, nil
	}
	v, err := strconv.ParseInt(text, 10, 64)
	if err != nil || v < 0 || v > most {
		return 0, fmt.Errorf("%s line %d: %s is %q; allowed: whole numbers from 0 to %d", r.file, r.line, column, text, most)
	}
	return v, nil
}

func (t *Trace) model(r row, name string) (int, error) {
	if i := slices.Index(t.Models, name); i >= 0 {
		return i, nil
	}
	if len(t.Models) == maxModels {
		return 0, fmt.Errorf("%s line %d: GPU model %s is one too many; at most %d are allowed", r.file, r.line, name, maxModels)
	}
	t.Models = append(t.Models, name)
	return len(t.Models) - 1, nil
}

func (t *Trace) addNode(r row) error {
	cpu, err1 := r.number("cpu_milli", maxQuantity)
	memory, err2 := r.number("memory_mib", maxQuantity)
	gpus, err3 := r.number("gpu", maxGPUs)
	model, err4 := t.model(r, r.text("model"))
	for _, err := range []error{err1, err2, err3, err4} {
		if err != nil {
			return err
		}
	}
	n := Node{Model: model, CPUMilli: cpu, MemoryMiB: memory, Free: make([]int32, gpus)}
	for g := range n.Free {
		n.Free[g] = Whole
	}
	t.Nodes = append(t.Nodes, n)
	return nil
}

func (t *Trace) addTask(r row) error {
	cpu, err1 := r.number("cpu_milli", maxQuantity)
	memory, err2 := r.number("memory_mib", maxQuantity)
	gpus, err3 := r.number("num_gpu", maxGPUs)
	milli, err4 := r.number("gpu_milli", Whole)
	for _, err := range []error{err1, err2, err3, err4} {
		if err != nil {
			return err
		}
	}
	task := Task{CPUMilli: cpu, MemoryMiB: memory, GPUs: int(gpus)}
	switch {
	case gpus > 1:
		task.Milli = Whole
	case gpus == 1 && milli == 0:
		return fmt.Errorf("%s line %d: gpu_milli is 0 for a task with a GPU; allowed: 1 to %d", r.file, r.line, Whole)
	case gpus == 1:
		task.Milli = int32(milli)
	}
	if spec := r.text("gpu_spec"); spec != "" && gpus > 0 {
		for name := range strings.SplitSeq(spec, "|") {
			model, err := t.model(r, strings.TrimSpace(name))
			if err != nil {
				return err
			}
			task.Models |= 1 << uint(model)
		}
	}
	t.Tasks = append(t.Tasks, task)
	return nil
}

// Arrivals shuffles the tasks with a seed and takes them until their GPU demand
// is at least percent of the capacity; if there are too few, tasks are repeated
// at random.
func (t *Trace) Arrivals(seed uint64, percent int64) ([]Task, error) {
	random := NewRandom(seed)
	order := slices.Clone(t.Tasks)
	random.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	var total int64
	for i := range order {
		total += order[i].Demand()
	}
	capacity := t.Capacity()
	if total == 0 || capacity == 0 {
		return nil, errors.New("the trace has no GPUs, or no task that asks for one")
	}
	var out []Task
	for demand := int64(0); demand*100 < percent*capacity; {
		i := len(out)
		if i >= len(order) {
			i = int(random.Below(uint64(len(order))))
		}
		out = append(out, order[i])
		demand += order[i].Demand()
	}
	return out, nil
}
