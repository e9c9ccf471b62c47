// Command floor is the yardstick of the benchmarks: the least that a proxy with
// a memory can do, and nothing else. A bare gRPC server that does Redis SET NX,
// then the HTTP POST, then Redis SET; or with a file in the place of Redis a line that is
// synced, the POST, and a line that is not. It checks nothing, retries nothing,
// bounds nothing and forgets the answer of a duplicate.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// memory is what the floor remembers calls with.
type memory interface {
	// claim reports whether nobody has claimed a key before.
	claim(ctx context.Context, key string) (bool, error)
	settle(ctx context.Context, key string, result []byte) error
}

type inRedis struct{ *redis.Client }

func (r inRedis) claim(ctx context.Context, key string) (bool, error) {
	return r.SetNX(ctx, key, "claimed", time.Hour).Result()
}

func (r inRedis) settle(ctx context.Context, key string, result []byte) error {
	return r.Set(ctx, key, result, time.Hour).Err()
}

// inFile has its own sync for each claim, which is what one call in flight costs at least.
type inFile struct {
	mu   sync.Mutex
	file *os.File
	keys map[string]bool
}

func (f *inFile) claim(_ context.Context, key string) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.keys[key] {
		return false, nil
	}
	f.keys[key] = true
	_, err := fmt.Fprintln(f.file, key)
	return true, errors.Join(err, f.file.Sync())
}

func (f *inFile) settle(_ context.Context, key string, result []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, err := fmt.Fprintf(f.file, "%s %s\n", key, result)
	return err
}

type floor struct {
	sidecallv1.UnimplementedToolServiceServer
	memory   memory
	http     *http.Client
	upstream string
}

// ExecuteTool is the whole program.
func (f *floor) ExecuteTool(ctx context.Context, req *sidecallv1.ExecuteToolRequest) (*sidecallv1.ExecuteToolResponse, error) {
	key := "floor:" + req.GetConversationId() + ":" + req.GetTurnId() + ":" + req.GetToolUseId()
	won, err := f.memory.claim(ctx, key)
	if err != nil {
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	if !won {
		return nil, status.Error(codes.AlreadyExists, "duplicate")
	}
	post, err := http.NewRequestWithContext(ctx, http.MethodPost, f.upstream, bytes.NewReader([]byte(req.GetArgumentsJson())))
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	post.Header.Set("Content-Type", "application/json")
	res, err := f.http.Do(post)
	if err != nil {
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	body, err := io.ReadAll(res.Body)
	if err := res.Body.Close(); err != nil {
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	if err != nil {
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	if err := f.memory.settle(ctx, key, body); err != nil {
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	return &sidecallv1.ExecuteToolResponse{
		ToolUseId: req.GetToolUseId(), Outcome: sidecallv1.Outcome_OUTCOME_OK, Content: string(body),
	}, nil
}

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "address to serve on")
	redisAddr := flag.String("redis", "127.0.0.1:6379", "address of Redis")
	path := flag.String("file", "", "remember in this file, and not in Redis")
	upstream := flag.String("upstream", "http://127.0.0.1:9001/echo", "URL to post to")
	flag.Parse()

	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		log.Fatal(err)
	}
	remembers := memory(inRedis{redis.NewClient(&redis.Options{Addr: *redisAddr, PoolSize: 64})})
	if *path != "" {
		file, err := os.OpenFile(*path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
		if err != nil {
			log.Fatal(err)
		}
		remembers = &inFile{file: file, keys: make(map[string]bool)}
	}
	transport := &http.Transport{MaxIdleConnsPerHost: 256}
	server := grpc.NewServer()
	sidecallv1.RegisterToolServiceServer(server, &floor{
		memory:   remembers,
		http:     &http.Client{Transport: transport},
		upstream: *upstream,
	})
	fmt.Println("ready", listener.Addr())
	if err := server.Serve(listener); err != nil {
		log.Fatal(err)
	}
}
