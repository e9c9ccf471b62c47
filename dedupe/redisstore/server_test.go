//go:build e2e

package redisstore

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os/exec"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// server is a real redis-server of the test's own.
type server struct {
	addr string
	dir  string
	args []string
	cmd  *exec.Cmd
	log  *bytes.Buffer
	gone chan error
}

// startServer starts redis-server on a free loopback port; it is killed at the
// end of the test. The test fails when there is no redis-server.
func startServer(t testing.TB, args ...string) *server {
	t.Helper()
	return launch(t, append([]string{
		"--save", "", "--enable-debug-command", "yes", "--maxmemory-policy", "noeviction", "--repl-diskless-sync-delay", "0",
	}, args...))
}

// startSentinel starts a Sentinel with a config file.
func startSentinel(t testing.TB, config string) *server {
	t.Helper()
	return launch(t, []string{config, "--sentinel"})
}

func launch(t testing.TB, args []string) *server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	s := &server{addr: addr, dir: t.TempDir(), args: args}
	s.start(t)
	t.Cleanup(s.kill)
	return s
}

func (s *server) start(t testing.TB) {
	t.Helper()
	_, port, err := net.SplitHostPort(s.addr)
	if err != nil {
		t.Fatal(err)
	}
	at := []string{"--port", port, "--bind", "127.0.0.1", "--dir", s.dir}
	if len(s.args) == 2 && s.args[1] == "--sentinel" {
		at = slices.Concat(s.args[:1], at, s.args[1:]) // the file comes first
	} else {
		at = append(at, s.args...)
	}
	s.log = &bytes.Buffer{}
	s.cmd = exec.Command("redis-server", at...)
	s.cmd.Stdout = s.log
	if err := s.cmd.Start(); err != nil {
		t.Fatalf("this test needs redis-server: %v", err)
	}
	cmd := s.cmd
	s.gone = make(chan error, 1)
	gone := s.gone
	go func() { gone <- cmd.Wait() }()
	client := redis.NewClient(&redis.Options{Addr: s.addr})
	defer func() { _ = client.Close() }() // nothing is left to lose
	for range 500 {
		if client.Ping(context.Background()).Err() == nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("redis-server does not answer:\n%s", s.log)
}

// kill is kill -9.
func (s *server) kill() {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Kill() // it may be gone already
	<-s.gone
	s.cmd = nil
}

// do sends a command as an operator would.
func (s *server) do(t testing.TB, args ...any) any {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: s.addr})
	defer func() { _ = client.Close() }() // nothing is left to lose
	v, err := client.Do(context.Background(), args...).Result()
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return v
}

// proxy stands between a store and its server, and can lose replies.
type proxy struct {
	listener net.Listener
	target   string
	// deaf counts down the replies that are lost, with their connection.
	deaf  atomic.Int32
	wg    sync.WaitGroup
	mu    sync.Mutex
	conns []net.Conn
}

func startProxy(t testing.TB, target string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: l, target: target}
	p.wg.Go(p.serve)
	t.Cleanup(func() {
		_ = l.Close() // ends serve
		p.cut()
		p.wg.Wait()
	})
	return p
}

func (p *proxy) addr() string { return p.listener.Addr().String() }

func (p *proxy) serve() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		upstream, err := net.Dial("tcp", p.target)
		if err != nil {
			_ = client.Close() // what a dead server looks like
			continue
		}
		p.mu.Lock()
		p.conns = append(p.conns, client, upstream)
		p.mu.Unlock()
		p.wg.Go(func() { p.copy(upstream, client, false) })
		p.wg.Go(func() { p.copy(client, upstream, true) })
	}
}

// copy moves bytes one way until either end is closed.
func (p *proxy) copy(to, from net.Conn, replies bool) {
	defer func() { _, _ = to.Close(), from.Close() }() // the other direction closes them too
	b := make([]byte, 64<<10)
	for {
		n, err := from.Read(b)
		if err != nil {
			return
		}
		if replies && p.deaf.Load() > 0 && p.deaf.Add(-1) >= 0 {
			return
		}
		if _, err := to.Write(b[:n]); err != nil {
			return
		}
	}
}

// cut closes every connection.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		_ = c.Close() // most are closed already
	}
	p.conns = nil
}

func (s *server) String() string { return fmt.Sprintf("redis-server at %s", s.addr) }
