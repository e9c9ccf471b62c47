package server

import (
	"context"

	"github.com/sidecall/sidecall/internal/call"
	"github.com/sidecall/sidecall/internal/conversation"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// Conversations is the ConversationService of a sidecar: a loop says when a prompt
// begins and ends, and keeps its messages.
type Conversations struct {
	sidecallv1.UnimplementedConversationServiceServer

	Executor *call.Executor
	// Book keeps the messages.
	Book *conversation.Book
	// Offered are as in Service.
	Offered []string
}

// StartPrompt begins a prompt.
func (s *Conversations) StartPrompt(ctx context.Context, req *sidecallv1.StartPromptRequest) (*sidecallv1.StartPromptResponse, error) {
	budget, err := s.Executor.Prompts().StartPrompt(ctx, s.prompt(ctx, req))
	if err != nil {
		return nil, statusOf(err)
	}
	return &sidecallv1.StartPromptResponse{Budget: budget}, nil
}

// EndPrompt ends a prompt.
func (s *Conversations) EndPrompt(ctx context.Context, req *sidecallv1.EndPromptRequest) (*sidecallv1.EndPromptResponse, error) {
	res, err := s.Executor.Prompts().EndPrompt(ctx, s.prompt(ctx, req), req.GetExitReason())
	return res, statusOf(err)
}

// prompted is what every request about a prompt holds.
type prompted interface {
	GetConversationId() string
	GetPromptId() string
	GetProfile() string
}

// prompt is the one that a request is about: of its own tenant, whatever it names.
func (s *Conversations) prompt(ctx context.Context, req prompted) call.Prompt {
	return call.Prompt{
		Tenant: tenant(ctx), Conversation: req.GetConversationId(), ID: req.GetPromptId(),
		Choice: call.Choice{Profile: req.GetProfile(), Offered: s.Offered},
	}
}
