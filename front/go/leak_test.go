package fipstls

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// resources counts what a test could leave behind.
type resources struct {
	goroutines, sockets       int
	conns, contexts, sessions int64
}

func countResources() resources {
	var r resources
	r.goroutines = runtime.NumGoroutine()
	entries, _ := os.ReadDir("/proc/self/fd")
	for _, entry := range entries {
		// Pipes are not counted: io.Copy between sockets keeps some.
		if target, _ := os.Readlink("/proc/self/fd/" + entry.Name()); strings.HasPrefix(target, "socket:") {
			r.sockets++
		}
	}
	r.conns, r.contexts, r.sessions = counters()
	return r
}

func (r resources) exceeds(before resources) bool {
	return r.goroutines > before.goroutines || r.sockets > before.sockets ||
		r.conns > before.conns || r.contexts > before.contexts || r.sessions > before.sessions
}

// leavesNothing fails the test if goroutines, descriptors or anything of libssl outlives it and its
// own cleanups. Call it first.
func leavesNothing(t testing.TB) {
	t.Helper()
	before := countResources()
	t.Cleanup(func() {
		deadline := time.Now().Add(5 * time.Second)
		for {
			after := countResources()
			if !after.exceeds(before) {
				return
			}
			if !after.exceeds(resources{after.goroutines, after.sockets, before.conns, before.contexts + 1, before.sessions}) {
				// net/http may still have been dialling behind a request's end, and built a configuration
				// again that the test had closed. What it built goes with it.
				runtime.GC()
			}
			if time.Now().After(deadline) {
				stacks := make([]byte, 1<<16)
				stacks = stacks[:runtime.Stack(stacks, true)]
				t.Errorf("left behind: %+v, before %+v\n%s", after, before, relevant(string(stacks)))
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
	})
}

// relevant leaves out the goroutines that every test has.
func relevant(stacks string) string {
	var kept []string
	for _, stack := range strings.Split(stacks, "\n\n") {
		if !strings.Contains(stack, "testing.(*T).Run") && !strings.Contains(stack, "runtime.Stack") {
			kept = append(kept, stack)
		}
	}
	return strings.Join(kept, "\n\n")
}

// reportLeftovers runs when all tests are done: 1 if a connection, context or session exists still.
func reportLeftovers() int {
	defaultConfig.Close()
	for range 50 {
		runtime.GC() // a Config that nobody closed goes by its cleanup
		conns, contexts, sessions := counters()
		if conns == 0 && contexts == 0 && sessions == 0 {
			return 0
		}
		time.Sleep(10 * time.Millisecond)
	}
	conns, contexts, sessions := counters()
	fmt.Fprintf(os.Stderr, "left behind after all tests: %d connections, %d contexts, %d sessions\n", conns, contexts, sessions)
	return 1
}
