package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/mumoshu/ingress-daemonset-controller/test/cluster/machine"
)

// tick is the unit of CPU times in /proc, the same on every Linux that Go runs on.
const tick = 0.01

// processes are the processes of the cluster and of the benchmark itself by
// the name of their program.
func processes(cluster string) (map[string]int, error) {
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		return nil, err
	}
	mark := []byte(machine.ClusterVariable + "=" + cluster + "\x00")
	out := map[string]int{}
	for _, file := range files {
		environ, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(append(environ, 0), mark) {
			continue
		}
		dir := filepath.Dir(file)
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			return nil, err
		}
		if program, err := os.Readlink(filepath.Join(dir, "exe")); err == nil {
			out[filepath.Base(program)] = pid
		}
	}
	return out, nil
}

// cpuSeconds is the CPU time that each process has used.
func cpuSeconds(cluster string) (map[string]float64, error) {
	pids, err := processes(cluster)
	if err != nil {
		return nil, err
	}
	out := map[string]float64{}
	for program, pid := range pids {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return nil, err
		}
		// The program's name comes second, in brackets, and may hold anything.
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		user, userErr := strconv.ParseFloat(fields[11], 64)
		system, systemErr := strconv.ParseFloat(fields[12], 64)
		if userErr != nil || systemErr != nil {
			return nil, fmt.Errorf("reading the CPU time of %s: %q", program, stat)
		}
		out[program] = (user + system) * tick
	}
	return out, nil
}

// peakMB is the most memory that the process has had resident.
func peakMB(pid int) (float64, error) { return memoryMB(pid, "VmHWM:") }

// memoryMB is a line of a process's status.
func memoryMB(pid int, name string) (float64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, name); ok {
			kB, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")), 64)
			return kB / 1024, err
		}
	}
	return 0, fmt.Errorf("no %s of process %d", name, pid)
}
