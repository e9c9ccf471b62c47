//go:build prove

package conversations

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/grpc"

	sidecall "github.com/sidecall/sidecall/clients/go"
	"github.com/sidecall/sidecall/internal/provider"
)

// jobVariable makes the test binary an agent, with its job as JSON.
const jobVariable = "SIDECALL_PROVE_AGENT"

// job is what an agent has to do: the conversation, and where it dies.
type job struct {
	Sidecar, Provider, Shop string
	Conversation            string
	Format                  sidecall.Format
	// Kill is a method of the sidecar, Nth which request of it, counted from 0, and When
	// the agent dies: before it, in it or after it. Empty for an agent that lives.
	Kill, When string
	Nth        int
}

func TestMain(m *testing.M) {
	text := os.Getenv(jobVariable)
	if text == "" {
		os.Exit(m.Run())
	}
	var j job
	err := json.Unmarshal([]byte(text), &j)
	if err == nil {
		err = j.do(context.Background())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// do is an agent: it begins a conversation, or goes on with it.
func (j *job) do(ctx context.Context) error {
	client, err := sidecall.Dial("tcp://"+j.Sidecar, grpc.WithUnaryInterceptor(j.fate()))
	if err != nil {
		return err
	}
	kept, err := client.Conversation(ctx, j.Conversation, j.Format)
	if err != nil {
		return err
	}
	var messages []any
	if len(kept.Messages) == 0 {
		messages = append(messages, map[string]any{"role": "user", "content": "Pay."})
	}
	loop, err := client.RunLoop(ctx, j.ask, messages, sidecall.LoopOptions{Keep: kept})
	if err == nil && loop.ExitReason != "end_turn" {
		err = fmt.Errorf("it ended with %s", loop.ExitReason)
	}
	return errors.Join(err, client.Close())
}

func die() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL) }

// fate kills the agent at its request.
func (j *job) fate() grpc.UnaryClientInterceptor {
	count := 0 // an agent asks one thing at a time
	return func(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		if path.Base(method) != j.Kill {
			return invoke(ctx, method, req, reply, conn, opts...)
		}
		mine := count == j.Nth
		count++
		switch {
		case !mine:
		case j.When == "before":
			die()
		case j.When == "in":
			go die()
		}
		err := invoke(ctx, method, req, reply, conn, opts...)
		if mine && j.When == "after" {
			die()
		}
		return err
	}
}

// endpoints are where each format is spoken.
var endpoints = map[sidecall.Format]string{
	sidecall.Anthropic: "/v1/messages", sidecall.OpenAI: "/v1/chat/completions", sidecall.OpenAIResponses: "/v1/responses",
}

// ask asks the model, and tells the shop who is going to pay, so that it can kill the
// agent in the middle of that.
func (j *job) ask(ctx context.Context, messages []json.RawMessage) (any, error) {
	said, err := askProvider(ctx, j.Provider, j.Format, messages)
	if err != nil {
		return nil, err
	}
	turn, err := provider.Read(string(said))
	if err != nil {
		return nil, err
	}
	for _, c := range turn.Calls {
		var args struct{ Order string }
		if err := json.Unmarshal([]byte(c.Arguments), &args); err != nil {
			return nil, err
		}
		res, err := http.Post(j.Shop+"/payer/"+args.Order, "text/plain", strings.NewReader(strconv.Itoa(os.Getpid())))
		if err != nil {
			return nil, err
		}
		if err := res.Body.Close(); err != nil {
			return nil, err
		}
	}
	return said, nil
}

// askProvider sends an array as the provider's format has it; an error is its refusal.
func askProvider(ctx context.Context, provider string, format sidecall.Format, messages []json.RawMessage) (json.RawMessage, error) {
	field := "messages"
	if format == sidecall.OpenAIResponses {
		field = "input"
	}
	body, err := json.Marshal(map[string]any{"model": "played", "max_tokens": 100, field: messages})
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, provider+endpoints[format], bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("the provider refuses the array: %s", text)
	}
	return text, err
}
