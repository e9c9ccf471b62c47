// Command floor is the yardstick of the benchmarks: the least that a proxy with
// a memory can do, and nothing else. A bare gRPC server that does Redis SET NX,
// then the HTTP POST, then Redis SET. It checks nothing, retries nothing,
// bounds nothing and forgets the answer of a duplicate.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/redis/go-redis/v9"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

type floor struct {
	sidecallv1.UnimplementedToolServiceServer
	redis    *redis.Client
	http     *http.Client
	upstream string
}

// ExecuteTool is the whole program.
func (f *floor) ExecuteTool(ctx context.Context, req *sidecallv1.ExecuteToolRequest) (*sidecallv1.ExecuteToolResponse, error) {
	key := "floor:" + req.GetConversationId() + ":" + req.GetTurnId() + ":" + req.GetToolUseId()
	won, err := f.redis.SetNX(ctx, key, "claimed", time.Hour).Result()
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
	if err := f.redis.Set(ctx, key, body, time.Hour).Err(); err != nil {
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	return &sidecallv1.ExecuteToolResponse{
		ToolUseId: req.GetToolUseId(), Outcome: sidecallv1.Outcome_OUTCOME_OK, Content: string(body),
	}, nil
}

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "address to serve on")
	redisAddr := flag.String("redis", "127.0.0.1:6379", "address of Redis")
	upstream := flag.String("upstream", "http://127.0.0.1:9001/echo", "URL to post to")
	flag.Parse()

	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		log.Fatal(err)
	}
	transport := &http.Transport{MaxIdleConnsPerHost: 256}
	server := grpc.NewServer()
	sidecallv1.RegisterToolServiceServer(server, &floor{
		redis:    redis.NewClient(&redis.Options{Addr: *redisAddr, PoolSize: 64}),
		http:     &http.Client{Transport: transport},
		upstream: *upstream,
	})
	fmt.Println("ready", listener.Addr())
	if err := server.Serve(listener); err != nil {
		log.Fatal(err)
	}
}
