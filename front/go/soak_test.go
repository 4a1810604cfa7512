package fipstls

import (
	"crypto/tls"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// isSoak is set by `make soak`, which has the long counts.
var isSoak = os.Getenv("GABION_SOAK") != ""

func longer(short, long int) int {
	if isSoak {
		return long
	}
	return short
}

// Both directions at once, 1 GiB each in a soak.
func TestSoakDuplex(t *testing.T) {
	leavesNothing(t)
	w := newWorld(t)
	client, server := connected(t, w.clientConfig(t), w.serverConfig(t))
	began, size := time.Now(), longer(32<<20, 1<<30)
	duplex(t, client, server, size)
	t.Logf("%d MiB each way in %s", size>>20, time.Since(began).Round(time.Millisecond))
}

// Connections come and go, 100 000 in a soak, without the process growing.
func TestSoakConnections(t *testing.T) {
	leavesNothing(t)
	w := newWorld(t)
	config, serverConfig := w.clientConfig(t), goServer(t, w)
	listener, err := tls.Listen("tcp", "127.0.0.1:0", serverConfig)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() { io.Copy(conn, conn); conn.Close() }()
		}
	}()
	run := func(count int) {
		var wg sync.WaitGroup
		for range 8 {
			wg.Add(1)
			go func() {
				defer wg.Done()
				for range count / 8 {
					conn, err := Dial("tcp", listener.Addr().String(), config)
					if err != nil {
						t.Error(err)
						return
					}
					conn.Write([]byte("hello"))
					got := make([]byte, 5)
					if _, err := io.ReadFull(conn, got); err != nil || string(got) != "hello" {
						t.Errorf("%q, %v", got, err)
					}
					conn.Close()
				}
			}()
		}
		wg.Wait()
	}
	count := longer(800, 100_000)
	run(count / 4) // what pools and caches need is taken by then
	before := residentKiB(t)
	run(count - count/4)
	// 100 000 leaks of one SSL would be gigabytes.
	grown := residentKiB(t) - before
	t.Logf("%d connections; the process has %d KiB, of which %d came with the last %d", count, before+grown, grown, count-count/4)
	if grown > 16<<10 {
		t.Errorf("the process grew by %d KiB in %d connections", grown, count-count/4)
	}
}

func residentKiB(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Skip("no /proc to read the process's size from")
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "VmRSS:" {
			kib, _ := strconv.Atoi(fields[1])
			return kib
		}
	}
	t.Fatal("no VmRSS")
	return 0
}
