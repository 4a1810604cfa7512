// Command bench measures what a client pays for libssl's TLS instead of crypto/tls: CPU time, wall
// time and allocations of one operation, against a server of crypto/tls in a process of its own.
//
//	go run . -out ../../../bench/results/go-NAME.ndjson
//	go run . -rounds 3 -cases pooled,full -libs system=
//	go run . -before BENCH     by turns with the clients of a bench that was built from an earlier commit
//
// Each round runs every case once with each client, one after the other, so that a load on the machine
// meets all of them; the table has the medians of the rounds. A client is a process of its own, and
// what it pays is its user and system time (getrusage).
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// row is one run of one client, and a line of the results.
type row struct {
	Case     string  `json:"case"`
	Groups   string  `json:"groups"` // "default", or the one that both sides are pinned to
	Client   string  `json:"client"` // "crypto/tls", or the libssl by its name
	Version  string  `json:"version"`
	Group    string  `json:"group"` // what was negotiated
	Round    int     `json:"round"`
	Ops      int     `json:"ops"`
	WallNs   float64 `json:"wall_ns_per_op"`
	CPUNs    float64 `json:"cpu_ns_per_op"`
	Bytes    float64 `json:"bytes_per_op"`
	Allocs   float64 `json:"allocs_per_op"`
	HeapKiB  uint64  `json:"go_heap_kib"`
	CHeapKiB uint64  `json:"c_heap_kib"` // what C's malloc holds when the work is done
	PeakKiB  int64   `json:"rss_peak_kib"`
	Load     string  `json:"load"` // of the machine, one minute
	Machine  string  `json:"machine"`
	Compiler string  `json:"compiler"`
}

// goal is what a ratio to crypto/tls should be at most; 0 is none.
type goal struct{ old, v3, v4 float64 }

var goals = map[string]goal{
	"pooled": {1.15, 1.15, 1.15}, "get-1m": {1, 1, 1}, "grpc": {1.05, 1.05, 1.05},
	"resumed": {1, 1.2, 1.2}, "full": {1, 1.7, 1.35},
}

func (g goal) of(version string) float64 {
	switch {
	case strings.HasPrefix(version, "OpenSSL 1."):
		return g.old
	case strings.HasPrefix(version, "OpenSSL 4."):
		return g.v4
	case strings.HasPrefix(version, "OpenSSL 3.0") && g.v3 == 1.2:
		return g.old // a resumed connection on 3.0 has the goal of 1.1.1
	}
	return g.v3
}

func main() {
	serveFlag := flag.Bool("serve", false, "be the server")
	client := flag.String("client", "", "be a client: crypto/tls or fipstls")
	lib := flag.String("lib", "", "the client's libssl")
	name := flag.String("name", "", "the client's name in the results")
	target := flag.String("target", "", "folder with the server's addresses and certificate")
	kind := flag.String("case", "", "the client's case")
	group := flag.String("group", "", "pin the client to a group")
	fips := flag.Bool("fips", false, "the client requires FIPS")
	round := flag.Int("round", 0, "number of the round, for the results")
	rounds := flag.Int("rounds", 5, "rounds")
	cases := flag.String("cases", "pooled,get-1m,mixed,full,resumed,grpc", "cases to run")
	libs := flag.String("libs", defaultLibs(), "NAME=PATH of each libssl; -fips at a name's end requires FIPS")
	out := flag.String("out", "", "file for the results; none without it")
	before := flag.String("before", "", "bench of an earlier commit, whose clients run by turns with these")
	flag.Parse()
	var err error
	switch {
	case *serveFlag:
		err = serve(*target)
	case *client != "":
		err = runClient(clientOptions{*client, *lib, *name, *target, *kind, *group, *fips, *round})
	default:
		err = compare(*rounds, strings.Split(*cases, ","), strings.Split(*libs, ","), *before, *out)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// defaultLibs are the system's libssl and those that are built in the cache.
func defaultLibs() string {
	libs := []string{"system="}
	cache, err := os.UserCacheDir()
	if err != nil {
		return libs[0]
	}
	found, _ := filepath.Glob(filepath.Join(cache, "gabion/openssl/*/lib/libssl.so"))
	for _, file := range found {
		name := filepath.Base(filepath.Dir(filepath.Dir(file)))
		libs = append(libs, name+"="+file)
		if strings.HasPrefix(name, "bundle") {
			libs = append(libs, name+"-fips="+file)
		}
	}
	return strings.Join(libs, ",")
}

// compare starts the server, runs the clients round after round, and prints the table.
func compare(rounds int, cases, libs []string, before, out string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "fipstls-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	server := exec.Command(self, "-serve", "-target", folder)
	server.Stderr = os.Stderr
	said, err := server.StdoutPipe()
	if err != nil {
		return err
	}
	if err := server.Start(); err != nil {
		return err
	}
	defer func() { server.Process.Kill(); server.Wait() }()
	if _, err := bufio.NewReader(said).ReadString('\n'); err != nil {
		return fmt.Errorf("the server did not start: %w", err)
	}
	var rows []row
	for round := range rounds {
		for _, kind := range cases {
			groups := []string{""}
			if kind == "full" || kind == "resumed" {
				groups = append(groups, "X25519")
			}
			for _, group := range groups {
				got, err := oneRound(clientsOf(self, before, libs, round), folder, kind, group, round)
				if err != nil {
					return err
				}
				rows = append(rows, got...)
			}
		}
		fmt.Fprintf(os.Stderr, "round %d of %d\n", round+1, rounds)
	}
	if out != "" {
		if err := write(out, rows); err != nil {
			return err
		}
	}
	table(os.Stdout, rows)
	against(os.Stdout, rows)
	heaps(os.Stdout, rows)
	return nil
}

// beforeMark ends the name of a client of an earlier commit.
const beforeMark = ", before"

// contender is one that is measured: whose code it is, and which libssl it loads.
type contender struct{ binary, kind, name, lib string }

// clientsOf are those of a round. One of an earlier commit stands beside its successor, now behind it and
// now in front: who comes second finds the machine warmer.
func clientsOf(self, before string, libs []string, round int) []contender {
	clients := []contender{{self, "crypto/tls", "crypto/tls", ""}}
	for _, lib := range libs {
		name, file, _ := strings.Cut(lib, "=")
		pair := []contender{{self, "fipstls", name, file}}
		if before != "" {
			pair = append(pair, contender{before, "fipstls", name + beforeMark, file})
		}
		if round%2 == 1 {
			slices.Reverse(pair)
		}
		clients = append(clients, pair...)
	}
	return clients
}

func oneRound(clients []contender, folder, kind, group string, round int) ([]row, error) {
	var rows []row
	for _, c := range clients {
		fips := strings.HasSuffix(strings.TrimSuffix(c.name, beforeMark), "-fips")
		if fips && group == "X25519" {
			continue // not approved
		}
		command := exec.Command(c.binary, "-client", c.kind, "-name", c.name, "-lib", c.lib, "-target", folder,
			"-case", kind, "-group", group, fmt.Sprintf("-fips=%v", fips), fmt.Sprintf("-round=%d", round))
		command.Stderr = os.Stderr
		text, err := command.Output()
		if err != nil {
			return nil, fmt.Errorf("%s with %s: %w", kind, c.name, err)
		}
		var r row
		if err := json.Unmarshal(text, &r); err != nil {
			return nil, err
		}
		rows = append(rows, r)
	}
	return rows, nil
}

func write(file string, rows []row) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	encoder := json.NewEncoder(f)
	encoder.SetEscapeHTML(false)
	for _, r := range rows {
		if err := encoder.Encode(r); err != nil {
			return err
		}
	}
	return f.Close()
}

// table prints medians: the CPU of an operation, its ratio to crypto/tls, and the goal.
func table(w io.Writer, rows []row) {
	type key struct{ kind, groups, client string }
	values := map[key][]row{}
	var order []key
	for _, r := range rows {
		k := key{r.Case, r.Groups, r.Client}
		if values[k] == nil {
			order = append(order, k)
		}
		values[k] = append(values[k], r)
	}
	median := func(k key, of func(row) float64) float64 {
		var all []float64
		for _, r := range values[k] {
			all = append(all, of(r))
		}
		if len(all) == 0 {
			return 0
		}
		slices.Sort(all)
		return all[len(all)/2]
	}
	cpu := func(r row) float64 { return r.CPUNs }
	fmt.Fprintf(w, "%-8s %-8s %-18s %-18s %10s %7s %6s %10s %9s %8s %8s %9s\n", "case", "groups", "client", "group",
		"CPU us/op", "ratio", "goal", "wall us/op", "B/op", "B ratio", "allocs", "al ratio")
	for _, k := range order {
		base := key{k.kind, k.groups, "crypto/tls"}
		first := values[k][0]
		goalText := "-"
		if g, ok := goals[k.kind]; ok && k.groups == "default" && k.client != "crypto/tls" {
			goalText = fmt.Sprintf("%.2f", g.of(first.Version))
		}
		fmt.Fprintf(w, "%-8s %-8s %-18s %-18s %10.1f %7.2f %6s %10.1f %9.0f %8.2f %8.0f %9.2f\n", k.kind, k.groups, k.client, first.Group,
			median(k, cpu)/1000, median(k, cpu)/median(base, cpu), goalText,
			median(k, func(r row) float64 { return r.WallNs })/1000,
			median(k, func(r row) float64 { return r.Bytes }),
			median(k, func(r row) float64 { return r.Bytes })/median(base, func(r row) float64 { return r.Bytes }),
			median(k, func(r row) float64 { return r.Allocs }),
			median(k, func(r row) float64 { return r.Allocs })/median(base, func(r row) float64 { return r.Allocs }))
	}
}

// against prints what a client costs now, as a ratio to the earlier commit's in the same round: the median
// of the rounds, and the least and the greatest.
func against(w io.Writer, rows []row) {
	type key struct {
		kind, groups, client string
		round                int
	}
	before := map[key]row{}
	for _, r := range rows {
		if name, isBefore := strings.CutSuffix(r.Client, beforeMark); isBefore {
			before[key{r.Case, r.Groups, name, r.Round}] = r
		}
	}
	ratios := map[key][]float64{}
	var order []key
	for _, r := range rows {
		old, ok := before[key{r.Case, r.Groups, r.Client, r.Round}]
		if !ok {
			continue
		}
		k := key{r.Case, r.Groups, r.Client, 0}
		if ratios[k] == nil {
			order = append(order, k)
		}
		ratios[k] = append(ratios[k], r.CPUNs/old.CPUNs)
	}
	if len(order) > 0 {
		fmt.Fprintf(w, "\n%-8s %-8s %-18s %10s %7s %7s\n", "CPU", "groups", "client", "to before", "least", "most")
	}
	for _, k := range order {
		all := ratios[k]
		slices.Sort(all)
		fmt.Fprintf(w, "%-8s %-8s %-18s %10.3f %7.3f %7.3f\n", k.kind, k.groups, k.client, all[len(all)/2], all[0], all[len(all)-1])
	}
}

// heaps prints what gRPC's messages took of either heap, in MiB: all that Go allocated, what C's malloc
// holds in the end, and the process's peak. The last round of each client.
func heaps(w io.Writer, rows []row) {
	last := map[string]row{}
	var order []string
	for _, r := range rows {
		if r.Case != "grpc" {
			continue
		}
		if _, ok := last[r.Client]; !ok {
			order = append(order, r.Client)
		}
		last[r.Client] = r
	}
	if len(order) == 0 {
		return
	}
	fmt.Fprintf(w, "\n%-18s %14s %12s %12s %12s\n", "gRPC, memory", "Go allocated", "Go heap", "C heap", "peak")
	for _, name := range order {
		r := last[name]
		fmt.Fprintf(w, "%-18s %13.1fM %11.1fM %11.2fM %11.1fM\n", name, r.Bytes*float64(r.Ops)/(1<<20), float64(r.HeapKiB)/1024,
			float64(r.CHeapKiB)/1024, float64(r.PeakKiB)/1024)
	}
}

// machine is the processor's name.
func machine() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	for line := range strings.Lines(string(text)) {
		if name, ok := strings.CutPrefix(line, "model name"); ok {
			return strings.TrimSpace(strings.TrimLeft(name, "\t :"))
		}
	}
	return runtime.GOARCH
}

func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return ""
	}
	first, _, _ := strings.Cut(string(text), " ")
	return first
}
