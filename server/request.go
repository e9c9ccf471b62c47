package server

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/sidecall/sidecall/internal/call"
	"github.com/sidecall/sidecall/internal/tool"
)

// tenantOf names the tenant of a listener that offers profiles of its own: by the set of
// them, which is the same on every replica and after every restart. Its address is not:
// a socket and a port of the same agent are one tenant, and one id runs once on both.
// Who can reach two listeners that offer the same gains nothing by it. A listener that
// offers every profile is of the tenant without a name.
func tenantOf(offered []string) string {
	return strings.Join(slices.Sorted(slices.Values(offered)), ",") // no profile has a comma in its name
}

type tenantKey struct{}

// tenant is whom the records of a request belong to.
func tenant(ctx context.Context) string {
	name, _ := ctx.Value(tenantKey{}).(string)
	return name
}

// namesTenant reports whether a request says of which tenant it is.
func namesTenant(ctx context.Context) bool { return ctx.Value(tenantKey{}) != nil }

// ofTenant makes all requests of a server those of one tenant.
func ofTenant(name string) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		return next(context.WithValue(ctx, tenantKey{}, name), req)
	}
}

// clientHeader is the metadata in which a program says what it calls itself, for the
// workers that serve its own calls alone.
const clientHeader = "sidecall-client"

// client is what the program calls itself that has sent a request.
func client(ctx context.Context) string {
	if named := metadata.ValueFromIncomingContext(ctx, clientHeader); len(named) > 0 {
		return named[0]
	}
	return ""
}

// tenantHeader is the metadata in which an operator names a tenant.
const tenantHeader = "sidecall-tenant"

// ofTenantNamed is for operators, who may ask for the records of any tenant.
func ofTenantNamed(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if named := metadata.ValueFromIncomingContext(ctx, tenantHeader); len(named) > 0 {
		return ofTenant(named[0])(ctx, req, info, next)
	}
	return next(ctx, req)
}

// identified is what every request about one call holds.
type identified interface {
	GetConversationId() string
	GetTurnId() string
	GetToolUseId() string
}

// keyOf returns the identity of the call that a request is about; an error when
// it can be none.
func keyOf(ctx context.Context, req identified) (tool.CallID, error) {
	key, nameless := call.KeyOf(tenant(ctx), req)
	if nameless != nil {
		return key, invalid(nameless)
	}
	return key, nil
}

// invalid is the status of a request that only the program can correct.
func invalid(why *tool.Error) error {
	return status.Error(codes.InvalidArgument, fmt.Sprintf("%s: %s", why.Field, why.Constraint))
}
